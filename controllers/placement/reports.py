"""Reports leaders that wait, and why: one Event (series) for each JobSet, however many of its Jobs wait."""

import asyncio
from collections.abc import Callable
from datetime import datetime

from api import keys
from api.exclusive import NoDomain
from api.topology import Follower, Leader
from controllers.placement.memory import JobMemories, JobRequest
from controllers.placement.plan import NODE_PAUSE, REPORT_AFTER, REPORT_EVERY, pending_note
from controllers.placement.watches import MOST_KEYS
from kube.events import Recorder, Reference
from kube.store import Store


class PendingReports:
    """Reports each JobSet every `REPORT_EVERY` seconds. Each method returns the seconds until the next reconcile."""

    def __init__(
        self, leaders: Store[Leader], recorder: Recorder, memories: JobMemories, wall_clock: Callable[[], datetime]
    ) -> None:
        self._leaders = leaders
        self._recorder = recorder
        self._memories = memories
        self._wall_clock = wall_clock

    def unscheduled(self, leader: Leader) -> float:
        """A leader that has no node yet."""
        waited = (self._wall_clock() - datetime.fromisoformat(leader.created)).total_seconds()
        if waited < REPORT_AFTER:
            return REPORT_AFTER - waited
        wait = self._wait(leader)
        if wait > 0:
            return wait
        leaders = self._leaders.list(leader.namespace)
        others = [pod for pod in leaders if pod.jobset_uid == leader.jobset_uid and pod.live and not pod.node]
        return self._report(leader, pending_note(others))

    def without_domain(self, leader: Leader, lack: NoDomain) -> float:
        """A leader whose node carries no topology label, or is gone."""
        if self._grace(leader) > 0:
            return NODE_PAUSE
        # The node may still come, and no event would say so.
        wait = self._wait(leader) or self._report(leader, f"Job {leader.job} has no domain: {lack.why}")
        return min(REPORT_AFTER, wait)

    def too_many_topologies(self, leader: Leader) -> float:
        """A leader whose topology label is not kept, because `MOST_KEYS` others are in use."""
        # No watch shows when one of them is not used any more.
        lack = (
            f"Job {leader.job} has no domain: too many topologies: {MOST_KEYS} other node labels than the common ones"
            f" are in use, and {leader.topology} is read when one of them is not any more"
        )
        return min(REPORT_AFTER, self._wait(leader) or self._report(leader, lack))

    def leaderless(self, waiting: list[Follower]) -> float:
        """Followers whose Job has no leader pod, for longer than the Job controller needs to make one."""
        pod, grace = waiting[0], self._grace(waiting[0])
        if grace > 0:
            return grace
        pods = "a pod waits" if len(waiting) == 1 else f"{len(waiting)} pods wait"
        lack = f"{pods} for the leader pod of Job {pod.job}, which has none (a pod with completion index 0)"
        return self._wait(pod) or self._report(pod, lack)

    def _grace(self, pod: Leader | Follower) -> float:
        """Seconds that are left to a Job that is between two leaders, or whose leader's node is not known yet."""
        clock = asyncio.get_running_loop().time()
        return max(0.0, REPORT_AFTER - (clock - self._memories.without_domain(JobRequest.of_pod(pod), clock)))

    def _wait(self, pod: Leader | Follower) -> float:
        """Seconds until the JobSet of a pod may be reported on again."""
        last = self._memories.reported(pod.jobset_uid)
        return 0.0 if last is None else max(0.0, REPORT_EVERY - (asyncio.get_running_loop().time() - last))

    def _report(self, pod: Leader | Follower, note: str) -> float:
        self._memories.report(pod.jobset_uid, asyncio.get_running_loop().time(), REPORT_EVERY)
        jobset = Reference(
            api_version=keys.API_VERSION,
            kind=keys.KIND,
            namespace=pod.namespace,
            name=pod.jobset,
            uid=pod.jobset_uid,
        )
        self._recorder.record(jobset, "Warning", keys.PLACEMENT_PENDING, note)
        return REPORT_EVERY
