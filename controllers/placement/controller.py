"""Places all pods of a Job into one topology domain (exclusive placement).

A domain is all nodes with one value of a node label, the topology label; for example, a rack. The pod of a Job with
completion index 0 is its leader, and the node of the leader decides the domain of the Job. The other pods are
followers. A follower that is created before the leader has a node gets a scheduling gate, and waits. This controller
removes the gate when the domain is known, evicts misplaced followers (those in another domain than their leader), and
reports why a leader waits.

`controllers.placement.plan` decides which pods are misplaced, and this module sends the requests. A Job is reconciled
when its leader, one of its waiting followers or its leader's node changes. The pods of a Job are read only when a
follower may be misplaced: when this process starts, when a Job has lost a leader that had a node, and when nodes change
their domain.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from api import keys
from api.batch import Job
from api.exclusive import Domain, NoDomain
from api.pod import PodMeta
from api.topology import Follower, Leader, Node
from controllers.placement.domains import DomainMap
from controllers.placement.memory import JobMemories, JobRequest
from controllers.placement.plan import NODE_PAUSE, is_misplaced
from controllers.placement.reading import PodReader
from controllers.placement.reports import PendingReports
from controllers.placement.watches import BY_JOB, PlacementWatches
from kube.client import Client, PatchType
from kube.clock import now, rfc3339
from kube.controller import Result
from kube.errors import NotFound
from kube.events import Recorder
from kube.informer import Informer
from kube.log_fields import add_log_fields
from kube.options import METADATA
from kube.parallel import Failure, each
from kube.resources import PODS
from kube.store import ChangeKind
from kube.workqueue import WorkQueue

log = logging.getLogger(__name__)

NAME = "placement"
"""The value of the label `controller` in metrics."""

WORKERS = 50
"""How many Jobs are reconciled at the same time. Most send no request, and Jobs that list pods share a list."""

RELABEL_PAUSE = 5.0
"""Seconds from a node's last change of domain to the check for misplaced pods. A whole rack is renamed node by node."""

LONGEST_RELABEL = 30.0
"""Seconds from the first change of domain until that check is due even if nodes keep changing their domains."""

LAST_CHECK = 150.0
"""Seconds from the loss of a leader to the last check of its Job for misplaced pods.

The webhook of a replica whose watch is broken may send followers to the domain of the lost leader. After this time the
replica has noticed that its watch is broken.
"""


@dataclass(slots=True)
class _DomainChanges:
    """The domains that nodes have left or joined, as key and value of the topology label, until the next check.

    `first_change`: when the first node changed its domain, in the event loop's time. `timer`: starts the check.
    """

    domains: set[tuple[str, str | None]] = field(default_factory=set)
    first_change: float = 0.0
    timer: asyncio.TimerHandle | None = None


