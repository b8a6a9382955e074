"""`python -m dev.bench.agents --kubeconfig FILE --namespace NAME --jobset NAME`: the agents of all pods in one process.

For each running pod it does what `agent` does in it: list the JobSet, report, watch on a connection of its own; what
that means is decided by `agent.decision`. It also does what the kubelet would: an agent that ends is started again, one
whose pod is deleted or whose node is silent is not. With --worker-only agents whose attempt is over do not end, as with
RESTART_WORKER_ONLY: they report on a second connection and keep their watch. Each time that an agent lets its worker go
it prints a line of JSON: the pod, the attempt, and the moment (monotonic seconds of the machine). With SIGUSR1 the
worker of one pod fails. Must not measure.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import uvloop

from agent.decision import Action, Own, decide, following_attempt, next_attempt
from api import keys
from controllers.resources import JOBSETS
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
    """The containers of the pods of a set: one task for each pod that runs, in a task group."""

    def __init__(
        self, client: Client, second: Connect | None, namespace: str, jobset: str, tasks: asyncio.TaskGroup
    ) -> None:
        self._client, self._second = client, second
        self._namespace, self._jobset, self._tasks = namespace, jobset, tasks
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

        def print_lift(attempt: int) -> None:
            print(json.dumps({"pod": name, "attempt": attempt, "moment": time.monotonic()}), flush=True)

        with contextlib.suppress(asyncio.CancelledError):
            while True:
                await SimulatedAgent(self._client, self._second, pod, self._jobset, print_lift).run()


async def run(kubeconfig: str, namespace: str, jobset: str, *, worker_only: bool) -> None:
    """Until SIGTERM."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 -- we run in one
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    credentials = await load(kubeconfig)

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
        """As many at once as the other client has requests: one process stands for thousands of machines."""
        async with turns, connect() as client:
            yield client

    async with connect() as client, asyncio.TaskGroup() as tasks:
        pods = Informer(client, PODS, SeenPod, label_selector=f"{keys.JOBSET_NAME}={jobset}")
        containers = Containers(client, second if worker_only else None, namespace, jobset, tasks)
        pods.on_event(containers.on_pod)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, containers.fail_one)
        tasks.create_task(pods.run())
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dev.bench.agents", description=__doc__)
    parser.add_argument("--kubeconfig", required=True, help="of the cluster")
    parser.add_argument("--namespace", required=True, help="of the JobSet")
    parser.add_argument("--jobset", required=True, help="its name")
    parser.add_argument("--worker-only", action="store_true", help="agents continue when their attempt is over")
    options = parser.parse_args()
    with contextlib.suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(options.kubeconfig, options.namespace, options.jobset, worker_only=options.worker_only))


if __name__ == "__main__":
    main()
