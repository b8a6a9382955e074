"""Tells people which leader waits, and why: one Event (series) for each JobSet, however many of its Jobs wait."""

import asyncio
from datetime import datetime

from api import keys
from api.exclusive import NoDomain
from api.topology import Follower, Leader
from controllers.placement.plan import NODE_PAUSE, PATIENCE, TELL_EVERY, pending_note
from kube.clock import now
from kube.events import Recorder, Reference
from kube.store import Store


class Teller:
    """Remembers whom it has told; each method gives the seconds until the Job should be looked at again."""

    def __init__(self, leaders: Store[Leader], recorder: Recorder) -> None:
        self._leaders = leaders
        self._recorder = recorder
        self._told: dict[str, float] = {}
        self._lost: dict[str, float] = {}

    def unscheduled(self, leader: Leader) -> float:
        """A leader that has no node yet."""
        waited = (now() - datetime.fromisoformat(leader.created)).total_seconds()
        if waited < PATIENCE:
            return PATIENCE - waited
        wait = self._wait(leader)
        if wait > 0:
            return wait
        leaders = self._leaders.list(leader.namespace)
        others = [pod for pod in leaders if pod.jobset_uid == leader.jobset_uid and pod.live and not pod.node]
        return self._tell(leader, pending_note(others))

    def nowhere(self, leader: Leader, lack: NoDomain) -> float:
        """A leader whose node carries no topology label, or is gone."""
        if self._patience(leader.job_uid) > 0:
            return NODE_PAUSE
        # The node may still come, and nothing would tell.
        wait = self._wait(leader) or self._tell(leader, f"Job {leader.job} has no domain: {lack.why}")
        return min(PATIENCE, wait)

    def leaderless(self, waiting: list[Follower]) -> float:
        """Followers whose Job has no leader pod, for longer than the Job controller needs to make one."""
        pod, patience = waiting[0], self._patience(waiting[0].job_uid)
        if patience > 0:
            return patience
        pods = "a pod waits" if len(waiting) == 1 else f"{len(waiting)} pods wait"
        lack = f"{pods} for the leader pod of Job {pod.job}, which has none (a pod with completion index 0)"
        return self._wait(pod) or self._tell(pod, lack)

    def led(self, job_uid: str) -> None:
        """A Job has a domain, or nobody waits for one."""
        self._lost.pop(job_uid, None)

    def _patience(self, job_uid: str) -> float:
        """Seconds that are left to a Job that is between two leaders, or whose leader's node is not known yet."""
        clock = asyncio.get_running_loop().time()
        return max(0.0, PATIENCE - (clock - self._lost.setdefault(job_uid, clock)))

    def _wait(self, pod: Leader | Follower) -> float:
        """Seconds until the JobSet of a pod may be told again."""
        last = self._told.get(pod.jobset_uid)
        return 0.0 if last is None else max(0.0, TELL_EVERY - (asyncio.get_running_loop().time() - last))

    def _tell(self, pod: Leader | Follower, note: str) -> float:
        clock = asyncio.get_running_loop().time()
        self._told = {uid: told for uid, told in self._told.items() if clock - told < TELL_EVERY}
        self._told[pod.jobset_uid] = clock
        jobset = Reference(
            api_version=keys.API_VERSION,
            kind=keys.KIND,
            namespace=pod.namespace,
            name=pod.jobset,
            uid=pod.jobset_uid,
        )
        self._recorder.record(jobset, "Warning", keys.PLACEMENT_PENDING, note)
        return TELL_EVERY
