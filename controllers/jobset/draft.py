"""The status in the making: policies change it, and every change of a condition leaves its event (section 5.14)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from api import keys
from api.conditions import set_condition
from api.jobset import FailedAttempt, JobSet, JobSetStatus, LastRestart, ReplicatedJobStatus
from api.meta import Condition
from controllers.jobset.actions import Event

HISTORY = 10
"""Failed attempts that are remembered."""


class Draft:
    """Starts as the stored status and ends as the wanted one. Lives for one plan."""

    def __init__(self, js: JobSet, now: str) -> None:
        self.status: JobSetStatus = js.status
        self.events: list[Event] = []
        self.warnings: list[Event] = []
        self._now = now

    def update(self, **changes: Any) -> None:
        """Replace fields of the status."""
        self.status = msgspec.structs.replace(self.status, **changes)

    def condition(self, kind: str, *, true: bool, reason: str, message: str, event_type: str = "Normal") -> bool:
        """Set a condition; an event of the same reason and message follows if anything changed, and True is given."""
        new = Condition(
            type=kind,
            status="True" if true else "False",
            reason=reason,
            message=message,
            last_transition_time=self._now,
        )
        change = set_condition(self.status.conditions, new)
        if change.changed:
            self.update(conditions=change.conditions)
            self.event(event_type, reason, message)
        return change.changed

    def event(self, event_type: str, reason: str, note: str) -> None:
        self.events.append(Event(event_type, reason, note))

    def warn(self, reason: str, note: str) -> None:
        """A Warning about what is, not about a decision: told whether or not the status is written."""
        self.warnings.append(Event("Warning", reason, note))

    def complete(self) -> None:
        """The set is done (5.9)."""
        message = "jobset completed successfully"
        self.condition(keys.COMPLETED, true=True, reason="AllJobsCompleted", message=message)
        self.condition(keys.RESTARTING, true=False, reason="JobSetCompleted", message=message)
        self.update(terminal_state="Completed")

    def fail(self, reason: str, message: str) -> None:
        """The set has failed for good (5.8 D)."""
        self.condition(keys.FAILED, true=True, reason=reason, message=message, event_type="Warning")
        self.condition(keys.RESTARTING, true=False, reason="JobSetFailed", message="jobset failed")
        self.update(terminal_state="Failed")

    def begin_attempt(self) -> None:
        """A first run, or a run after a suspension (KEP-1282). Before anybody counted: as many as restarts."""
        before = self.status.execution_attempts
        self.update(execution_attempts=self.status.restarts if before is None else before + 1)

    def restart(self, reason: str, *, counts: bool) -> None:
        """Every Job is to be recreated: nothing that was reached or counted in this attempt holds in the next."""
        status = self.status
        self.update(
            restarts=status.restarts + 1,
            restarts_count_towards_max=status.restarts_count_towards_max + counts,
            last_restart=LastRestart(reason=reason, start_time=self._now),
            replicated_jobs_status=tuple(map(_emptied, status.replicated_jobs_status)),
        )
        self.begin_attempt()

    def all_ready(self) -> None:
        """Every Job is ready or done: a restart that ran is over."""
        message = "all jobs are ready"
        last = self.status.last_restart
        if self.condition(keys.RESTARTING, true=False, reason="JobsReady", message=message) and last is not None:
            took = datetime.fromisoformat(self._now) - datetime.fromisoformat(last.start_time)
            self.update(last_restart=msgspec.structs.replace(last, duration_seconds=max(0, int(took.total_seconds()))))

    def record_failure(self, failed: FailedAttempt) -> None:
        """Remember how an attempt failed; the time is filled in here."""
        entry = msgspec.structs.replace(failed, time=self._now)
        self.update(attempt_history=(*self.status.attempt_history, entry)[-HISTORY:])

    def restart_job(self, replicated_job: str, job_index: int, replicas: int, *, counts: bool) -> None:
        """One Job is to be recreated: its counters go up by one (gate RestartJob)."""

        def bumped(values: tuple[int, ...]) -> tuple[int, ...]:
            full = (*values, *(0,) * (replicas - len(values)))
            return (*full[:job_index], full[job_index] + 1, *full[job_index + 1 :])

        def entry(of: ReplicatedJobStatus) -> ReplicatedJobStatus:
            if of.name != replicated_job:
                return of
            changes: Mapping[str, Any] = {"job_restarts": bumped(of.job_restarts)}
            if counts:
                changes = {
                    **changes,
                    "job_restarts_count_towards_max": bumped(of.job_restarts_count_towards_max),
                }
            return msgspec.structs.replace(of, **changes)

        self.update(replicated_jobs_status=tuple(map(entry, self.status.replicated_jobs_status)))


def _emptied(of: ReplicatedJobStatus) -> ReplicatedJobStatus:
    return ReplicatedJobStatus(
        name=of.name,
        ready=0,
        succeeded=0,
        failed=0,
        active=0,
        suspended=0,
        job_restarts=of.job_restarts,
        job_restarts_count_towards_max=of.job_restarts_count_towards_max,
    )
