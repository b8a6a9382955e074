"""In which order ReplicatedJobs start: dependsOn and startupPolicy InOrder (behaviour sections 5.13 and 5.15).

What has been reached stays reached for the attempt: a ReplicatedJob that has a running or finished Job has been
released before, and a start that was completed stays so while anything runs. A pod that loses readiness later neither
takes conditions back nor blocks the recreation of other Jobs (defect 7.1 #18). After a restart, or when everything was
suspended, nothing runs, and the order is enforced anew.
"""

from api.jobset import JobSet, ReplicatedJob, ReplicatedJobStatus
from api.keys import STARTUP_COMPLETED
from api.meta import is_true
from controllers.jobset.buckets import Buckets


def in_order(js: JobSet) -> bool:
    """Whether the deprecated startupPolicy orders the set."""
    return js.spec.startup_policy is not None and js.spec.startup_policy.startup_policy_order == "InOrder"


class Stages:
    """Answers, for one observation, which ReplicatedJobs may have running Jobs."""

    def __init__(self, js: JobSet, counts: tuple[ReplicatedJobStatus, ...], buckets: Buckets) -> None:
        self._counts = {c.name: c for c in counts}
        self._replicas = {r.name: r.replicas for r in js.spec.replicated_jobs}
        self._order = [r.name for r in js.spec.replicated_jobs]
        self._running = {c.replicated_job for c in buckets.active if not c.job.spec.suspend}
        self._released = self._running | {c.replicated_job for c in (*buckets.successful, *buckets.failed)}
        self._completed = bool(self._running) and is_true(js.status.conditions, STARTUP_COMPLETED)

    def started(self, name: str) -> bool:
        """Whether every Job of it is ready or done, or was: a later ReplicatedJob runs, or the start was completed."""
        later = self._order[self._order.index(name) + 1 :]
        return self._completed or any(n in self._running for n in later) or self._reached(name, "Ready")

    def dependencies_met(self, rjob: ReplicatedJob) -> bool:
        """Whether every stage it depends on has been reached in this attempt."""
        if rjob.name in self._released:
            return True
        return all(self._reached(dep.name, dep.status) for dep in rjob.depends_on or ())

    def _reached(self, name: str, status: str) -> bool:
        of = self._counts.get(name)
        if of is None:
            return False
        done = of.succeeded if status == "Complete" else of.failed + of.ready + of.succeeded
        return done == self._replicas[name]
