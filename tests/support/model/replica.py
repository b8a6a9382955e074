"""One process of the JobSet controller over `tests.support.model.stale`: real caches, queue handlers, planner and executor.

Each watch is a place in the log of its kind, and moves on only when told to: every cache may be behind the others and
the server. What the process wrote is laid over its caches by the real store. A fault is planned for the n-th write.
"""

import asyncio
import dataclasses
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from api.features import FeatureGates
from api.gang_api import Served
from api.jobset import JobSet
from api.nodes import bound_pod
from api.pod import DetailedPod, Pod
from controllers.indexes import BY_OWNER, key_of_children
from controllers.jobset.controller import JobSetReconciler, Options
from controllers.jobset.execute import FailedWrites
from controllers.jobset.watches import Watches
from controllers.planning.limits import DEFAULT_LIMITS, Limits
from dev.simulator.api_server import RefusedError, status
from dev.simulator.patches import merge, merge_strategically
from dev.simulator.selectors import parse
from dev.simulator.storage import Event, Scope
from kube.client import ListMeta, Page, PatchType
from kube.controller import Request, is_terminal
from kube.errors import AlreadyExists, Call, KubeError, ServerError, Status, TransportError, from_response
from kube.informer import Informer
from kube.resources import NODES, PODS
from kube.watcher import Apply, Delete, Init, InitDone, Progress
from tests.support.model.ledger import View
from tests.support.model.repeated_checks import leave_out_checks
from tests.support.model.stale import GROUPS, NS, Server, Stored
from tests.support.model.tally import Tally

REQUEST = Request(NS, "js")
FIRST_BACK_OFF = 1.0


class Crash(BaseException):
    """The process ends here."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at the write of that number, from 0: see `Client.write`. With silence nothing that is read is answered."""

    kind: str
    number: int


NONE = Fault("none", -1)


class ModelTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose time is that of the model. Nothing here waits for a timer."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._model_clock = clock

    def time(self) -> float:
        return self._model_clock()


