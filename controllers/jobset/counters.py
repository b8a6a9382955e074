"""Counts Jobs for `status.replicatedJobsStatus` (behaviour section 5.5), and decides when counts are worth a write."""

from api.batch import Job
from api.features import FeatureGates
from api.jobset import JobSet, JobSetStatus, ReplicatedJob, ReplicatedJobStatus
from controllers.jobset.buckets import Buckets

_JOBS_PER_SECOND_OF_DELAY = 150
_SHORTEST_DELAY = 0.1
_LONGEST_DELAY = 3.0


def job_ready(job: Job) -> bool:
    """Whether every pod that the Job wants at once is ready or has succeeded."""
    wanted = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is not None:
        wanted = min(wanted, job.spec.completions)
    return job.status.succeeded + (job.status.ready or 0) >= wanted


def count(js: JobSet, buckets: Buckets, gates: FeatureGates) -> tuple[ReplicatedJobStatus, ...]:
    """One entry for each ReplicatedJob of the spec, by name descending, zeros included."""
    tally = {r.name: dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0) for r in _rjobs(js)}
    for child in buckets.active:
        of = tally[child.replicated_job]
        of["ready"] += job_ready(child.job)
        of["active"] += child.job.status.active > 0
        of["suspended"] += child.job.spec.suspend
    for child in buckets.successful:
        tally[child.replicated_job]["succeeded"] += 1
    for child in buckets.failed:
        tally[child.replicated_job]["failed"] += 1
    stored = {s.name: s for s in js.status.replicated_jobs_status} if gates["RestartJob"] else {}
    return tuple(
        ReplicatedJobStatus(
            name=name,
            **tally[name],
            job_restarts=stored[name].job_restarts if name in stored else (),
            job_restarts_count_towards_max=stored[name].job_restarts_count_towards_max if name in stored else (),
        )
        for name in sorted(tally, reverse=True)
    )


def all_ready(js: JobSet, counts: tuple[ReplicatedJobStatus, ...]) -> bool:
    """Whether every Job of the set is ready or has succeeded."""
    return sum(c.ready + c.succeeded for c in counts) == sum(r.replicas for r in _rjobs(js))


def write_delay(old: JobSetStatus, new: JobSetStatus, jobs: int, since_last_write: float | None) -> float:
    """Seconds to wait before `new` is worth a write; 0 = write now.

    Conditions, restarts and the end are always written at once, and so are counts that somebody waits for: the first
    ones, nothing active any more, everything ready or done. In between, the more Jobs there are, the less a single
    one matters: 300 Jobs are counted every two seconds.
    """
    if _without_counts(old) != _without_counts(new) or len(old.replicated_jobs_status) == 0:
        return 0
    if since_last_write is None or _milestones(new, jobs) - _milestones(old, jobs):
        return 0
    interval = min(max(jobs / _JOBS_PER_SECOND_OF_DELAY, _SHORTEST_DELAY), _LONGEST_DELAY)
    return max(interval - since_last_write, 0)


def _milestones(status: JobSetStatus, jobs: int) -> set[str]:
    """Which of the states that somebody waits for hold (Kueue: nothing active, everything ready or done)."""
    of = status.replicated_jobs_status
    idle = sum(s.active for s in of) == 0
    ready = sum(s.ready + s.succeeded for s in of) == jobs
    return {name for name, holds in (("idle", idle), ("ready", ready)) if holds}


def _without_counts(status: JobSetStatus) -> tuple[object, ...]:
    restarts = tuple((s.name, s.job_restarts, s.job_restarts_count_towards_max) for s in status.replicated_jobs_status)
    return (
        status.conditions,
        status.restarts,
        status.restarts_count_towards_max,
        status.terminal_state,
        restarts,
    )


def _rjobs(js: JobSet) -> tuple[ReplicatedJob, ...]:
    return js.spec.replicated_jobs
