"""The state of a whole JobSet, for the page in the browser and for `jobset explain`. Pure."""

import enum
from collections.abc import Mapping
from datetime import datetime

from api import keys
from api.jobset import JobSet
from api.jobset_status import FailedAttempt
from api.spares import running_part
from diagnose.times import seconds_since
from kube.model.meta import NO_TEXTS, is_true

RECENT_SECONDS = 3600.0
"""Seconds for which a failed attempt or a Warning is recent. A repeated event is written every half hour at least."""
MIN_REPEATED_FAILURES = 2
"""A JobSet keeps failing if it has at least this many recent failed attempts, or restarts of one Job."""


class State(enum.Enum):
    """State of a JobSet: its word on the page, and its phrase in an explanation. The first state that holds counts."""

    COMPLETED = "Completed", "completed"
    FAILED = "Failed", "failed"
    DELETED = "Being deleted", "is being deleted"
    ELSEWHERE = "Managed elsewhere", "is managed by another controller"
    SUSPENDED = "Suspended", "is suspended"
    KEEPS_FAILING = "Keeps failing", "keeps failing"
    RESTARTING = "Restarting", "restarts"
    RUNNING = "Running", "runs"
    WAITING = "Waiting", "waits"

    def __init__(self, word: str, phrase: str) -> None:
        self.word = word
        self.phrase = phrase


def state_of(js: JobSet, now: datetime | None = None, created: Mapping[str, str] = NO_TEXTS) -> State:
    """The state of a JobSet. `created`: the creation times of its Jobs by name.

    Without `now` the state is never KEEPS_FAILING.
    """
    status = js.status
    holds = {
        State.COMPLETED: status.terminal_state == keys.COMPLETED,
        State.FAILED: status.terminal_state == keys.FAILED,
        State.DELETED: js.metadata.deletion_timestamp is not None,
        State.ELSEWHERE: not js.is_ours,
        State.SUSPENDED: js.spec.suspend,
        State.KEEPS_FAILING: now is not None and (keeps_failing(js, now) or bool(failing_jobs(js, created, now))),
        State.RESTARTING: is_true(status.conditions, keys.RESTARTING),
        State.RUNNING: bool(status.replicated_jobs_status) and _is_settled(js),
        State.WAITING: True,
    }
    return next(state for state in State if holds[state])


def keeps_failing(js: JobSet, now: datetime) -> bool:
    """Whether at least `MIN_REPEATED_FAILURES` attempts have failed recently."""
    return bool(js.status.restarts) and len(recently_failed_attempts(js, now)) >= MIN_REPEATED_FAILURES


def failing_jobs(js: JobSet, created: Mapping[str, str], now: datetime) -> dict[str, int]:
    """The number of restarts of each Job that rules with the action RestartJob have restarted repeatedly and recently.

    `created`: the creation times of Jobs by name.
    """
    restarts_by_job: dict[str, int] = {}
    for counts in js.status.replicated_jobs_status:
        for index, restarts in enumerate(counts.job_restarts):
            name = f"{js.metadata.name}-{counts.name}-{index}"
            if restarts >= MIN_REPEATED_FAILURES and seconds_since(created.get(name), now) <= RECENT_SECONDS:
                restarts_by_job[name] = restarts
    return restarts_by_job


def recently_failed_attempts(js: JobSet, now: datetime) -> list[FailedAttempt]:
    """Attempts that failed recently, oldest first."""
    return [attempt for attempt in js.status.attempt_history if seconds_since(attempt.time, now) <= RECENT_SECONDS]


def _is_settled(js: JobSet) -> bool:
    """Whether every Job of the JobSet is ready or has succeeded, by the counts of the status."""
    counts = {counts.name: counts.ready + counts.succeeded for counts in js.status.replicated_jobs_status}
    return all(
        counts.get(rjob.name, 0) >= rjob.replicas
        for rjob in running_part(js).with_current_replicas.spec.replicated_jobs
    )
