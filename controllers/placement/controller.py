"""Keeps followers with their leaders: lifts their gates, repairs, and tells why a leader waits. IO of `plan`.

A Job is looked at when its leader, one of its waiting followers or its leader's node changes. The pods of a Job are
read only where a follower may be misplaced: at the start of this process, when a Job has lost a leader that had led,
and when nodes change their domain.
"""

import asyncio
import contextlib
import logging
from datetime import datetime
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from api import keys
from api.batch import Job
from api.exclusive import Domain, NoDomain, topology_of
from api.topology import Follower, Leader, Node, PlacedPod
from controllers.placement.domains import Map
from controllers.placement.plan import (
    PATIENCE,
    REASON,
    TELL_EVERY,
    Evict,
    Lift,
    evictions,
    lifts,
    pending_note,
)
from controllers.placement.watches import BY_JOB, PlacementWatches
from kube.client import METADATA, Client, ListMeta, PatchType
from kube.clock import now, rfc3339
from kube.controller import Result
from kube.errors import NotFound
from kube.events import Reference
from kube.informer import Informer
from kube.parallel import Failure, each
from kube.resources import PODS
from kube.store import ChangeKind
from kube.workqueue import WorkQueue

log = logging.getLogger(__name__)

NAME = "placement"
"""Label value of this controller in metrics."""

NODE_PAUSE = 0.5
"""Seconds until another look for the node of a leader, which is seen by another watch, or for its label."""

RELABEL_PAUSE = 5.0
"""Seconds between a node's change of domain and the look for misplaced pods: a whole rack is renamed node by node."""


class JobRequest(NamedTuple):
    """Which Job's pods to look at. The UID tells it from another Job of the name."""

    namespace: str
    job: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.job}"


class Recorder(Protocol):
    """Where events go; never waits."""

    def record(self, regarding: Reference, event_type: str, reason: str, note: str, /) -> None: ...


class _Page(msgspec.Struct, frozen=True):
    metadata: ListMeta
    items: tuple[PlacedPod, ...] = ()


