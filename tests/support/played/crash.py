"""Kills a JobSet controller at a chosen write, starts it again, and says what became of it.

A path is what happens to one JobSet. `run` plays it in lock-step: the world changes by one thing, the controller comes
to rest, the next thing changes. Thus two runs make the same writes in the same order, and a write of the first run
names a moment of the second. The first run, without a kill, finds these moments; they are not written down by hand.

The controller is ours, in this process, over real HTTP to a real API server. A killed one stops as a process does:
nothing of it runs on, no handler, no clean-up, and what had been sent arrives. Must not know what a JobSet policy does.
"""

import asyncio
import contextlib
import json
from collections import Counter, deque
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, NoReturn

from api.features import FeatureGates
from controllers.jobset.controller import JobSetReconciler, Options
from controllers.jobset.endings import Endings
from controllers.jobset.memory import Memories
from controllers.jobset.watches import Watches
from controllers.planning.limits import Limits
from controllers.resources import JOBSETS
from kube.client import Client
from kube.controller import Controller, Request
from kube.resources import NODES, PRIORITY_CLASSES
from kube.transport import Request as Call
from kube.transport import Response, Transport
from kube.workqueue import BATCHED, WorkQueue
from tests.support.model.lagging import LaggingTransport
from tests.support.model.repeated_checks import leave_out_checks
from tests.support.model.tally import Tally
from tests.support.played.kills import Early, Path, Record, Site, Step, When, Write
from tests.support.played.namespace import (
    PlayedCluster,
    Snapshot,
    TrackingTransport,
    normalised,
    resource_of,
    steady_name,
)

REST_SECONDS = 40.0
"""How long the controller may take to come to rest: more than any delay in a path, on a busy machine."""

PAUSE = 0.004
"""Seconds between two looks at whether it rests."""

MOVES = 200
"""Changes of the world after which a path that goes on is taken for one that never ends."""

ATTEMPTS = ("jobset.sigs.k8s.io/restart-attempt", "jobset.sigs.k8s.io/job-restart-attempt")


class Recorded:
    """Hears what the controller tells beside its writes: events, which are not kept, and ends, which are counted."""

    def __init__(self, outcomes: Counter[str]) -> None:
        self._outcomes = outcomes

    def on_end(self, _namespace: str, _name: str, state: str) -> None:
        self._outcomes[state] += 1

    def deadline_exceeded(self, _namespace: str, _name: str) -> None:
        self._outcomes["DeadlineExceeded"] += 1

    def start_timed_out(self, _namespace: str, _name: str) -> None:
        self._outcomes["StartTimeout"] += 1

    def node_failed(self) -> None:
        self._outcomes["NodeFailure"] += 1

    def on_seconds(self, *_: int) -> None: ...
    def record(self, *_: Any, **__: Any) -> None: ...
    def forget(self, *_: Any) -> None: ...


