"""Joins the JobSet controller: watches, the map from a change to a JobSet, and observe -> plan -> execute."""

import asyncio
import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from api import keys
from api.batch import Claim, Job, Service
from api.features import FeatureGates
from api.jobset import JobSet
from api.meta import Identity
from api.names import subdomain
from api.pod import Pod
from api.priority import Priorities, PriorityClass
from controllers.gang.execute import GroupTroubleError
from controllers.gang.silence import Silence
from controllers.gang.watches import GroupWatches
from controllers.jobset.actions import DeleteJobs, Event, KnownGroups, Observed, Plan, Question
from controllers.jobset.buckets import untold
from controllers.jobset.evidence import look_up
from controllers.jobset.execute import (
    JOBSETS,
    Caches,
    Executor,
    ForeignObjectError,
    PartialFailure,
    Recorder,
)
from controllers.jobset.lingering import Lingering
from controllers.jobset.milestones import Milestones, Stopwatch
from controllers.jobset.plan import FOREIGN_RETRY, plan
from controllers.jobset.policies import ttl
from kube.client import Client
from kube.clock import now, rfc3339
from kube.controller import Request, Result
from kube.errors import ApiError
from kube.informer import Informer
from kube.resources import JOBS, PERSISTENT_VOLUME_CLAIMS, PODS, PRIORITY_CLASSES, SERVICES
from kube.store import ChangeKind
from kube.workqueue import WorkQueue

NAME = "jobset"
"""Label value of this controller in metrics."""

REST = 4.0
"""How much longer than its last plan took a set rests before it is planned again: with thousands of Jobs that change
all the time, planning takes at most a fifth of the processor, and small sets never wait for it."""

TROUBLE_RETRY = 30.0
"""Seconds until a group that could not be made is tried again."""

BY_OWNER = "owner"
"""Index of Jobs by the UID of the JobSet that controls them; of pods, by the UID of the Job."""

BY_SET = "set"
"""Index of Jobs by namespace and the JobSet name on their label, whoever owns them."""

BY_SUBDOMAIN = "subdomain"
"""Index of JobSets by namespace and name of the Service they want."""


class Watches:
    """What the JobSet controller reads. Synced on every replica, so that a new leader starts warm."""

    def __init__(self, client: Client, gates: FeatureGates, *, groups_required: bool = True) -> None:
        ours = keys.JOBSET_NAME
        self.jobsets = Informer(client, JOBSETS, JobSet, indexes={BY_SUBDOMAIN: _service_key})
        by_owner = {BY_OWNER: _owner_uid, BY_SET: _set_key}
        self.jobs = Informer(client, JOBS, Job, indexes=by_owner, label_selector=ours)
        self.services = Informer(client, SERVICES, Service)
        self.claims = Informer(client, PERSISTENT_VOLUME_CLAIMS, Claim, label_selector=ours)
        self.priority_classes = Informer(client, PRIORITY_CLASSES, PriorityClass)
        self.groups = GroupWatches(client, gates, required=groups_required)
        self.pods: Informer[Pod] | None = None
        if gates["InPlaceRestart"]:
            self.pods = Informer(client, PODS, Pod, indexes={BY_OWNER: _controller_uid}, label_selector=ours)

    @property
    def _all(self) -> list[Informer[Any]]:
        pods = [] if self.pods is None else [self.pods]
        return [self.jobsets, self.jobs, self.services, self.claims, self.priority_classes, *pods]

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._all:
                group.create_task(informer.run())
            group.create_task(self.groups.run())

    async def wait_synced(self, timeout: float) -> None:
        """Wait until every first list is complete; raises with the name of the one that is not after `timeout` s."""
        for informer in self._all:
            await informer.wait_synced(timeout)

    def feed(self, queue: WorkQueue[Request]) -> None:
        """From now on, put the JobSet of every change into the queue."""
        self.jobsets.enqueue(queue, lambda js: [Request(js.metadata.namespace, js.metadata.name)])
        self.jobs.enqueue(queue, lambda job: owner_requests(job.metadata))
        self.services.enqueue(queue, self._wanting)
        self.claims.enqueue(
            queue, lambda c: [Request(c.metadata.namespace, c.metadata.labels.get(keys.JOBSET_NAME, ""))]
        )
        if self.pods is not None:
            self.pods.enqueue(queue, self._of_pod)
        self.groups.feed(queue, owner_requests)
        self.groups.on_change(lambda: self._again(queue))

    def _again(self, queue: WorkQueue[Request]) -> None:
        """Put every JobSet that asks for groups into the queue: what the API server serves has changed."""
        for js in self.jobsets.store.list():
            if js.spec.scheduling is not None:
                queue.add(Request(js.metadata.namespace, js.metadata.name))

    def caches(self) -> Caches:
        """The stores that plans read and writes fill."""
        pods = None if self.pods is None else self.pods.store
        stores = self.jobsets.store, self.jobs.store, self.services.store, self.claims.store
        return Caches(*stores, pods, self.priority_classes.store, self.groups)

    def _wanting(self, service: Service) -> list[Request]:
        """The JobSets that want a Service of this name, its owner and those who wait for it to go."""
        meta = service.metadata
        found = self.jobsets.store.by_index(BY_SUBDOMAIN, f"{meta.namespace}/{meta.name}")
        return [Request(js.metadata.namespace, js.metadata.name) for js in found]

    def _of_pod(self, pod: Pod) -> list[Request]:
        """The JobSet of the Job that controls a pod."""
        ref = pod.metadata.controller()
        job = self.jobs.store.get(pod.metadata.namespace, ref.name) if ref is not None else None
        return (
            owner_requests(job.metadata) if job is not None and ref is not None and job.metadata.uid == ref.uid else []
        )


