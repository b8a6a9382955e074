"""The JobSet controller. A reconcile observes one JobSet, makes a plan, and executes the plan.

`_observe` reads the objects of the JobSet from the caches. `Planning.decide`, a pure function, makes a plan from them:
writes, a new status and events. If it has to know more about pods or nodes, the plan has a query instead; the
reconciler reads the answer and plans again. A `Memory` is what this process remembers of a JobSet between reconciles.
An attempt is the run of a set between two restarts.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from api.batch import Job
from api.features import FeatureGates
from api.jobset import JobSet
from api.jobset_status import JobSetStatus
from api.names import subdomain, volume_claim_names
from api.packed import unpack
from api.pod import Pod
from api.priority import Priorities
from controllers.gang.execute import GroupWriteError
from controllers.gang.stalled import NO_EVENTS, StalledGangs
from controllers.indexes import BY_OWNER, key_of_children
from controllers.jobset.contested_jobs import ContestedJobs
from controllers.jobset.execute import Caches, Executor, FailedWrites, ForeignObjectError
from controllers.jobset.failed_pods import list_failed_pods
from controllers.jobset.leftover_pods import LeftoverPods
from controllers.jobset.memory import ExpiringValue, Memories, Memory
from controllers.jobset.milestones import Milestones, Stopwatch
from controllers.jobset.node_watches import NodeWatches
from controllers.jobset.pending_pods import find_pending_pods
from controllers.jobset.spare_pods import note_served_pods, with_read_spare_pods, with_spare_pods
from controllers.jobset.start_spacing import StartSpacing
from controllers.jobset.unscheduled_pods import UnscheduledPods
from controllers.jobset.watches import BY_SET_NAME
from controllers.planning import placeholders, spares
from controllers.planning.actions import (
    DeleteJobs,
    FailedPodQuery,
    NodeQuery,
    PendingPodQuery,
    Plan,
    PodQuery,
    PoolQuery,
    has_only_creations,
)
from controllers.planning.child_jobs import unrecorded_jobs
from controllers.planning.decisive_pod import candidates_of
from controllers.planning.finished import has_finished
from controllers.planning.job_window import UNKNOWN, started_job_names
from controllers.planning.limits import DEFAULT_LIMITS, Limits
from controllers.planning.observed import Observed
from controllers.planning.plan import Planning
from controllers.planning.sorted_jobs import SortedJobs
from controllers.planning.summary import summary
from controllers.resources import JOBSETS
from kube.client import Client
from kube.clock import now, rfc3339
from kube.controller import Request, Result, says_namespace_ends
from kube.errors import Conflict, NotFound
from kube.events import Recorder
from kube.indexes import IndexKey
from kube.log_fields import add_log_fields
from kube.workqueue import COUNTED, EARLY_SECONDS

log = logging.getLogger(__name__)

NAME = "jobset"
"""The value of the label `controller` in metrics."""

PAUSE_FACTOR = 4.0
"""The pause of a set before its next plan, as a multiple of the time that its last plan took. So planning for thousands
of Jobs that change all the time takes at most a fifth of a processor. Small sets do not wait noticeably."""

GROUP_RETRY = 30.0
"""Seconds until the failed creation of a PodGroup, CompositePodGroup or Workload is tried again."""

CATCH_UP = 1.0
"""Seconds until the next plan of a new leader whose watches are behind, so that they can catch up."""

NAMESPACE_RETRY = 60.0
"""Seconds until the next plan for a set in a namespace that is being deleted, where all creations are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a reconciler. `wall_clock` returns the time, as it is written into the status."""

    limits: Limits = DEFAULT_LIMITS
    wall_clock: Callable[[], datetime] = now


class JobSetReconciler:
    """The reconcile function of the JobSet controller."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        gates: FeatureGates,
        recorder: Recorder,
        milestones: Milestones,
        options: Options | None = None,
    ) -> None:
        self._client = client
        self._caches = caches
        self._gates = gates
        self._options = options or Options()
        self._executor = Executor(client, caches, recorder)
        self._stalled = StalledGangs(client, self._executor.record_event)
        self._unscheduled = UnscheduledPods(client, self._executor.record_event)
        self._contested = ContestedJobs(client, self._executor.record_event)
        self._stopwatch = Stopwatch(milestones)
        self._start_spacing = StartSpacing()
        self._write_seconds = 0.0  # how long the writes of the last plan took, of any set: a measure of the load
        self.memories = Memories()
        """What is remembered of each JobSet. Its `on_job_event` has to be a handler of the informer of Jobs."""
        self.leftover_pods = LeftoverPods(client, self.memories)
        """The watches of pods that outlive deleted Jobs. Its `run` has to be running."""

    async def reconcile(self, request: Request) -> Result:
        """Make and execute one plan for a JobSet. Returns when to reconcile it again, even if nothing changes."""
        cached = self._caches.jobsets.get(request.namespace, request.name)
        if cached is None:
            self.memories.forget(request)
            return Result()
        meta = cached.metadata
        add_log_fields(namespace=meta.namespace, name=meta.name, uid=meta.uid, generation=meta.generation)
        memory = self.memories.get_or_create(request, meta.uid)
        clock = asyncio.get_running_loop().time
        start_time = clock()
        earliest_time = max(memory.rest_until, memory.namespace_ends_until)
        if cached.spec.suspend and not cached.status.replicated_jobs_status:
            earliest_time = max(earliest_time, self._first_plan_time(memory, start_time))
        if earliest_time > start_time + EARLY_SECONDS:
            return Result(earliest_time - start_time)
        observed = self._observe(unpack(cached), memory)
        js = observed.jobset
        unix_time = self._options.wall_clock().timestamp()
        memory.attempt_times = self._stopwatch.note(memory.attempt_times, js, observed.jobs, unix_time)
        planning = self._planning(len(observed.jobs), memory)
        plan = planning.decide(observed)
        memory.rest_until = clock() + PAUSE_FACTOR * (clock() - start_time)
        while plan.pod_query is not None:
            observed = await self._with_answer(observed, plan.pod_query)
            plan = planning.decide(observed)
        # The Job controller has not taken up `plan.queued` earlier Jobs. The plan creates or resumes `started_names`.
        started_names = [] if js.spec.suspend else started_job_names(plan)
        self.memories.note_waiting_jobs(request, has_waiting_jobs=bool(plan.queued or started_names))
        self._warn(js, plan, memory)
        await self._contested.check(observed, memory.resumptions)
        self._log(request, summary(js, plan), memory)
        if plan.status is None:  # the stored conditions are those of this plan
            memory.reported_group = plan.reported_group
        try:
            if not await self._carry_out(js, plan, memory):
                return Result(0.0)
            memory.failed_plan_line = ""
        except FailedWrites as failed:
            # Jobs that are refused, for example by a quota, do not delay other sets.
            self.memories.note_waiting_jobs(request, has_waiting_jobs=plan.queued > 0)
            self._remember_failures(failed, request, memory)
            # The next plan reports errors of these two types, so it is made at once, without a back-off.
            if failed.split((ForeignObjectError, GroupWriteError))[1] is None:
                return Result(0.0)
            raise
        finally:
            self._follow_old_pods(js, plan)
            memory.resumptions.note_resumed(plan, self._caches.jobs, request.namespace, clock())
            waiting_jobs = plan.queued + len(started_names)
            if started_names and waiting_jobs >= self._options.limits.queued_jobs:
                # When the Job controller takes up the last of these Jobs shows how fast it is.
                memory.job_window = memory.job_window.watch(started_names[-1], waiting_jobs, start_time)
        pod_check = self._unscheduled if js.spec.scheduling is None else self._stalled
        next_check = await pod_check.check(observed, memory.pod_reports)
        # A status in which only counts differ is written a little later. This is less urgent than other changes.
        priority = COUNTED.priority if plan.counts_wait else 0
        waits = plan.requeue_after, max(memory.group_error.end_time - clock(), 0) or None, next_check
        return Result(min((seconds for seconds in waits if seconds is not None), default=None), priority)

    def _log(self, request: Request, line: str, memory: Memory) -> None:
        """Log the line about a plan, unless it is empty or the same as in the last try."""
        if line and line != memory.failed_plan_line:
            self._client.check_guard()
            log.info("%s %s: %s", NAME, request, line)
        memory.failed_plan_line = line

    def _first_plan_time(self, memory: Memory, time: float) -> float:
        """The time on the event loop's clock before which a new suspended set gets no Jobs."""
        if memory.first_plan_time is None:
            memory.first_plan_time = self._start_spacing.reserve(time, self._write_seconds)
        return memory.first_plan_time

    async def _carry_out(self, js: JobSet, plan: Plan, memory: Memory) -> bool:
        """Execute a plan. Returns False, without any write, if the cached JobSet is not the stored JobSet.

        The watches of a new leader may be behind those of the last leader, so it could delete or suspend Jobs that are
        wanted now. So before its first change of an existing object it reads the JobSet, unless a write of the status,
        which is conditional on the version, comes first.
        """
        clock = asyncio.get_running_loop().time
        start_time = clock()
        memory.counts_differ_since = (memory.counts_differ_since or start_time) if plan.counts_wait else None
        needs_read = not (memory.has_current_caches or has_only_creations(plan) or (plan.status_first and plan.status))
        if needs_read and not await self._is_stored(js):
            return False
        stored_statuses: list[JobSetStatus] = []

        def on_stored(status: JobSetStatus) -> None:
            stored_statuses.append(status)
            memory.status_write_time = asyncio.get_running_loop().time()
            if status is plan.status:
                memory.reported_group = plan.reported_group

        await self._executor.execute(
            js, plan, on_stored, memory.refused_jobs, has_current_caches=memory.has_current_caches
        )
        if self._caches.spare_pods is not None:
            note_served_pods(memory, plan.actions, clock())
        if plan.actions:
            self._write_seconds = clock() - start_time
        memory.has_current_caches = memory.has_current_caches or needs_read or bool(stored_statuses)
        return True

    async def _is_stored(self, js: JobSet) -> bool:
        """Whether the API server has the same version of the JobSet. Puts that version into the cache."""
        meta, cache = js.metadata, self._caches.jobsets
        try:
            stored = await self._client.get(JOBSETS, meta.name, namespace=meta.namespace, type=JobSet)
        except NotFound:
            cache.overlay_deleted(meta.namespace, meta.name, meta.uid)
            return False
        cache.overlay(stored)
        return stored.metadata.resource_version == meta.resource_version

    def _planning(self, jobs: int, memory: Memory) -> Planning:
        """A new `Planning`. `jobs`: how many Jobs the set has. The Jobs of a large set stay sorted between plans."""
        limits = self._options.limits
        memory.sorted_jobs = None if jobs < limits.sorted_jobs_from else memory.sorted_jobs or SortedJobs()
        return Planning(self._gates, limits, memory.sorted_jobs)

    def _follow_old_pods(self, js: JobSet, plan: Plan) -> None:
        """Watch the pods of earlier attempts if the plan needs them, else end the watch once these pods are gone."""
        if plan.follow_pods:
            # A plan that has failed may also have deleted Jobs.
            self.leftover_pods.follow(js, relist=any(isinstance(action, DeleteJobs) for action in plan.actions))
        else:
            self.leftover_pods.end_when_gone(js)

    def _remember_failures(self, failed: FailedWrites, request: Request, memory: Memory) -> None:
        """Remember failures for the next plan. A terminating namespace is remembered for all of its JobSets."""
        loop_time = asyncio.get_running_loop().time()
        if not memory.has_current_caches and failed.subgroup(Conflict) is not None:
            memory.rest_until = loop_time + CATCH_UP
        if failed.subgroup(says_namespace_ends) is not None:
            self.memories.pause_namespace(request.namespace, loop_time + NAMESPACE_RETRY)
        foreign_errors = [error for error in failed.exceptions if isinstance(error, ForeignObjectError)]
        if foreign_errors:
            names = {**memory.foreign_owners.value, **{error.name: error.owner for error in foreign_errors}}
            memory.foreign_owners = ExpiringValue(names, loop_time + self._options.limits.name_conflict_retry_seconds)
        failed_groups = [error for error in failed.exceptions if isinstance(error, GroupWriteError)]
        if failed_groups:
            error = failed_groups[0].reason, str(failed_groups[0])
            memory.group_error = ExpiringValue(error, loop_time + GROUP_RETRY)

    async def _with_answer(self, observed: Observed, pod_query: PodQuery) -> Observed:
        """The observed state with the answer to a query. Raises errors of the client if a decision needs the answer."""
        js, meta, nodes = observed.jobset, observed.jobset.metadata, self._caches.nodes
        memory = self.memories.get_or_create(Request(meta.namespace, meta.name), meta.uid)
        match pod_query:
            case NodeQuery(nodes=names):
                if nodes is not None:
                    await nodes.read(js, names)
                    observed = _with_nodes(observed, nodes)
                return dataclasses.replace(observed, read_nodes=observed.read_nodes.union(names))
            case PoolQuery():
                return await with_read_spare_pods(self._client, observed, self._caches.spare_pods, memory)
            case PendingPodQuery():
                pending_pods, memory.next_start_check = await find_pending_pods(self._client, observed)
                return dataclasses.replace(observed, pending_pods=pending_pods)
            case FailedPodQuery():
                pods = await list_failed_pods(self._client, meta.namespace, pod_query, candidates_of(js, observed.jobs))
                return dataclasses.replace(observed, failed_pods={**observed.failed_pods, **pods})
            case other:
                assert_never(other)

    def _warn(self, js: JobSet, plan: Plan, memory: Memory) -> None:
        """Record the warnings that the last plan did not have."""
        for event in plan.warnings:
            if event not in memory.last_warnings:
                self._executor.record_event(js, event)
        memory.last_warnings = frozenset(plan.warnings) or NO_EVENTS

    def _observe(self, js: JobSet, memory: Memory) -> Observed:
        """The observed state of the JobSet, from the caches and the memory."""
        meta, nodes, moment = js.metadata, self._caches.nodes, self._options.wall_clock()
        time = rfc3339(moment)
        jobs = tuple(self._caches.jobs.by_index(BY_OWNER, key_of_children(js)))
        pods, last_ends, priority_classes = self._pods_of(jobs), self._caches.last_ends, self._caches.priority_classes
        jobs_by_label = self._caches.jobs.by_index(BY_SET_NAME, IndexKey(meta.namespace, meta.name))
        clock = asyncio.get_running_loop().time
        foreign_owners = memory.foreign_owners.value if clock() < memory.foreign_owners.end_time else {}
        if not foreign_owners:
            memory.foreign_owners = ExpiringValue(foreign_owners, 0.0)
        group_watches = self._caches.groups
        group_error = memory.group_error.value if clock() < memory.group_error.end_time else None
        if js.spec.suspend:
            memory.resumptions.clear()
        if memory.job_window is not UNKNOWN:
            watched = self._caches.jobs.get(meta.namespace, memory.job_window.job)
            memory.job_window = memory.job_window.measure(watched, clock())
        observed = Observed(
            jobset=js,
            jobs=jobs,
            service=self._caches.services.get(meta.namespace, subdomain(js)),
            claims=frozenset(
                name for name in volume_claim_names(js) if self._caches.claims.get(meta.namespace, name) is not None
            ),
            now=time,
            since_status_write=None if memory.status_write_time is None else clock() - memory.status_write_time,
            write_seconds=self._write_seconds,
            counts_waited=0.0 if memory.counts_differ_since is None else clock() - memory.counts_differ_since,
            departed=self._unrecorded_ends(js, jobs, memory),
            # If as many Jobs have the label as the owner, which is the usual case, the set owns all of them.
            foreign_owners={
                **foreign_owners,
                **{
                    job.metadata.name: job.metadata.owner
                    for job in (jobs_by_label if len(jobs_by_label) != len(jobs) else ())
                    if not job.metadata.controlled_by(meta.uid)
                },
            },
            undecodable_jobs={
                name: reason
                for (namespace, name), reason in self._caches.jobs.unreadable.items()
                if namespace == meta.namespace
            },
            pods=pods,
            last_ends={} if last_ends is None or not pods else last_ends.ends_of(pods),
            leftovers=self.leftover_pods.owners(js),
            priorities=None if priority_classes is None else Priorities(priority_classes.list()),
            groups=None if group_watches is None else group_watches.known_groups(js, group_error),
            reported_group=memory.reported_group,
            next_start_check=memory.next_start_check,
            held_back=memory.resumptions.seconds_left(clock()),
            second_passed=moment.microsecond / 1e6,
            job_window=memory.job_window.size,
            others_wait=self.memories.others_wait(Request(meta.namespace, meta.name)),
        )
        observed = spares.separate_spares(observed if nodes is None else _with_nodes(observed, nodes))
        if observed.spares and self._caches.spare_pods is not None:
            observed = with_spare_pods(observed, self._caches.spare_pods, memory, clock())
        return placeholders.separate_placeholders(observed, self._gates) if js.status.reduced_replicas else observed

    def _unrecorded_ends(self, js: JobSet, jobs: Iterable[Job], memory: Memory) -> tuple[Job, ...]:
        """Deleted Jobs with an end that the status does not record yet. Other deleted Jobs are forgotten."""
        if memory.departed:
            job_uids = {job.metadata.uid for job in jobs}
            departed_jobs = [
                job
                for uid, job in memory.departed.items()
                if uid not in job_uids and job.metadata.controlled_by(js.metadata.uid)
            ]
            records_ends = js.is_ours and not has_finished(js)
            unrecorded = unrecorded_jobs(js, departed_jobs, self._gates) if records_ends else ()
            memory.departed = {job.metadata.uid: job for job in unrecorded}
        return tuple(memory.departed.values())

    def _pods_of(self, jobs: Iterable[Job]) -> tuple[Pod, ...]:
        if (pods := self._caches.pods) is None:
            return ()
        return tuple(pod for job in jobs for pod in pods.by_index(BY_OWNER, key_of_children(job)))


def _with_nodes(observed: Observed, nodes: NodeWatches) -> Observed:
    """The observed state with the current state of nodes from the caches."""
    pods_to_move, node_names = nodes.pods_in_maintenance(observed.jobset)
    return dataclasses.replace(
        observed,
        pods_on_failed_nodes=nodes.failed_pods(observed.jobset, observed.now),
        pods_to_move=pods_to_move,
        nodes_in_maintenance=node_names,
    )
