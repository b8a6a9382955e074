"""Counts Jobs for `status.replicatedJobsStatus`, and decides how long the write of new counts may wait.

See docs/reference/lifecycle.md#counters. One write can have the counts of several changes, and so saves requests.
"""

from collections import Counter

import msgspec

from api.batch import pods_at_once
from api.indexes import format_indexes, max_text_bytes
from api.jobset import JobSet
from api.jobset_status import JobSetStatus, ReplicatedJobStatus
from controllers.planning.attempts import NO_COUNTS, REACHED, RESTARTS_OF_JOBS, kept_fields
from controllers.planning.child_jobs import NO_JOBS, ChildJobs
from controllers.planning.observed import Observed

_JOBS_PER_SECOND_OF_DELAY = 40
_SHORTEST_DELAY_SECONDS = 1.0
_LONGEST_DELAY_SECONDS = 3.0
_RELATED_CHANGES_SECONDS = 0.5
"""Most of the changes that follow from one change, such as the start of its pods, come within so many seconds."""
_RELATED_CHANGES_WRITES = 10
"""On a busy API server, related changes come within the time of so many writes, if that is longer.

A pod waits in the queues of several controllers before it runs.
"""
_AGENTS_PER_SECOND_OF_DELAY = 100
_LONGEST_DELAY_WITH_AGENTS_SECONDS = 30.0
_NEGLIGIBLE_SECONDS = 0.001
"""Timers may fire slightly early, so a remaining time this short does not need another plan."""


def count_jobs(js: JobSet, children: ChildJobs) -> tuple[ReplicatedJobStatus, ...]:
    """One entry of `status.replicatedJobsStatus` for each ReplicatedJob of the spec, by descending name."""
    failed = Counter(child.replicated_job for child in children.failed if not child.was_deleted)
    stored = {s.name: s for s in js.status.replicated_jobs_status}
    max_bytes = max_text_bytes(len(js.spec.replicated_jobs))
    entries = []
    for name in sorted((r.name for r in js.spec.replicated_jobs), reverse=True):
        tally, completed = children.tallies.get(name, NO_JOBS), children.completed[name]
        entry = ReplicatedJobStatus(
            name=name,
            ready=tally.ready,
            succeeded=len(completed),
            failed=failed[name],
            active=tally.with_pods,
            suspended=tally.suspended,
            completed_indexes=format_indexes(completed, max_bytes),
            **(kept_fields((*REACHED, *RESTARTS_OF_JOBS), stored[name]) if name in stored else {}),
        )
        entries.append(entry)
    return tuple(entries)


def all_ready(js: JobSet, counts: tuple[ReplicatedJobStatus, ...]) -> bool:
    """Whether every Job of the set is ready or has succeeded."""
    return sum([c.ready + c.succeeded for c in counts]) == sum([r.replicas for r in js.spec.replicated_jobs])


def with_ready_jobs(js: JobSet, status: JobSetStatus) -> JobSetStatus:
    """Add `readyJobs` to a status that is about to be written. A change of `readyJobs` alone does not cause a write."""
    ready_jobs = sum([entry.ready + entry.succeeded for entry in status.replicated_jobs_status])
    all_jobs = sum([r.replicas for r in js.spec.replicated_jobs])
    return msgspec.structs.replace(status, ready_jobs=f"{ready_jobs}/{all_jobs}")


def pod_count(js: JobSet) -> int:
    """How many pods all Jobs of the set have at the same time."""
    return sum(rjob.replicas * pods_at_once(rjob) for rjob in js.spec.replicated_jobs)


def write_delay(observed: Observed, new: JobSetStatus, job_count: int, *, agents: int = 0) -> float:
    """Seconds to wait before `new` is written; 0: write it now. `job_count`: the number of Jobs in the spec.

    - A status that differs in more than counts is written at once. So are counts that clients wait for: the first
      counts of a suspended set, no active pods in a suspended set, and all Jobs ready or completed.
    - Other counts wait for related changes, so that the first counts include Jobs with pods. On a busy API server they
      wait longer.
    - The more Jobs a set has, the longer its later counts wait. With 120 Jobs or more, they are written every three
      seconds.
    - Agents in the pods, which restart the workers in place, watch the JobSet. The API server sends each write to all
      `agents`, so later counts wait at least a second for each hundred agents, up to thirty seconds.
    """
    js = observed.jobset
    stored, since_last_write = js.status, observed.since_status_write
    related_seconds = max(_RELATED_CHANGES_WRITES * observed.write_seconds, _RELATED_CHANGES_SECONDS)
    related_seconds = min(related_seconds, _LONGEST_DELAY_SECONDS)
    related_seconds_left = 0.0 if observed.counts_waited is None else related_seconds - observed.counts_waited
    if not stored.replicated_jobs_status:
        is_due = js.spec.suspend or related_seconds_left <= _NEGLIGIBLE_SECONDS or _milestones(js, new, job_count)
        return 0 if is_due or not _only_adds_first_counts(stored, new) else related_seconds_left
    if (stored.conditions, stored.restarts) != (new.conditions, new.restarts):
        return 0
    if _without_counts(stored) != _without_counts(new):
        return 0
    if since_last_write is None or _milestones(js, new, job_count) - _milestones(js, stored, job_count):
        return 0
    interval = max(job_count / _JOBS_PER_SECOND_OF_DELAY, _SHORTEST_DELAY_SECONDS, related_seconds)
    interval = min(interval, _LONGEST_DELAY_SECONDS)
    interval = max(interval, min(agents / _AGENTS_PER_SECOND_OF_DELAY, _LONGEST_DELAY_WITH_AGENTS_SECONDS))
    seconds_left = max(interval - since_last_write, related_seconds_left)
    return seconds_left if seconds_left > _NEGLIGIBLE_SECONDS else 0


def _milestones(js: JobSet, status: JobSetStatus, job_count: int) -> set[str]:
    """Which of the states that clients wait for the counts have reached.

    `ready`: all Jobs are ready or have completed. `idle`: the set is suspended, and no Job is active.
    """
    entries = status.replicated_jobs_status
    idle = sum([s.active for s in entries]) == 0 and js.spec.suspend
    ready = sum([s.ready + s.succeeded for s in entries]) == job_count
    return {name for name, holds in (("idle", idle), ("ready", ready)) if holds}


def _only_adds_first_counts(old: JobSetStatus, new: JobSetStatus) -> bool:
    """Whether the new status only adds the first counts and the number of the first execution attempt."""
    counted = msgspec.structs.replace(
        old, replicated_jobs_status=new.replicated_jobs_status, execution_attempts=new.execution_attempts
    )
    return counted == new and not any(entry.started or entry.released for entry in new.replicated_jobs_status)


def _without_counts(status: JobSetStatus) -> JobSetStatus:
    """The status with all counts at zero. Other differences have to be written at once."""
    entries = [msgspec.structs.replace(entry, **NO_COUNTS) for entry in status.replicated_jobs_status]
    return msgspec.structs.replace(status, replicated_jobs_status=tuple(entries))