class KillableTransport:
    """A transport for one controller and one namespace, which it takes for the whole cluster.

    `killed` is set at the site; from then on every call waits for ever, as in a process that is no more; `late` is the
    write that is still under way then. `watched` is what the watches have shown: for each collection and label selector,
    resourceVersions by name, once the controller has handled them.
    """

    def __init__(self, inner: Transport, world: PlayedCluster, record: Record, site: Site | None) -> None:
        self.killed = asyncio.Event()
        self.watched: dict[tuple[str, str], dict[str, str]] = {}
        self.sent = 0
        self.refused = 0
        self.late: Call | None = None
        self._inner = inner
        self._world = world
        self._record = record
        self._site = site
        self._seen: Counter[tuple[str, str, str]] = Counter()
        self._in_flight = 0

    async def send(self, request: Call) -> Response:
        if self.killed.is_set():
            await _for_ever()
        if request.method == "GET":
            return await self._inner.send(self._scoped(request))
        write = self._number(request)
        dies = self._site.kill.when if self._site is not None and write == self._site.write else None
        if dies in {When.BEFORE, When.LATE}:
            self.late = request if dies is When.LATE else None
            await self._die()
        self._record.writes.append(write)
        self.sent += 1
        self._in_flight += 1
        try:
            response = await self._inner.send(request)
        finally:
            self._in_flight -= 1
        self.refused += response.status >= 400
        self._remember(write, response)
        if dies:
            await self._die()
        if self.killed.is_set():
            await _for_ever()
        return response

    @contextlib.asynccontextmanager
    async def stream(self, request: Call) -> AsyncIterator[AsyncIterator[bytes]]:
        if self.killed.is_set():
            await _for_ever()
        async with (
            self._inner.stream(self._scoped(request)) as lines,
            contextlib.aclosing(self._watch(request, lines)) as watched,
        ):
            yield watched

    async def close(self) -> None:
        """Not ours to close: the connections belong to the test."""

    async def drained(self) -> None:
        """Wait until all that was sent has arrived."""
        while self._in_flight:  # noqa: ASYNC110 - only ever a few milliseconds
            await asyncio.sleep(0.002)

    async def _watch(self, request: Call, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """What a watch shows for as long as it lasts."""
        plural = request.path.rpartition("/")[2]
        place = plural, dict(request.query).get("labelSelector", "")
        known: dict[str, str] = {}
        if plural != PRIORITY_CLASSES.plural:  # nothing changes them
            self.watched[place] = known
        try:
            async for line in self._shown(plural, lines, known):
                yield line
        finally:
            if self.watched.get(place) is known:
                del self.watched[place]

    async def _shown(self, plural: str, lines: AsyncIterator[bytes], known: dict[str, str]) -> AsyncIterator[bytes]:
        """Note a line when the reader asks for the next one: it has handled it then."""
        held: list[bytes] = []
        async for arrived in lines:
            held.append(arrived)
            if self._world.withholds(plural, json.loads(arrived)["object"]):
                continue
            for line in held:
                if self.killed.is_set():
                    await _for_ever()
                yield line
                _show(known, json.loads(line))
            held.clear()

    def _scoped(self, request: Call) -> Call:
        """Reads of all namespaces are made reads of ours, and watches of all nodes watches of ours."""
        start, _, plural = request.path.rpartition("/")
        if plural == NODES.plural and request.verb == "watch":
            return replace(request, query=(*request.query, ("fieldSelector", f"metadata.name={self._world.node}")))
        discovery = start == "/apis/scheduling.k8s.io"
        if "/namespaces/" in request.path or plural in {PRIORITY_CLASSES.plural, NODES.plural} or discovery:
            return request
        return replace(request, path=f"{start}/namespaces/{self._world.namespace}/{plural}")

    def _number(self, request: Call) -> Write:
        resource, name, subresource = resource_of(request.path)
        if request.verb == "create":
            name = json.loads(request.body or b"")["metadata"]["name"]
        name = steady_name(resource, name)
        what = request.verb, f"{resource}/{subresource}" if subresource else resource, name
        self._seen[what] += 1
        return Write(*what, self._seen[what])

    def _remember(self, write: Write, response: Response) -> None:
        if response.status != 201:
            return
        labels = json.loads(response.body)["metadata"].get("labels", {})
        self._record.created[write.resource, write.name, *(labels.get(key, "") for key in ATTEMPTS)] += 1

    async def _die(self) -> NoReturn:
        self._record.killed = True
        self.killed.set()
        await _for_ever()


def _show(known: dict[str, str], event: dict[str, Any]) -> None:
    """Keep resourceVersions by name as one line of a watch says."""
    meta = event["object"].get("metadata", {})
    if event["type"] == "DELETED":
        known.pop(meta["name"], None)
    elif event["type"] in {"ADDED", "MODIFIED"}:
        known[meta["name"]] = meta["resourceVersion"]


class Instance:
    """One life of the controller, from its start to its kill."""

    def __init__(self, world: PlayedCluster, transport: KillableTransport, *, timers: bool) -> None:
        self._world = world
        self._transport = transport
        self._timers = timers
        self._queue: WorkQueue[Request] = WorkQueue()
        self._runs = False
        self._memories = Memories()

    async def run(self, path: Path, outcomes: Counter[str]) -> None:
        """The only place that knows how a controller is put together."""
        client, recorder = Client(self._transport), Recorded(outcomes)
        gates = FeatureGates(dict.fromkeys(path.gates, True))
        watches = Watches(client, gates)
        limits = Limits(batch_deletion_from=path.large, create_suspended=path.create_suspended)
        options = Options(limits=limits)
        reconciler = JobSetReconciler(client, watches.caches(), gates, recorder, Tally(), options)
        leave_out_checks(reconciler)
        reconciler.leftover_pods.feed(self._queue)
        self._memories = reconciler.memories
        loop = Controller("jobset", self._queue, reconciler.reconcile, workers=2)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watches.run())
            await watches.wait_synced(REST_SECONDS)
            while gates["JobSetWorkloadAwareSchedulingAPI"] and watches.groups.served.groups is None:  # noqa: ASYNC110 - a few milliseconds
                await asyncio.sleep(PAUSE)
            watches.jobsets.on_event(Endings(recorder, reconciler.memories).on_event)
            watches.jobs.on_event(reconciler.memories.on_job_event)
            watches.feed(self._queue)
            tasks.create_task(reconciler.leftover_pods.run())
            tasks.create_task(loop.run())
            self._runs = True

    async def rest(self, early: Early | None = None) -> Snapshot | None:
        """The world when the controller has seen all of it and has nothing left to do; None once it is killed.

        `early`: but for what it will do at a time that is not at hand, once this step is due.
        """

        def is_over(snapshot: Snapshot) -> bool:
            return early.due(snapshot) if early else self._idle()

        loop = asyncio.get_running_loop()
        deadline = loop.time() + REST_SECONDS
        while not self._transport.killed.is_set():
            snapshot = await self._snapshot_at_rest() if self._idle(self._timers) else None
            if snapshot is not None and (is_over(snapshot) or self._world.move(snapshot)):
                return snapshot
            assert loop.time() < deadline, f"no rest in {REST_SECONDS:g} s: {len(self._queue)} keys wait"
            await asyncio.sleep(PAUSE)
        return None

    async def act(self, *, early: bool) -> None:
        """Until it has done what it would do from all that it can see, or the API server has refused some of it.

        `early`: keys may wait for a time that is not at hand, for what it sees is before a step that does not wait.
        """
        self._transport.refused = 0
        loop = asyncio.get_running_loop()
        deadline = loop.time() + REST_SECONDS
        while not (self._idle(early) or self._transport.refused):
            assert loop.time() < deadline, f"no rest in {REST_SECONDS:g} s: {len(self._queue)} keys wait"
            await asyncio.sleep(PAUSE)

    async def shows(self, plural: str) -> None:
        """Until its watch has shown all that there is of a resource."""
        watched = self._transport.watched
        async with asyncio.timeout(REST_SECONDS):
            while True:
                of_resource = {place: versions for place, versions in watched.items() if place[0] == plural}
                if (await self._world.look()).shown_by(of_resource):
                    return
                await asyncio.sleep(PAUSE)

    async def _snapshot_at_rest(self) -> Snapshot | None:
        """The world, unless the controller moved meanwhile or its watches have still to show some of it."""
        writes = self._transport.sent
        snapshot = await self._world.look()
        # A look that finds nothing new has not waited, so what has just been read may not be in the queue yet.
        await asyncio.sleep(PAUSE)
        still = self._idle(self._timers) and self._transport.sent == writes
        return snapshot if still and snapshot.shown_by(self._transport.watched) else None

    def _idle(self, timers: bool = False) -> bool:
        """Whether it has nothing to do; with `timers` keys may wait for a time that is not at hand."""
        followed = [
            memory.followed_pods for memory in self._memories._records.values() if memory.followed_pods is not None
        ]
        listing = any(not of.is_over and not of.pods.synced for of in followed)
        soon = asyncio.get_running_loop().time() + BATCHED.delay
        keys = [entry for entry in self._queue._waiting.values() if not timers or entry.ready_at <= soon]
        return self._runs and not listing and not keys and not self._queue.unfinished_seconds()