class Client:
    """The verbs that the controller uses, on the model."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.fault = NONE
        self.meanwhile: Callable[[], None] = lambda: None
        self.before: Callable[[], None] = lambda: None
        self.writes = 0
        self.made: set[str] = set()
        self.dead = False

    def check_guard(self) -> None:
        """Here a process has its lease until it ends."""

    def write(self, act: Callable[[], Any]) -> Any:
        """Do it, and what the fault says: refuse it, lose the answer, end before or after, or let the world go on."""
        if self.dead:
            raise Crash
        self.before()
        number, self.writes = self.writes, self.writes + 1
        kind = self.fault.kind if number == self.fault.number else "none"
        if kind == "meanwhile":
            self.meanwhile()
        if kind == "crash before":
            self.dead = True
            raise Crash
        if kind == "refuse":
            raise ServerError(500, Status(kind="Status", message="no"), call=Call("create", "/model"))
        done = _answered(act)
        if kind == "crash after":
            self.dead = True
            raise Crash
        if kind == "lose answer":
            raise TransportError("the connection broke")
        return done

    async def create(self, resource: Any, body: Any, **_: Any) -> Any:
        try:
            made = self.write(lambda: self.server.create(resource.plural, NS, body))
        except AlreadyExists:
            name = body["metadata"]["name"]
            uid = self.server.get(resource.plural, (NS, name)).uid
            assert uid not in self.made, f"{resource.plural} {name} is created again by the process that made it"
            raise
        self.made.add(made.uid)
        return _read(resource, made)

    async def get(self, resource: Any, name: str, *, type: Any = dict, **_: Any) -> Any:  # noqa: A002 (the client's)
        item = _answered(lambda: self.server.get(resource.plural, (NS, name)))
        found = _read(resource, item)
        return found if isinstance(found, type) else msgspec.convert(item.content, type)

    async def delete(
        self, resource: Any, name: str, *, uid: str, propagation_policy: str = "Background", **_: Any
    ) -> Any:
        delete = partial(
            self.server.delete, resource.plural, (NS, name), {"uid": uid}, foreground=propagation_policy == "Foreground"
        )
        left = self.write(delete)
        return _read(resource, left)

    async def delete_collection(
        self, resource: Any, *, label_selector: str, propagation_policy: str, **_: Any
    ) -> frozenset[str]:
        assert propagation_policy == "Background"
        found = self.write(lambda: self.server.delete_all(resource.plural, Scope(NS, parse(label_selector))))
        return frozenset(item.uid for item in found if not item.body()["metadata"].get("finalizers"))

    async def patch(self, resource: Any, name: str, patch: Any, *, subresource: str = "", **options: Any) -> Any:
        how = merge_strategically if options.get("patch_type") is PatchType.STRATEGIC else merge
        act = partial(self.server.patch, resource.plural, (NS, name), patch, subresource, apply_patch=how)
        return _read(resource, self.write(act))

    async def list(self, resource: Any, *, label_selector: str = "", field_selector: str = "", **_: Any) -> Page[Any]:
        if self.fault.kind == "silence":
            raise TransportError("no answer")
        if resource == NODES:
            return Page(ListMeta(), self.server.nodes(field_selector.removeprefix("metadata.name=")))
        if field_selector == "status.phase=Pending":
            return Page(ListMeta(), self.server.pending_pods())
        if field_selector.startswith("spec.nodeName="):
            return Page(ListMeta(), self.server.pods_on(field_selector.removeprefix("spec.nodeName=")))
        return Page(ListMeta(), [*self.server.failed_pods(set(re.findall(r"uid-\d+", label_selector)))])

    async def pages(self, resource: Any, **options: Any) -> AsyncIterator[Any]:
        for pod in (await self.list(resource, **options)).items:
            yield pod


def _answered(act: Callable[[], Any]) -> Any:
    """What the server does, with its refusals as the client raises them."""
    try:
        return act()
    except RefusedError as error:
        body = msgspec.json.encode(status(error.code, error.reason, str(error)))
        raise from_response(error.code, {}, body, Call("write", "/model")) from None


def _read(resource: Any, item: Stored | None) -> Any:
    """An answer as it is asked for: groups as JSON, pods in full, all others as records."""
    if item is None:
        return None
    if resource == PODS:
        return msgspec.convert(item.content, DetailedPod)
    return item.content if resource.plural in GROUPS else item.obj


class Requests(set):
    """Stands for the work queue: what would be reconciled."""

    def add(self, request: Request, _priority: int = 0) -> None:
        super().add(request)

    def add_after(self, request: Request, _seconds: float, _priority: int = 0) -> None:
        super().add(request)

    def forget(self, _request: Request) -> None:
        """There is no back-off here."""


class OldPods:
    """The watch of pods of earlier attempts, if there is one, in place of `LeftoverPods.run`.

    It lists the existing pods when it is noticed, and reports them at any later time.
    """

    def __init__(self, reconciler: JobSetReconciler, server: Server, queue: Requests) -> None:
        self._memories = reconciler.memories
        self._pods = server.tables["pods"]
        self._log = self._pods.log
        self._queue = queue
        self._of: Any = None
        self._place = 0
        reconciler.leftover_pods.feed(queue)

    def note(self) -> None:
        """Whether there is another watch than before: its list is of this moment at the earliest."""
        memory = self._memories._records.get(REQUEST)
        of = None if memory is None else memory.followed_pods
        if of is not self._of:
            self._of, self._place = of, len(self._log)

    def arrive(self, most: int = 1_000_000) -> None:
        """The first list, and then the next events."""
        if self._of is None or self._of.is_over:
            return
        if not self._of.pods.synced:
            self._list()
            return
        for event in self._log[self._place : self._place + most]:
            self._place += 1
            self._of.pods._receive(_as_informer_input(event, self._kept))

    def relist(self) -> None:
        """What happened since is not sent, only what it led to."""
        if self._of is not None and not self._of.is_over:
            self._place = len(self._log)
            self._list()

    def _list(self) -> None:
        """The first one is a reason to plan."""
        if not self._of.pods.synced:
            self._queue.add(REQUEST)
        receive = self._of.pods._receive
        receive(Init())
        for kept in filter(None, map(self._kept, self._pods.at(self._place).values())):
            receive(Apply(kept))
        receive(InitDone(self._log[self._place - 1].item.version if self._place else 0))

    def _kept(self, pod: Stored) -> Any:
        """What the watch keeps of a pod; None for one that its selectors leave out."""
        target = self._of.pods.target
        scope = Scope(NS, parse(target.label_selector), parse(target.field_selector))
        return target.transform(pod.obj) if scope.contains(pod) else None


class Replica:
    """A process from its start to its crash. `behind`: how many events its first lists lack, by kind."""

    def __init__(
        self,
        server: Server,
        loop: asyncio.AbstractEventLoop,
        gates: FeatureGates,
        *,
        create_suspended: bool,
        limits: Limits = DEFAULT_LIMITS,
        behind: dict[str, int] | None = None,
    ) -> None:
        self.server = server
        self.client = Client(server)
        self.loop = loop
        self.watches = Watches(self.client, gates)
        self.informers: dict[str, Informer] = {
            "jobsets": self.watches.jobsets,
            "jobs": self.watches.jobs,
            "services": self.watches.services,
            "persistentvolumeclaims": self.watches.claims,
        }
        if gates["JobSetWorkloadAwareSchedulingAPI"]:
            groups = self.watches.groups
            groups.served = Served(groups=True, composites=True, topology=True)
            self.informers |= {informer.target.resource.plural: informer for informer in groups.by_kind.values()}
        if self.watches.nodes is not None:
            self.informers |= {"nodes": self.watches.nodes.nodes, "pods": self.watches.nodes.pods}
        if self.watches.pods is not None:
            self.informers["agents"] = self.watches.pods
        self.places = dict.fromkeys(self.informers, 0)
        self.due: float | None = None
        self.queue = Requests()
        self.saw_complete: set[str] = set()
        limits = dataclasses.replace(limits, sorted_jobs_from=0, create_suspended=create_suspended)
        options = Options(limits=limits, wall_clock=lambda: server.now)
        self.reconciler = JobSetReconciler(self.client, self.watches.caches(), gates, self, Tally(), options)
        leave_out_checks(self.reconciler)
        self.watches.jobs.on_event(self.reconciler.memories.on_job_event)
        for kind in self.informers:
            self.relist(kind, (behind or {}).get(kind, 0))
        self.watches.feed(self.queue)
        self.old_pods = OldPods(self.reconciler, server, self.queue)
        self.client.before = self.old_pods.note

    # Events are not looked at here.

    def record(self, *_: Any, **__: Any) -> None: ...

    # Watches

    def deliver(self, kind: str, most: int = 1_000_000, *, twice: bool = False) -> None:
        """The next events of one kind; `twice`: the last one comes again, as after a broken watch."""
        log, receive = self.server.tables[kind].log, self.informers[kind]._receive
        for event in log[self.places[kind] : self.places[kind] + most]:
            for _ in range(1 + twice):
                receive(_as_informer_input(event, _RECORDS.get(kind, _obj)))
            self._note(kind, event.item.obj)
            self.places[kind] += 1
        if self.places[kind] == len(log):
            receive(Progress(self.server.version))

    def catch_up(self) -> None:
        for kind in self.informers:
            self.deliver(kind)
        self.old_pods.arrive()

    def relist(self, kind: str, behind: int = 0) -> None:
        """List again. Events since the last place are never seen, only what they led to.

        A server that is itself behind may answer with a state that is older than what was seen.
        """
        table, receive = self.server.tables[kind], self.informers[kind]._receive
        place = max(0, len(table.log) - behind)
        if place < self.places[kind]:
            self.saw_complete.clear()
            self.client.made.clear()
        receive(Init())
        for item in table.at(place).values():
            if (kept := _RECORDS.get(kind, _obj)(item)) is not None:
                receive(Apply(kept))
            self._note(kind, item.obj)
        current = place == len(table.log)
        receive(InitDone(self.server.version if current else table.log[place - 1].item.version if place else 0))
        self.places[kind] = place

    def _note(self, kind: str, obj: Any) -> None:
        if kind == "jobs" and obj.outcome == "Complete":
            self.saw_complete.add(obj.metadata.uid)

    # The loop

    def reconcile(self, fault: Fault = NONE, meanwhile: Callable[[], None] = lambda: None) -> int:
        """Plan on the caches and carry it out; how many writes that took. Raises `Crash`."""
        self.queue.discard(REQUEST)
        js = self.watches.jobsets.store.get("ns", "js")
        self._forget_others(js)
        if js is not None:
            jobs = {job.metadata.name: job for job in self.watches.jobs.store.by_index(BY_OWNER, key_of_children(js))}
            self.server.ledger.begin(View(js, jobs, self.saw_complete, self.watches.groups.known_groups(js, None)))
        self.client.fault, self.client.meanwhile, self.client.writes = fault, meanwhile, 0
        self.due = None
        try:
            wait = self.loop.run_until_complete(self._reconcile())
        except (KubeError, TimeoutError, FailedWrites) as error:
            wait = None if is_terminal(error) else FIRST_BACK_OFF
        self.old_pods.note()
        if wait is not None:
            self.due = self.server.seconds + wait
        return self.client.writes

    def _forget_others(self, js: JobSet | None) -> None:
        """What completed for a JobSet that is not in the cache (yet) is forgotten when its name is reconciled.

        Narrower than it could be: a cache of JobSets may be so far behind that of Jobs that a JobSet that is alive is
        missing, or is still the earlier one of its name.
        """
        uid = js.metadata.uid if js else ""
        places = self.server.ledger.places
        self.saw_complete = {job for job in self.saw_complete if job in places and places[job].owner == uid}

    async def _reconcile(self) -> float | None:
        try:
            return (await self.reconciler.reconcile(REQUEST)).requeue_after
        except BaseExceptionGroup as group:
            for kind in (Crash, AssertionError):
                if group.split(kind)[0] is not None:
                    raise _leaf(group.split(kind)[0]) from None
            raise


def _obj(item: Stored) -> Any:
    return item.obj


_RECORDS = {
    "pods": lambda item: bound_pod(msgspec.convert(item.content, DetailedPod)),
    "agents": lambda item: msgspec.convert(item.content, Pod),
}
"""What the watches of all pods keep, which is not what that of pods of earlier attempts does."""


def _as_informer_input(event: Event, record: Callable[[Stored], Any] = _obj) -> Apply | Delete:
    """An event as an informer receives it. What is not kept any more is gone for it."""
    kept = record(event.item)
    return Delete(event.item.obj) if kept is None else (Delete if event.kind == "DELETED" else Apply)(kept)


def _leaf(error: BaseException) -> BaseException:
    return _leaf(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