class PlacementReconciler:
    """Reconciles Jobs with exclusive placement. `feed` connects it with the work queue."""

    def __init__(
        self,
        client: Client,
        watches: PlacementWatches,
        jobs: Informer[Job],
        recorder: Recorder,
        wall_clock: Callable[[], datetime] = now,
    ) -> None:
        self._client = client
        self._wall_clock = wall_clock
        self._reader = PodReader(client)
        self._watches = watches
        self._jobs = jobs
        self.memories = JobMemories()
        """What this process keeps about each Job besides the caches."""
        self._reports = PendingReports(watches.leaders.store, jobs.store, recorder, self.memories, wall_clock)
        self._map = DomainMap(watches.leaders.store, watches.nodes.store)
        self._changes = _DomainChanges()

    def feed(self, queue: WorkQueue[JobRequest]) -> None:
        """From now on, put the Job of each changed pod or node into the queue. Also check all running Jobs once."""
        leaders, nodes = self._watches.leaders, self._watches.nodes
        clock = asyncio.get_running_loop().time()
        for job in self._jobs.store.list():
            if job.status.active > 1 and job.topology is not None:
                self.memories.check_at(JobRequest.from_job(job), clock)
        leaders.on_event(self._leader_changed)
        leaders.enqueue(queue, self._requests_of_leader)
        self._watches.followers.enqueue(queue, lambda pod: [JobRequest.from_pod(pod)])
        nodes.on_event(lambda _kind, old, new: self._node_changed(queue, old, new))
        self._jobs.on_event(self._job_changed)

    def _requests_of_leader(self, pod: Leader) -> list[JobRequest]:
        """The Job to reconcile after a change of its leader.

        Mostly there is none: the Job has a domain, has no waiting followers, and no check of the Job is planned.
        """
        request = JobRequest.from_pod(pod)
        leader = self._map.leader(request.namespace, request.uid)
        has_domain = leader is None or isinstance(
            self._map.find(request.namespace, request.uid, leader.topology), Domain
        )
        has_followers = self._watches.followers.store.by_index(BY_JOB, request.pods_key)
        if not has_domain or has_followers or self.memories.checks(request):
            return [request]
        self.memories.note_domain(request)
        return []

    def _leader_changed(self, _kind: ChangeKind, old: Leader | None, new: Leader | None) -> None:
        """Plan checks when a leader is lost, since its followers may be in another domain than the next leader."""
        if old is None or not old.node or not old.is_live or (new is not None and (new.is_live or new.succeeded)):
            return
        job = self._current_job(JobRequest.from_pod(old))
        if job is not None and job.metadata.deletion_timestamp is None:
            clock = asyncio.get_running_loop().time()
            # All pods of a suspended Job are deleted, and no follower is admitted before it is resumed.
            last_check = () if job.spec.suspend else (clock + LAST_CHECK,)
            self.memories.check_at(JobRequest.from_job(job), clock, *last_check)

    def _job_changed(self, kind: ChangeKind, old: Job | None, _new: Job | None) -> None:
        """Forget a deleted Job."""
        if kind is ChangeKind.DELETED and old is not None:
            self.memories.forget(JobRequest.from_job(old))

    def _current_job(self, request: JobRequest) -> Job | None:
        """The cached Job; None if the Job is gone, even if another Job has its name."""
        job = self._jobs.store.get(request.namespace, request.job)
        return job if job is not None and job.metadata.uid == request.uid else None

    def _node_changed(self, queue: WorkQueue[JobRequest], old: Node | None, new: Node | None) -> None:
        """Plan checks when a node changes its domain, since pods in the old and the new domain may be misplaced."""
        if old is None or new is None:
            return
        changed_keys = {key for key in {*old.kept_keys} & {*new.kept_keys} if old.label(key) != new.label(key)}
        if not changed_keys:
            return
        loop = asyncio.get_running_loop()
        if self._changes.timer is not None:
            self._changes.timer.cancel()
        else:
            self._changes.first_change = loop.time()
        check_time = min(loop.time() + RELABEL_PAUSE, self._changes.first_change + LONGEST_RELABEL)
        self._changes.timer = loop.call_at(check_time, self._check_changed_domains, queue)
        self._changes.domains |= {(key, node.label(key)) for key in changed_keys for node in (old, new)}

    def _check_changed_domains(self, queue: WorkQueue[JobRequest]) -> None:
        """Queue a check of each Job whose leader is in a domain that nodes have left or joined."""
        clock = asyncio.get_running_loop().time()
        domains, self._changes = self._changes.domains, _DomainChanges()
        for leader in self._watches.leaders.store.list():
            domain = leader.topology, self._map.label(leader.topology, leader.node)
            request = JobRequest.from_pod(leader)
            if leader.node and domain in domains and self._current_job(request) is not None:
                self.memories.check_at(request, clock)
                queue.add(request)

    async def reconcile(self, request: JobRequest) -> Result:
        """Send waiting followers of a Job to its domain, or report why the Job has no domain. Evict misplaced pods."""
        job = self._current_job(request)
        owner = None if job is None else job.metadata.controller()
        add_log_fields(namespace=request.namespace, job=request.job, uid="" if owner is None else owner.uid)
        leader = self._map.leader(request.namespace, request.uid)
        waiting = self._watches.followers.store.by_index(BY_JOB, request.pods_key)
        if leader is None and waiting:
            return Result(self._reports.report_leaderless(waiting))
        if leader is None:
            self.memories.note_domain(request)
            return Result()
        domain = self._map.find(request.namespace, request.uid, leader.topology)
        if isinstance(domain, NoDomain):
            return Result(self._report_without_domain(leader, domain))
        self.memories.note_domain(request)
        failures = await each(waiting, partial(self._lift_gate, domain))
        failures += await self._evict_misplaced(request, domain, leader.topology)
        if failures:
            raise ExceptionGroup("pods could not be written", [failure.error for failure in failures])
        checks = self.memories.checks(request)
        return Result(max(0.0, checks[0] - asyncio.get_running_loop().time()) if checks else None)

    def _report_without_domain(self, leader: Leader, domain: NoDomain) -> float:
        """Report a leader without a domain. Returns the seconds until its next reconcile."""
        if not leader.node:
            return self._reports.report_unscheduled(leader)
        if self._map.reads_labels(leader):
            is_kept = self._watches.keep_label(leader)
            return NODE_PAUSE if is_kept else self._reports.report_unread_label(leader)
        return self._reports.report_without_domain(leader, domain)

    async def _evict_misplaced(self, request: JobRequest, domain: Domain, topology: str) -> list[Failure]:
        """Evict misplaced followers if a check of the Job is due. A check that fails is repeated."""
        clock = asyncio.get_running_loop().time()
        # The check is forgotten before the pods are read, since a leader that is lost meanwhile needs another check.
        if not self.memories.forget_due_checks(request, clock):
            return []
        is_done = False
        try:
            label = partial(self._map.label, topology)
            is_misplaced_pod = partial(is_misplaced, domain=domain, topology=topology, label=label)
            pods = await self._reader.misplaced_pods(request.namespace, request.uid, is_misplaced_pod)
            if pods:
                log.info(
                    "%s: %d followers are not in %s %s with their leader", request, len(pods), topology, domain.value
                )
            failures = await each(pods, self._evict)
            is_done = not failures
        finally:
            if not is_done and self._current_job(request) is not None:
                self.memories.check_at(request, clock)
        return failures

    async def _lift_gate(self, domain: Domain, pod: Follower) -> None:
        """Remove the scheduling gate of a follower, and send it to the domain of its leader."""
        patch = {
            "metadata": {"uid": pod.uid, "labels": {keys.AWAITS_LEADER: None}},
            "spec": {
                "nodeSelector": {pod.topology: domain.value},
                "schedulingGates": [{"$patch": "delete", "name": keys.PLACEMENT_GATE}],
            },
        }
        with contextlib.suppress(NotFound):
            await self._client.patch(
                PODS, pod.name, patch, namespace=pod.namespace, patch_type=PatchType.STRATEGIC, accept=METADATA
            )
        self._watches.followers.store.overlay_deleted(pod.namespace, pod.name, pod.uid)

    async def _evict(self, pod: PodMeta) -> None:
        """Mark a misplaced follower with DisruptionTarget and delete it. Its Job creates another pod."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "ExclusivePlacementViolation",
            "message": "Pod violated JobSet exclusive placement policy",
            "lastTransitionTime": rfc3339(self._wall_clock()),
        }
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        with contextlib.suppress(NotFound):
            await self._client.patch(
                PODS, pod.name, patch, namespace=pod.namespace, subresource="status", patch_type=PatchType.STRATEGIC
            )
            await self._client.delete(
                PODS, pod.name, namespace=pod.namespace, uid=pod.uid, propagation_policy="Background"
            )
