"""The status in the making: policies change it, and every change of a condition leaves its event (section 5.14)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from api import keys
from api.conditions import set_condition
from api.jobset import JobSet, JobSetStatus, ReplicatedJobStatus
from api.meta import Condition
from controllers.jobset.actions import Event


class Draft:
    """Starts as the stored status and ends as the wanted one. Lives for one plan."""

    def __init__(self, js: JobSet, now: str) -> None:
        self.status: JobSetStatus = js.status
        self.events: list[Event] = []
        self._now = now

    def update(self, **changes: Any) -> None:
        """Replace fields of the status."""
        self.status = msgspec.structs.replace(self.status, **changes)

    def condition(self, kind: str, *, true: bool, reason: str, message: str, event_type: str = "Normal") -> None:
        """Set a condition; an event of the same reason and message follows if anything changed."""
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

    def event(self, event_type: str, reason: str, note: str) -> None:
        self.events.append(Event(event_type, reason, note))

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

    def restart_job(self, replicated_job: str, job_index: int, replicas: int, *, counts: bool) -> None:
        """One Job is to be recreated: its counters go up by one (gate RestartJob)."""

        def bumped(values: tuple[int, ...]) -> tuple[int, ...]:
            full = values or (0,) * replicas
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
