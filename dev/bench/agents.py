"""The agents of all pods of a JobSet, in a thread with an event loop of its own.

For each running pod it does what `agent` does in it: list the JobSet, report, watch on a connection of its own; what
that means is decided by `agent.decision`. It also does what the kubelet would: an agent that ends is started again, one
whose pod is deleted or whose node is silent is not. Where workers alone restart, as with RESTART_WORKER_ONLY, agents
whose attempt is over do not end: they report on a second connection and keep their watch.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import uvloop

from agent.decision import Action, Own, decide, following_attempt, next_attempt
from api import keys
from controllers.resources import JOBSETS
from dev.bench.loop import Loop, running_loop
from dev.bench.scene import STALL_SECONDS, Scene, wait
from dev.cluster.node_faults import SILENT
from kube.client import Client, PatchType
from kube.config import load
from kube.errors import KubeError
from kube.informer import Informer
from kube.model.meta import Base, Identity
from kube.resources import PODS
from kube.store import ChangeKind
from kube.transport import MAX_IN_FLIGHT, HttpTransport

JSON = dict[str, Any]
Connect = Callable[[], AbstractAsyncContextManager[Client]]
"""A client with a connection of its own."""

Key = tuple[str, str]
"""Namespace and name of a JobSet."""

JOBSET = "bench"
MANAGER = "in-place-restart-agent"
UNLIMITED = 100_000
WATCH_SECONDS = 300
PAUSE = 0.5
"""Seconds until the next try after an error, as with the agents."""


class SeenMeta(Identity, frozen=True, kw_only=True):
    """Metadata of a pod as far as it decides whether its agent runs."""

    deletion_timestamp: str | None = None
    annotations: dict[str, str] = {}


class SeenStatus(Base, frozen=True, kw_only=True):
    """Its status, likewise."""

    phase: str = ""


class SeenPod(Base, frozen=True, kw_only=True):
    """A pod of the set."""

    metadata: SeenMeta
    status: SeenStatus = SeenStatus()

    @property
    def runs(self) -> bool:
        """Whether processes run in it that can reach the API server."""
        meta = self.metadata
        return self.status.phase == "Running" and meta.deletion_timestamp is None and SILENT not in meta.annotations


class SimulatedAgent:
    """One run of one agent. `on_lift` is called with the attempt when it lets its worker go.

    With `second` the run continues when its attempt is over.
    """

    def __init__(
        self, client: Client, second: Connect | None, pod: SeenPod, jobset: str, on_lift: Callable[[int], None]
    ) -> None:
        self._client = client
        self._second = second
        self._pod = pod.metadata
        self._jobset = jobset
        self._on_lift = on_lift
        self._own = Own()
        self._version = ""

    async def run(self) -> None:
        """Until its attempt is over; errors lead back to the list."""
        while True:
            try:
                if await self._round() is Action.RESTART:
                    return
            except KubeError as error:
                print(error, file=sys.stderr, flush=True)
                await asyncio.sleep(random.uniform(PAUSE / 2, PAUSE))  # noqa: S311 -- keeps agents apart

    async def _round(self) -> Action:
        namespace, select = self._pod.namespace, f"metadata.name={self._jobset}"
        page = await self._client.list(JOBSETS, namespace=namespace, field_selector=select)
        self._version, jobset = page.metadata.resource_version, next(iter(page.items or ()), None)
        if jobset is not None and decide(jobset, self._own) is Action.REPORT:
            await self._report(self._client, next_attempt(jobset) if self._own.attempt is None else self._own.attempt)
        due = await self._settle(jobset)
        while due is Action.WAIT:
            due = await self._watch(select)
        return due

    async def _report(self, client: Client, attempt: int) -> None:
        self._own = self._own._replace(attempt=attempt)
        name, namespace = self._pod.name, self._pod.namespace
        body = {"metadata": {"annotations": {keys.IN_PLACE_RESTART_ATTEMPT: str(attempt)}}}
        await client.patch(PODS, name, body, namespace=namespace, patch_type=PatchType.MERGE, field_manager=MANAGER)
        self._own = self._own._replace(reported=True)

    async def _watch(self, select: str) -> Action:
        query = (
            ("fieldSelector", select),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(WATCH_SECONDS)),
            ("resourceVersion", self._version),
        )
        idle = WATCH_SECONDS + 10.0
        async with self._client.watch(JOBSETS, query, namespace=self._pod.namespace, idle=idle) as lines:
            async for line in lines:
                event = msgspec.json.decode(line)
                if event["type"] == "ERROR":
                    return Action.REPORT  # the next round begins with a list
                self._version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] == "BOOKMARK":
                    continue
                due = await self._settle(None if event["type"] == "DELETED" else event["object"])
                if due is not Action.WAIT:
                    return due
        return Action.WAIT

    async def _settle(self, jobset: JSON | None) -> Action:
        action = decide(jobset, self._own)
        if action is Action.RESTART and jobset is not None and self._second is not None:
            self._own = Own()
            async with self._second() as client:
                await self._report(client, following_attempt(jobset))
            return Action.WAIT
        if action is not Action.LIFT:
            return action
        self._own = self._own._replace(lifted=True)
        self._on_lift(self._own.attempt or 0)
        return Action.WAIT


class Containers:
    """The containers of the pods of a JobSet: one task for each pod that runs, in a task group.

    `on_lift` is called with the attempt and the pod when an agent lets its worker go.
    """

    def __init__(
        self,
        client: Client,
        second: Connect | None,
        jobset: Key,
        on_lift: Callable[[int, str], None],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._client, self._second, self._tasks = client, second, tasks
        self._namespace, self._jobset = jobset
        self._on_lift = on_lift
        self._running: dict[str, tuple[SeenPod, asyncio.Task[None]]] = {}

    def on_pod(self, _kind: ChangeKind, old: SeenPod | None, new: SeenPod | None) -> None:
        """A pod has changed: start its container, or end it."""
        pod = new or old
        if pod is None or pod.metadata.namespace != self._namespace:
            return
        uid, runs = pod.metadata.uid, new is not None and new.runs
        if runs and uid not in self._running:
            self._start(pod)
        elif not runs and uid in self._running:
            self._running.pop(uid)[1].cancel()

    def fail_one(self) -> None:
        """The worker of one pod fails, and its agent with it: the kubelet starts the container again."""
        pod, container = next(iter(self._running.values()))
        container.cancel()
        self._start(pod)

    def _start(self, pod: SeenPod) -> None:
        self._running[pod.metadata.uid] = pod, self._tasks.create_task(self._run(pod))

    async def _run(self, pod: SeenPod) -> None:
        name = pod.metadata.name
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                agent = SimulatedAgent(
                    self._client, self._second, pod, self._jobset, lambda attempt: self._on_lift(attempt, name)
                )
                await agent.run()


class Agents:
    """All agents, and the moments at which they let their workers go, by attempt and pod."""

    def __init__(self) -> None:
        self.fail_worker: Callable[[], object] = lambda: None
        """Lets the worker of one pod fail."""
        self._moments: dict[int, dict[str, float]] = {}
        self._playing: Future[None] = Future()

    def add_moment(self, attempt: int, pod: str) -> None:
        self._moments.setdefault(attempt, {}).setdefault(pod, time.monotonic())

    def moments(self, attempt: int) -> list[float]:
        """When the agents that have begun an attempt did."""
        return list(self._moments.get(attempt, {}).values())

    def wait(self, attempt: int, count: int, timeout: float = STALL_SECONDS) -> None:
        """Wait until that many agents have begun an attempt. Raises what ended all of them, if anything has."""

        def has_begun() -> bool:
            if self._playing.done():
                self._playing.result()
            return len(self.moments(attempt)) >= count

        wait(has_begun, timeout, f"all agents to begin attempt {attempt}")

    @classmethod
    @contextlib.contextmanager
    def running(cls, scene: Scene, *, worker_only: bool) -> Iterator[Agents]:
        """The agents of all pods of the JobSet, for the length of the block."""
        agents = cls()
        with running_loop(uvloop.new_event_loop) as loop:
            agents._playing = loop.start(agents._play(scene, loop, worker_only=worker_only))
            yield agents

    async def _play(self, scene: Scene, loop: Loop, *, worker_only: bool) -> None:
        credentials = await load(str(scene.cluster.kubeconfig))

        @contextlib.asynccontextmanager
        async def connect() -> AsyncIterator[Client]:
            transport = HttpTransport(credentials, user_agent=MANAGER, qps=UNLIMITED, burst=UNLIMITED)
            try:
                yield Client(transport)
            finally:
                await transport.close()

        turns = asyncio.Semaphore(MAX_IN_FLIGHT)

        @contextlib.asynccontextmanager
        async def second() -> AsyncIterator[Client]:
            """As many at once as the other client has requests: one thread stands for thousands of machines."""
            async with turns, connect() as client:
                yield client

        async with connect() as client, asyncio.TaskGroup() as tasks:
            pods = Informer(client, PODS, SeenPod, label_selector=f"{keys.JOBSET_NAME}={JOBSET}")
            jobset = scene.namespace, JOBSET
            containers = Containers(client, second if worker_only else None, jobset, self.add_moment, tasks)
            pods.on_event(containers.on_pod)
            self.fail_worker = lambda: loop.call(containers.fail_one)
            await pods.run()
