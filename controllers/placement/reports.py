"""Reports why Jobs with exclusive placement wait, by one Event for each JobSet, however many of its Jobs wait.

In exclusive placement, all pods of a Job run in one topology domain: the nodes with one value of a node label. The node
of the leader (the pod with completion index 0) decides the domain. The other pods, the followers, wait for it.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime

from api import keys
from api.batch import Job
from api.exclusive import NoDomain
from api.owners import owning_jobset
from api.topology import Follower, Leader
from controllers.placement.memory import JobMemories, JobRequest
from controllers.placement.plan import NODE_PAUSE, REPORT_AFTER, REPORT_EVERY, pending_note
from controllers.placement.watches import MAX_KEYS
from kube.events import Recorder, Reference
from kube.indexes import IndexKey
from kube.model.meta import OwnerReference
from kube.store import Store


class PendingReports:
    """Reports each waiting JobSet every `REPORT_EVERY` seconds.

    Each `report_` method returns the seconds until the Job has to be reconciled again.
    """

    def __init__(
        self,
        leaders: Store[Leader],
        jobs: Store[Job],
        recorder: Recorder,
        memories: JobMemories,
        wall_clock: Callable[[], datetime],
    ) -> None:
        self._leaders = leaders
        self._jobs = jobs
        self._recorder = recorder
        self._memories = memories
        self._wall_clock = wall_clock

    def report_unscheduled(self, leader: Leader) -> float:
        """Report a leader that has no node yet."""
        waited = (self._wall_clock() - datetime.fromisoformat(leader.created)).total_seconds()
        if waited < REPORT_AFTER:
            return REPORT_AFTER - waited
        return self._report(leader, lambda jobset: pending_note(self._waiting_leaders(leader.namespace, jobset)))

    def _waiting_leaders(self, namespace: str, jobset: OwnerReference) -> list[Leader]:
        """The leaders of a JobSet that have no node yet."""
        leaders = (pod for pod in self._leaders.list(namespace) if pod.is_live and not pod.node)
        return [leader for leader in leaders if self._jobset(leader) == jobset]

    def report_without_domain(self, leader: Leader, no_domain: NoDomain) -> float:
        """Report a leader whose node has no topology label, or is gone."""
        if self._grace_seconds(leader) > 0:
            return NODE_PAUSE
        # If the node still appears, no watch event queues this Job.
        return min(REPORT_AFTER, self._report(leader, lambda _: f"Job {leader.job} has no domain: {no_domain.reason}"))

    def report_unread_label(self, leader: Leader) -> float:
        """Report a leader whose topology label is not cached, because `MAX_KEYS` other labels are in use."""
        # No watch event tells when one of the other labels is no longer in use.
        problem = (
            f"Job {leader.job} has no domain: too many topologies: {MAX_KEYS} other node labels than the common ones"
            f" are in use, and {leader.topology} is read when one of them is not any more"
        )
        return min(REPORT_AFTER, self._report(leader, lambda _: problem))

    def report_leaderless(self, followers: list[Follower]) -> float:
        """Report waiting followers of one Job, if the Job has had no leader for longer than its creation takes."""
        pod, grace_seconds = followers[0], self._grace_seconds(followers[0])
        if grace_seconds > 0:
            return grace_seconds
        pods = "a pod waits" if len(followers) == 1 else f"{len(followers)} pods wait"
        problem = f"{pods} for the leader pod of Job {pod.job}, which has none (a pod with completion index 0)"
        return self._report(pod, lambda _: problem)

    def _grace_seconds(self, pod: Leader | Follower) -> float:
        """Seconds until the Job of this pod may be reported, 0 if it has had no domain for `REPORT_AFTER` seconds.

        Shorter times are usual: until a new leader is created, or until the node of the leader is in the cache.
        """
        clock = asyncio.get_running_loop().time()
        return max(0.0, REPORT_AFTER - (clock - self._memories.without_domain_since(JobRequest.from_pod(pod), clock)))

    def _jobset(self, pod: Leader | Follower) -> OwnerReference | None:
        """The JobSet of the Job that controls a pod.

        It is read from the owner reference of the Job, since any user may write the labels of a pod.
        """
        job = self._jobs.get(pod.namespace, pod.job)
        return None if job is None or job.metadata.uid != pod.job_uid else owning_jobset(job.metadata)

    def _report(self, pod: Leader | Follower, note: Callable[[OwnerReference], str]) -> float:
        """Record an event about the JobSet of a pod, unless there was one recently. A pod may belong to no JobSet.

        `note`: makes the text of the event. Returns the seconds until the next report.
        """
        owner, clock = self._jobset(pod), asyncio.get_running_loop().time()
        if owner is None:
            return REPORT_AFTER
        seconds_left = self._memories.begin_report(IndexKey(pod.namespace, owner.uid), clock, REPORT_EVERY)
        if seconds_left > 0:
            return seconds_left
        jobset = Reference(
            api_version=keys.API_VERSION,
            kind=keys.KIND,
            namespace=pod.namespace,
            name=owner.name,
            uid=owner.uid,
        )
        self._recorder.record(jobset, "Warning", keys.PLACEMENT_PENDING, note(owner))
        return REPORT_EVERY
