"""In which order ReplicatedJobs start: dependsOn and startupPolicy InOrder (behaviour sections 5.13 and 5.15).

What has been reached stays reached for the attempt: `status.replicatedJobsStatus[].started` remembers it, so that a pod
that loses readiness later neither takes conditions back nor blocks the recreation of other Jobs (defect 7.1 #18). A
restart and a suspension forget it, and the order is enforced anew.
"""

from collections import Counter

import msgspec

from api.jobset import JobSet, ReplicatedJob, ReplicatedJobStatus
from controllers.jobset.buckets import Buckets
from controllers.jobset.counters import job_ready


def in_order(js: JobSet) -> bool:
    """Whether the deprecated startupPolicy orders the set."""
    return js.spec.startup_policy is not None and js.spec.startup_policy.startup_policy_order == "InOrder"


class Stages:
    """Answers, for one observation, which ReplicatedJobs may have running Jobs."""

    def __init__(self, js: JobSet, counts: tuple[ReplicatedJobStatus, ...], buckets: Buckets) -> None:
        self._counts = {c.name: c for c in counts}
        self._replicas = {r.name: r.replicas for r in js.spec.replicated_jobs}
        self._running = {c.replicated_job for c in buckets.active if not c.job.spec.suspend}
        # A Job that is being suspended may still report ready pods: they are about to go.
        self._halting = Counter(c.replicated_job for c in buckets.active if c.job.spec.suspend and job_ready(c.job))
        self._successors = _successors(js)
        self._suspended = js.suspended

    def started(self, name: str) -> bool:
        """Whether every Job of it is ready or done, or was in this attempt."""
        of = self._counts.get(name)
        if of is None:
            return False
        done = of.failed + of.ready + of.succeeded - self._halting[name]
        return of.started or done == self._replicas[name] or self._passed(name)

    def dependencies_met(self, rjob: ReplicatedJob) -> bool:
        """Whether every stage it depends on has been reached in this attempt; if it runs, they have."""
        if rjob.name in self._running:
            return True
        return all(self._reached(dep.name, dep.status) for dep in rjob.depends_on or () if dep.name != rjob.name)

    def remembered(self) -> tuple[ReplicatedJobStatus, ...]:
        """The counts, with what has started noted where somebody waits for it; nothing has while suspended."""
        waited_for = {} if self._suspended else self._successors
        return tuple(
            msgspec.structs.replace(of, started=name in waited_for and self.started(name))
            for name, of in self._counts.items()
        )

    def _reached(self, name: str, status: str) -> bool:
        of = self._counts.get(name)
        if of is None:
            return False
        return of.succeeded == self._replicas[name] if status == "Complete" else self.started(name)

    def _passed(self, name: str) -> bool:
        """Whether something that waits for it runs: then it was reached before anybody took notes."""
        return not self._running.isdisjoint(self._successors.get(name, ()))


def _successors(js: JobSet) -> dict[str, set[str]]:
    """Which ReplicatedJobs wait for which to be ready. For the last of an ordered start the condition does."""
    out: dict[str, set[str]] = {}
    names = [r.name for r in js.spec.replicated_jobs]
    if in_order(js):
        return {name: set(names[number + 1 :]) for number, name in enumerate(names)}
    for rjob in js.spec.replicated_jobs:
        for dep in rjob.depends_on or ():
            if dep.status == "Ready":
                out.setdefault(dep.name, set()).add(rjob.name)
    return out