class PlacementReconciler:
    """The reconcile function of exclusive placement; `feed` brings it its requests."""

    def __init__(self, client: Client, watches: PlacementWatches, jobs: Informer[Job], recorder: Recorder) -> None:
        self._client = client
        self._watches = watches
        self._jobs = jobs
        self._recorder = recorder
        self._map = Map(watches.leaders.store, watches.nodes.store)
        self._due: dict[JobRequest, float] = {}
        self._told: dict[str, float] = {}

    def feed(self, queue: WorkQueue[JobRequest]) -> None:
        """From now on, put the Job of every change into the queue; Jobs that run already may have misplaced pods."""
        leaders, nodes = self._watches.leaders, self._watches.nodes
        for job in self._jobs.store.list():
            if job.status.active > 1 and topology_of(job.metadata.annotations) is not None:
                self._due[_request_of(job)] = 0.0
        leaders.enqueue(queue, lambda pod: [request_of_pod(pod)])
        self._watches.followers.enqueue(queue, lambda pod: [request_of_pod(pod)])
        leaders.on_event(self._leader_changed)
        nodes.on_event(lambda _kind, old, new: self._node_changed(queue, old, new))
        self._jobs.on_event(self._job_changed)

    def _leader_changed(self, _kind: ChangeKind, old: Leader | None, new: Leader | None) -> None:
        """A leader that goes may have led its followers to where the next one is not."""
        if old is None or not old.node or (new is not None and (new.live or not old.live)):
            return
        job = self._jobs.store.get(old.namespace, old.job)
        if job is not None and job.metadata.uid == old.job_uid and job.metadata.deletion_timestamp is None:
            self._due[_request_of(job)] = 0.0

    def _job_changed(self, kind: ChangeKind, old: Job | None, _new: Job | None) -> None:
        """What is gone need not be remembered."""
        if kind is ChangeKind.DELETED and old is not None:
            self._due.pop(_request_of(old), None)

    def _node_changed(self, queue: WorkQueue[JobRequest], old: Node | None, new: Node | None) -> None:
        """When a node changes its domain, pods in its old or its new one may be misplaced."""
        if old is None or new is None:
            return
        changed = {key for key in {*old.asked} & {*new.asked} if old.label(key) != new.label(key)}
        for leader in self._watches.leaders.store.list() if changed else ():
            topology = leader.topology
            here = self._map.label(topology, leader.node)
            if topology in changed and (leader.node == new.name or here in {old.label(topology), new.label(topology)}):
                request = request_of_pod(leader)
                self._due[request] = asyncio.get_running_loop().time() + RELABEL_PAUSE
                queue.add(request)

    async def reconcile(self, request: JobRequest) -> Result:
        leader = self._map.leader(request.namespace, request.uid)
        waiting = self._watches.followers.store.by_index(BY_JOB, request.uid)
        if leader is None:
            return Result()
        domain = self._map.find(request.namespace, request.uid, leader.topology)
        if isinstance(domain, NoDomain):
            pause = self._tell(leader, domain)
            return Result(min(NODE_PAUSE, pause) if leader.node else pause)
        _raise(await each(lifts(domain, waiting), self._lift))
        return await self._repair(request, domain, leader.topology)

    async def _repair(self, request: JobRequest, domain: Domain, topology: str) -> Result:
        """Look for misplaced followers, where there is cause to."""
        due = self._due.get(request)
        if due is None:
            return Result()
        wait = due - asyncio.get_running_loop().time()
        if wait > 0:
            return Result(wait)
        pods = await self._pods(request)
        wrong = evictions(domain, topology, pods, partial(self._map.label, topology))
        if wrong:
            log.info(
                "%s: %d followers are not in %s=%s, with their leader", request, len(wrong), topology, domain.value
            )
        _raise(await each(wrong, partial(self._evict, request.namespace)))
        if self._due.get(request) == due:
            del self._due[request]
        return Result()

    async def _pods(self, request: JobRequest) -> list[PlacedPod]:
        """All pods of a Job, page by page."""
        pods: list[PlacedPod] = []
        token = ""
        while True:
            page = await self._client.list_page(
                PODS,
                _Page,
                namespace=request.namespace,
                label_selector=f"{keys.JOB_UID}={request.uid}",
                continue_token=token,
            )
            pods += [pod for pod in page.items if pod.follows]
            token = page.metadata.continue_token
            if not token:
                return pods

    async def _lift(self, lift: Lift) -> None:
        pod = lift.pod
        patch = {
            "metadata": {"uid": pod.uid, "labels": {keys.AWAITS_LEADER: None}},
            "spec": {
                "nodeSelector": {pod.topology: lift.value},
                "schedulingGates": [{"$patch": "delete", "name": keys.PLACEMENT_GATE}],
            },
        }
        with contextlib.suppress(NotFound):
            await self._client.patch(
                PODS, pod.name, patch, namespace=pod.namespace, patch_type=PatchType.STRATEGIC, accept=METADATA
            )
        self._watches.followers.store.overlay_deleted(pod.namespace, pod.name, pod.uid)

    async def _evict(self, namespace: str, pod: Evict) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "ExclusivePlacementViolation",
            "message": "Pod violated JobSet exclusive placement policy",
            "lastTransitionTime": rfc3339(now()),
        }
        mark = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        with contextlib.suppress(NotFound):
            await self._client.patch(
                PODS, pod.name, mark, namespace=namespace, subresource="status", patch_type=PatchType.STRATEGIC
            )
            await self._client.delete(PODS, pod.name, namespace=namespace, uid=pod.uid, propagation_policy="Background")

    def _tell(self, leader: Leader, lack: NoDomain) -> float:
        """Record, once in a while for each JobSet, why its leaders wait; gives the seconds until the next look."""
        clock = asyncio.get_running_loop().time()
        waited = (now() - datetime.fromisoformat(leader.created)).total_seconds()
        if waited < PATIENCE:
            return PATIENCE - waited
        last = self._told.get(leader.jobset_uid)
        if last is not None and clock - last < TELL_EVERY:
            return TELL_EVERY - (clock - last)
        self._told = {uid: told for uid, told in self._told.items() if clock - told < TELL_EVERY}
        self._told[leader.jobset_uid] = clock
        leaders = self._watches.leaders.store.list(leader.namespace)
        unscheduled = [pod for pod in leaders if pod.jobset_uid == leader.jobset_uid and pod.live and not pod.node]
        jobset = Reference(
            api_version=keys.API_VERSION,
            kind=keys.KIND,
            namespace=leader.namespace,
            name=leader.jobset,
            uid=leader.jobset_uid,
        )
        note = pending_note(unscheduled) if unscheduled else f"Job {leader.job} has no domain: {lack.why}"
        self._recorder.record(jobset, "Warning", REASON, note)
        return TELL_EVERY


def _request_of(job: Job) -> JobRequest:
    return JobRequest(job.metadata.namespace, job.metadata.name, job.metadata.uid)


def request_of_pod(pod: Leader | Follower) -> JobRequest:
    """The Job of a pod."""
    return JobRequest(pod.namespace, pod.job, pod.job_uid)


def _raise(failures: list[Failure]) -> None:
    if failures:
        raise ExceptionGroup("pods could not be written", [failure.error for failure in failures])
