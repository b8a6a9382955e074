"""Writes into the status that an attempt begins or fails, or that the whole set fails.

See docs/reference/failure-policy.md#failure-policy. Three kinds of attempts are counted:

- An attempt is the time between two restarts of the set. `status.restarts` is its number.
- An execution attempt (KEP-1282) also begins with a resume, and with a planned restart in place. Its number is
  `status.executionAttempts`.
- An in-place restart attempt begins when agents in the pods restart the workers, and the Jobs and pods stay. The status
  has the number of the attempt that runs (current), and the highest number of an attempt that has to end (previous).
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
"""Fields of `status.replicatedJobsStatus[]` that each plan counts again from the Jobs, with their zero values.

`Stages.status_entries` sets `remaining`, `counters.count_jobs` all other fields.
"""

REACHED: Mapping[str, Any] = {"started": False, "released": False}
"""Fields of `status.replicatedJobsStatus[]` that record what the attempt has reached, with their values at its start.

A restart of the set and a suspension reset these fields. A restart of single Jobs keeps them. `Stages.status_entries`
sets them.
"""

RESTARTS_OF_JOBS = ("job_restarts", "job_restarts_count_towards_max")
"""Fields of `status.replicatedJobsStatus[]` that count restarts of single Jobs. A restart of the set keeps them.

These fields change only while the gate RestartJob is on.
"""


def kept_fields(fields: Iterable[str], entry: ReplicatedJobStatus) -> dict[str, Any]:
    """These fields of an entry of `status.replicatedJobsStatus`, as keyword arguments for a new entry."""
    return {name: getattr(entry, name) for name in fields}


def begin_attempt(draft: StatusDraft) -> None:
    """Count the execution attempt that begins now, and restart the time of `activeDeadlineSeconds` if it is running.

    If no execution attempt was counted yet, the count starts with `restarts`, which is 0 when a set first runs.
    """
    status = draft.status
    attempts = status.execution_attempts
    draft.update(
        execution_attempts=status.restarts if attempts is None else attempts + 1,
        start_time=draft.now if status.start_time else "",
    )


def restart_set(draft: StatusDraft, reason: str, message: str, *, counts: bool, event_type: str = "Warning") -> None:
    """Begin the next attempt, in which every Job is created again. Fields of `NO_COUNTS` and `REACHED` are reset.

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
    """How many execution attempts began without a restart of the set, by a resume or a planned restart in place."""
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
    """How many restarts of single Jobs and ReplicatedJobs count towards maxRestarts (gate RestartJob)."""
    return sum(sum(entry.job_restarts_count_towards_max) for entry in status.replicated_jobs_status)


def entry_of_next_attempt(entry: ReplicatedJobStatus) -> ReplicatedJobStatus:
    """The status entry at the start of the next attempt, in which every Job has to succeed again."""
    remaining = None if entry.remaining is None else entry.remaining + entry.succeeded
    job_restarts = kept_fields(RESTARTS_OF_JOBS, entry)
    return ReplicatedJobStatus(name=entry.name, **{**NO_COUNTS, "remaining": remaining}, **REACHED, **job_restarts)


def requested_attempt(status: JobSetStatus) -> int:
    """The highest in-place restart attempt that all pods were asked to begin; 0 before the first request."""
    previous = status.previous_in_place_restart_attempt
    return 0 if previous is None else previous + 1


def request_next_attempt(js: JobSet, draft: StatusDraft, rjob_names: Iterable[str]) -> None:
    """Ask all pods to begin the next in-place restart attempt, since pods of these ReplicatedJobs are replaced.

    The agents then end the workers at once, which have lost a peer. Without this request, they would end the workers
    later, when the agent in a new pod asks for the next attempt. Nothing changes if the agents have not begun their
    first attempt, if the next attempt was requested already, or if none of these ReplicatedJobs has agents.
    """
    current = draft.status.current_in_place_restart_attempt
    if current is not None and requested_attempt(draft.status) <= current and set(rjob_names) - jobs_without_agent(js):
        draft.update(previous_in_place_restart_attempt=current)
