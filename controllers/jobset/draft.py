"""The status in the making: policies change it, and every change of a condition leaves its event (section 5.14)."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec

from api import keys
from api.conditions import set_condition
from api.jobset import (
    FailedAttempt,
    JobSet,
    JobSetStatus,
    LastRestart,
    ReplicatedJob,
    ReplicatedJobStatus,
    RuleRestarts,
)
from api.meta import Condition
from api.stages import Stage, stage_name
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

    def condition(
        self, kind: str, *, true: bool, reason: str, message: str, event_type: str = "Normal", always: bool = False
    ) -> bool:
        """Set a condition; an event of the same reason and message follows if anything changed, and True is given.

        One that is False and was not there is left out, unless `always`.
        """
        new = Condition(
            type=kind,
            status="True" if true else "False",
            reason=reason,
            message=message,
            last_transition_time=self._now,
        )
        change = set_condition(self.status.conditions, new, always=always)
        if change.changed:
            self.update(conditions=change.conditions)
            self.event(event_type, reason, message)
        return change.changed

    def forget_condition(self, kind: str) -> None:
        """Leave out a condition that nobody has a say about any more."""
        if any(condition.type == kind for condition in self.status.conditions):
            self.update(conditions=tuple(c for c in self.status.conditions if c.type != kind))

    def event(self, event_type: str, reason: str, note: str) -> None:
        self.events.append(Event(event_type, reason, note))

    def warn(self, reason: str, note: str) -> None:
        """A Warning about what is, not about a decision: told whether or not the status is written."""
        self.warnings.append(Event("Warning", reason, note, distinct=True))

    def complete(self, share: str) -> None:
        """The set is done (5.9). `share`: what of it has succeeded where that was enough, in words; else empty."""
        message = "jobset completed successfully"
        reason = "MinSucceededReached" if share else "AllJobsCompleted"
        self.condition(keys.COMPLETED, true=True, reason=reason, message=f"{message}: {share}" if share else message)
        self.condition(keys.RESTARTING, true=False, reason="JobSetCompleted", message=message)
        self.update(terminal_state="Completed")

    def release(self, stage: Stage, number: int, total: int) -> None:
        """A stage may start (executionPolicy). `number` counts from 1."""
        names = {rjob.name for rjob in stage}
        jobs = sum(rjob.replicas for rjob in stage)
        self.update(
            replicated_jobs_status=tuple(
                msgspec.structs.replace(of, released=True) if of.name in names else of
                for of in self.status.replicated_jobs_status
            )
        )
        what = f"{stage_name(stage)} ({jobs} {'Job' if jobs == 1 else 'Jobs'})"
        note = f"stage {number} of {total} is released: {what}"
        self.events.append(Event("Normal", "StageReleased", note, distinct=True))

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

    def count_rule(self, name: str) -> None:
        """A rule that has a limit of its own restarts something."""
        counted = self.status.failure_policy_restarts
        if all(of.name != name for of in counted):
            counted = (*counted, RuleRestarts(name=name))
        self.update(
            failure_policy_restarts=tuple(
                msgspec.structs.replace(of, restarts=of.restarts + 1) if of.name == name else of for of in counted
            )
        )

    def restart_job(self, rjob: ReplicatedJob, job_index: int, *, counts: bool) -> None:
        """One Job is to be recreated: its counters go up by one (gate RestartJob)."""

        def entry(of: ReplicatedJobStatus) -> ReplicatedJobStatus:
            changes = {"job_restarts": _bumped(of.job_restarts, rjob.replicas, (job_index,))}
            if counts:
                changes["job_restarts_count_towards_max"] = _bumped(
                    of.job_restarts_count_towards_max, rjob.replicas, (job_index,)
                )
            return msgspec.structs.replace(of, **changes)

        self._update_entry(rjob.name, entry)

    def restart_replicated_job(self, rjob: ReplicatedJob, job_index: int) -> None:
        """All its Jobs are to be recreated, those that completed, too; it costs as much as the failed one alone would.

        Indexes that the set had once and may have again are counted, too: a Job that was left there is of before.
        """

        def entry(of: ReplicatedJobStatus) -> ReplicatedJobStatus:
            indexes = range(max(rjob.replicas, len(of.job_restarts)))
            return msgspec.structs.replace(
                _emptied(of),
                started=of.started,
                released=of.released,
                job_restarts=_bumped(of.job_restarts, rjob.replicas, indexes),
                job_restarts_count_towards_max=_bumped(of.job_restarts_count_towards_max, rjob.replicas, (job_index,)),
            )

        self._update_entry(rjob.name, entry)

    def _update_entry(self, name: str, entry: Callable[[ReplicatedJobStatus], ReplicatedJobStatus]) -> None:
        self.update(
            replicated_jobs_status=tuple(
                entry(of) if of.name == name else of for of in self.status.replicated_jobs_status
            )
        )


def _bumped(counters: tuple[int, ...], replicas: int, indexes: Iterable[int]) -> tuple[int, ...]:
    """Counters of Jobs by index, as many as there are replicas, with those of some indexes one higher."""
    full = [*counters, *(0,) * (replicas - len(counters))]
    for index in indexes:
        full[index] += 1
    return tuple(full)


def _emptied(of: ReplicatedJobStatus) -> ReplicatedJobStatus:
    """Counts of an attempt that begins; all that has succeeded is still to come again."""
    return ReplicatedJobStatus(
        name=of.name,
        ready=0,
        succeeded=0,
        failed=0,
        active=0,
        suspended=0,
        job_restarts=of.job_restarts,
        job_restarts_count_towards_max=of.job_restarts_count_towards_max,
        remaining=None if of.remaining is None else of.remaining + of.succeeded,
    )