@contextlib.asynccontextmanager
async def _running_controller(
    world: PlayedCluster, transport: KillableTransport, path: Path, record: Record
) -> AsyncIterator[Instance]:
    """A controller for the length of the block. What it has sent at the end arrives; nothing else of it does."""
    instance = Instance(world, transport, timers=path.timers)
    async with asyncio.TaskGroup() as tasks:
        life = tasks.create_task(instance.run(path, record.outcomes))
        yield instance
        transport.killed.set()
        await transport.drained()
        life.cancel()


async def run(transport: Transport, namespace: str, path: Path, site: Site | None = None) -> Record:
    """Play a path to its end, with a kill at `site`."""
    record, tracking = Record(), TrackingTransport(transport)
    world = PlayedCluster(tracking, namespace)
    await world.create(JOBSETS, path.manifest)
    steps = deque(path.steps)
    try:
        for death in (site, None):
            behind = site.kill.behind if site and death is None else 0
            lagging = LaggingTransport(tracking, tracking.version_before(behind) if behind else "")
            killable = KillableTransport(lagging, world, record, death)
            async with _running_controller(world, killable, path, record) as instance:
                if behind:
                    await instance.act(early=any(isinstance(step, Early) for step in path.steps))
                    lagging.catch_up_with(site.kill.first)
                    await instance.shows(site.kill.first)
                    await instance.act(early=any(isinstance(step, Early) for step in path.steps))
                    lagging.catch_up()
                seen = await _play(instance, world, steps, record)
            if seen is not None:
                record.end = normalised(seen, namespace)
                return record
            if killable.late:
                steps.append(_arrival(tracking, killable.late))
            while site and site.kill.away and (move := world.move(await world.look())):
                await move()
    finally:
        await world.clear()
    raise AssertionError("unreachable: the second life has no site to be killed at")


def _early(steps: deque[Step]) -> Early | None:
    """The next step if it is an early one."""
    return steps[0] if steps and isinstance(steps[0], Early) else None


async def _play(instance: Instance, world: PlayedCluster, steps: deque[Step], record: Record) -> Snapshot | None:
    """Move the world whenever the controller rests, until nothing is left to happen; None if it was killed."""
    for _ in range(MOVES):
        seen = await instance.rest(_early(steps))
        if seen is None:
            return None
        move = world.move(seen)
        step = steps.popleft() if steps and not move else None
        if move:
            await move()
        elif step:
            record.begun = record.begun or len(record.writes)
            await step(world, seen)
        else:
            return seen
    raise AssertionError(f"still not at its end after {MOVES} changes")


def _arrival(transport: Transport, late: Call) -> Step:
    async def step(*_: object) -> None:
        await transport.send(late)

    return step


async def _for_ever() -> NoReturn:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("unreachable")