@dataclass(slots=True)
class _Memory:
    """What is known of one JobSet beyond the caches: lost on a restart of the process, and none the worse for it."""

    written: float | None = None
    rest_until: float = 0.0
    told: frozenset[Event] = frozenset()
    departed: dict[str, Job] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)
    foreign_until: float = 0.0
    trouble: tuple[str, str] | None = None
    trouble_until: float = 0.0
    """What kept a group from being made, and until when nobody tries again."""
    ending: bool = False
    """Its namespace is being deleted: every Job that goes would be created again in vain."""


class JobSetReconciler:
    """The reconcile function of the JobSet controller."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        gates: FeatureGates,
        recorder: Recorder,
        milestones: Milestones,
        *,
        create_suspended: bool = True,
    ) -> None:
        self._client = client
        self._caches = caches
        self._gates = gates
        self._create_suspended = create_suspended
        self._executor = Executor(client, caches, recorder)
        self._silence = Silence(client, self._executor.event)
        self._stopwatch = Stopwatch(milestones)
        self._memory: dict[Request, _Memory] = {}
        self.lingering = Lingering(client)
        """What is known of pods of earlier attempts; somebody has to run it."""

    def watch_departures(self, jobs: Informer[Job]) -> None:
        """Remember Jobs that are deleted finished, or bound to fail, until the status does."""
        jobs.on_event(self._job_changed)

    def _job_changed(self, kind: ChangeKind, old: Job | None, _new: Job | None) -> None:
        if kind is not ChangeKind.DELETED or old is None or not (old.finished or old.doomed):
            return
        for request in owner_requests(old.metadata):
            self._memory.setdefault(request, _Memory()).departed[old.metadata.uid] = old

    async def reconcile(self, request: Request) -> Result:
        js = self._caches.jobsets.get(request.namespace, request.name)
        if js is None:
            self._memory.pop(request, None)
            self._stopwatch.forget(*request)
            self._silence.forget(request)
            self.lingering.forget(request)
            return Result()
        memory = self._memory.setdefault(request, _Memory())
        clock = asyncio.get_running_loop().time
        began = clock()
        if memory.ending:
            return Result()
        if began < memory.rest_until:
            return Result(memory.rest_until - began)
        observed = self._observe(js, memory)
        self._stopwatch.saw(js, observed.jobs, now().timestamp())
        decided = plan(observed, self._gates, create_suspended=self._create_suspended)
        memory.rest_until = clock() + REST * (clock() - began)
        while decided.question is not None:
            observed = await self._answer(observed, decided.question)
            decided = plan(observed, self._gates, create_suspended=self._create_suspended)
        self._tell(js, decided, memory)
        try:
            await self._executor.execute(js, decided)
        except PartialFailure as failed:
            self._remember(failed, memory)
            others = failed.split((ForeignObjectError, GroupTroubleError))[1]
            if others is None:
                return Result(0.0)
            raise
        finally:
            self._look_after_pods(js, decided)
        if decided.status is not None:
            memory.written = clock()
        if clock() < memory.trouble_until:
            return Result(TROUBLE_RETRY)
        again = (decided.requeue_after, await self._silence.look(request, observed))
        return Result(min((seconds for seconds in again if seconds is not None), default=None))

    def _look_after_pods(self, js: JobSet, decided: Plan) -> None:
        """What has to be known for the next plan; Jobs may be deleted even if a plan failed."""
        if decided.follow_pods:
            self.lingering.follow(js, anew=any(isinstance(action, DeleteJobs) for action in decided.actions))
        else:
            self.lingering.enough(js)

    def _remember(self, failed: PartialFailure, memory: _Memory) -> None:
        """Of what failed, that which the next plan has to know."""
        now_ = asyncio.get_running_loop().time()
        memory.ending = failed.subgroup(_says_namespace_ends) is not None
        taken = [error for error in failed.exceptions if isinstance(error, ForeignObjectError)]
        if taken:
            memory.foreign = {error.name: error.owner for error in taken}
            memory.foreign_until = now_ + FOREIGN_RETRY
        troubled = [error for error in failed.exceptions if isinstance(error, GroupTroubleError)]
        if troubled:
            memory.trouble = troubled[0].reason, str(troubled[0])
            memory.trouble_until = now_ + TROUBLE_RETRY

    async def _answer(self, observed: Observed, question: Question) -> Observed:
        """The same with the answer to a question, which is never asked twice; raises if it is needed and not had."""
        answer = await look_up(self._client, observed.jobset.metadata.namespace, question)
        return dataclasses.replace(observed, evidence={**observed.evidence, **answer})

    def _tell(self, js: JobSet, decided: Plan, memory: _Memory) -> None:
        """Record warnings that were not there the last time."""
        for event in decided.warnings:
            if event not in memory.told:
                self._executor.event(js, event)
        memory.told = frozenset(decided.warnings)

    def _observe(self, js: JobSet, memory: _Memory) -> Observed:
        """One frozen view of the caches."""
        meta = js.metadata
        jobs = tuple(self._caches.jobs.by_index(BY_OWNER, meta.uid))
        named = self._caches.jobs.by_index(BY_SET, f"{meta.namespace}/{meta.name}")
        clock = asyncio.get_running_loop().time
        if clock() >= memory.foreign_until:
            memory.foreign = {}
        claims = self._caches.claims.list(meta.namespace) if js.spec.volume_claim_policies else ()
        return Observed(
            jobset=js,
            jobs=jobs,
            service=self._caches.services.get(meta.namespace, subdomain(js)),
            claims=frozenset(claim.metadata.name for claim in claims),
            now=rfc3339(now()),
            since_status_write=None if memory.written is None else clock() - memory.written,
            departed=self._departed(js, jobs, memory),
            # As many by name as by owner: all are ours, which is what all sets but a few look like.
            foreign=memory.foreign
            | {
                job.metadata.name: job.metadata.whose
                for job in (named if len(named) != len(jobs) else ())
                if _owner_uid(job) != [meta.uid]
            },
            pods=self._pods(jobs),
            lingering=self.lingering.names(js),
            priorities=self._priorities(),
            groups=self._known_groups(js, memory),
        )

    def _known_groups(self, js: JobSet, memory: _Memory) -> KnownGroups | None:
        if self._caches.groups is None:
            return None
        troubled = asyncio.get_running_loop().time() < memory.trouble_until
        return self._caches.groups.known(js, memory.trouble if troubled else None)

    def _priorities(self) -> Priorities | None:
        classes = self._caches.priority_classes
        return None if classes is None else Priorities(classes.list())

    def _departed(self, js: JobSet, jobs: Iterable[Job], memory: _Memory) -> tuple[Job, ...]:
        """Deleted Jobs that the status does not speak for yet; the others are forgotten here."""
        if memory.departed:
            here = {job.metadata.uid for job in jobs}
            gone = [
                job for uid, job in memory.departed.items() if uid not in here and _owner_uid(job) == [js.metadata.uid]
            ]
            kept = () if ttl.finished(js) else untold(js, gone, self._gates)
            memory.departed = {job.metadata.uid: job for job in kept}
        return tuple(memory.departed.values())

    def _pods(self, jobs: Iterable[Job]) -> tuple[Pod, ...]:
        pods = self._caches.pods
        if pods is None:
            return ()
        return tuple(pod for job in jobs for pod in pods.by_index(BY_OWNER, job.metadata.uid))


def _says_namespace_ends(error: Exception) -> bool:
    return isinstance(error, ApiError) and error.has_cause("NamespaceTerminating")


def _service_key(js: JobSet) -> Iterable[str]:
    return [f"{js.metadata.namespace}/{subdomain(js)}"] if js.dns_enabled else []


def _set_key(job: Job) -> Iterable[str]:
    return [f"{job.metadata.namespace}/{job.metadata.labels.get(keys.JOBSET_NAME, '')}"]


def _controller_uid(pod: Pod) -> Iterable[str]:
    ref = pod.metadata.controller()
    return [] if ref is None else [ref.uid]


def _owner_uid(job: Job) -> list[str]:
    owner = _owner(job.metadata)
    return [] if owner is None else [owner[1]]


def owner_requests(meta: Identity) -> list[Request]:
    """The JobSet that controls an object, as a request; none for objects of others."""
    owner = _owner(meta)
    return [] if owner is None else [Request(meta.namespace, owner[0])]


def _owner(meta: Identity) -> tuple[str, str] | None:
    """(name, uid) of the controlling JobSet."""
    ref = meta.controller()
    if ref is None or ref.kind != keys.KIND or ref.api_version != keys.API_VERSION:
        return None
    return ref.name, ref.uid
