"""Begins, ends and counts attempts in the status, and says which status fields outlive an attempt (KEP-1282).

See docs/reference/failure-policy.md#failure-policy.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from api import keys
from api.jobset import JobSet
from api.jobset_status import FailedAttempt, JobSetStatus, LastRestart, ReplicatedJobStatus
from api.restart_agent import jobs_without_agent
from controllers.planning.status import StatusDraft

PLANNED = "this restart is planned, and does not count towards maxRestarts"
"""The end of messages about restarts that no failure has caused."""

MAX_HISTORY = 10
"""How many failed attempts `status.attemptHistory` keeps. The CRD does not allow more."""

NO_COUNTS: Mapping[str, Any] = {
    "ready": 0,
    "succeeded": 0,
    "failed": 0,
    "active": 0,
    "suspended": 0,
    "completed_indexes": "",
    "remaining": None,
}
"""Fields of `status.replicatedJobsStatus[]` that each plan counts from the Jobs of the attempt, with their zero values.

`Stages.status_entries` sets `remaining`, `counters.count_jobs` all other fields.
"""

REACHED: Mapping[str, Any] = {"started": False, "released": False}
"""Fields of the same entries that record what the attempt has reached, with their values at the start of an attempt.

A restart of the set and a suspension reset them, a restart of a part keeps them. `Stages.status_entries` sets them.
"""

RESTARTS_OF_JOBS = ("job_restarts", "job_restarts_count_towards_max")
"""Fields of the same entries that count restarts of single Jobs over all attempts. A restart of the set keeps them.

They change with the gate RestartJob only, and keep their values while it is off.
"""


def kept_fields(fields: Iterable[str], entry: ReplicatedJobStatus) -> dict[str, Any]:
    """These fields of a stored entry, as arguments for the next entry."""
    return {name: getattr(entry, name) for name in fields}


def begin_attempt(draft: StatusDraft) -> None:
    """Count the execution attempt that begins with a first run, a restart, a resume or a move in place.

    If no attempt was counted yet, the count starts with `restarts`, which is 0 at a first run. A running deadline
    begins again.
    """
    status = draft.status
    attempts = status.execution_attempts
    draft.update(
        execution_attempts=status.restarts if attempts is None else attempts + 1,
        start_time=draft.now if status.start_time else "",
    )


def restart_set(draft: StatusDraft, reason: str, message: str, *, counts: bool, event_type: str = "Warning") -> None:
    """Begin the next attempt, in which every Job is created again. Counts and reached states are reset.

    `counts`: whether the restart counts towards maxRestarts. `event_type`: Normal for a planned restart.
    """
    status = draft.status
    draft.update(
        restarts=status.restarts + 1,
        restarts_count_towards_max=status.restarts_count_towards_max + counts,
        last_restart=LastRestart(reason=reason, start_time=draft.now),
        replicated_jobs_status=tuple(map(entry_of_next_attempt, status.replicated_jobs_status)),
    )
    begin_attempt(draft)
    draft.set_condition(keys.RESTARTING, true=True, reason=reason, message=message, event_type=event_type)


def uncounted_attempts(status: JobSetStatus) -> int:
    """How many attempts began without a restart of the set, by a resume or a planned move in place."""
    attempts = status.execution_attempts
    return 0 if attempts is None else max(0, attempts - status.restarts)


def fail_set(draft: StatusDraft, reason: str, message: str) -> None:
    """Set the condition Failed and the terminal state (docs/reference/failure-policy.md#failure-policy)."""
    draft.set_condition(keys.FAILED, true=True, reason=reason, message=message, event_type="Warning")
    draft.set_condition(keys.RESTARTING, true=False, reason="JobSetFailed", message="jobset failed")
    draft.update(terminal_state="Failed")


def record_failure(draft: StatusDraft, failed: FailedAttempt) -> None:
    """Add to `status.attemptHistory` how an attempt failed; the time is filled in here."""
    entry = msgspec.structs.replace(failed, time=draft.now)
    draft.update(attempt_history=(*draft.status.attempt_history, entry)[-MAX_HISTORY:])


def counted_part_restarts(status: JobSetStatus) -> int:
    """How many restarts of parts of the set count towards maxRestarts (gate RestartJob)."""
    return sum(sum(entry.job_restarts_count_towards_max) for entry in status.replicated_jobs_status)


def entry_of_next_attempt(entry: ReplicatedJobStatus) -> ReplicatedJobStatus:
    """The status entry at the start of the next attempt, in which every Job has to succeed again."""
    remaining = None if entry.remaining is None else entry.remaining + entry.succeeded
    counts = kept_fields(RESTARTS_OF_JOBS, entry)
    return ReplicatedJobStatus(name=entry.name, **{**NO_COUNTS, "remaining": remaining}, **REACHED, **counts)


def requested_attempt(status: JobSetStatus) -> int:
    """The highest attempt that all pods were asked to begin; 0 before the first restart."""
    previous = status.previous_in_place_restart_attempt
    return 0 if previous is None else previous + 1


def end_attempt(js: JobSet, draft: StatusDraft, replaced: Iterable[str]) -> None:
    """Make all pods begin the next attempt in place. Pods of the `replaced` ReplicatedJobs are replaced and join it.

    So the other pods end their workers, which have lost a peer, while the new pods start. A new pod would ask for the
    next attempt anyway.
    """
    current = draft.status.current_in_place_restart_attempt
    if current is not None and requested_attempt(draft.status) <= current and set(replaced) - jobs_without_agent(js):
        draft.update(previous_in_place_restart_attempt=current)
