"""Reports to metrics how long JobSets took until all Jobs were created, ready, or ready again after a restart.

An attempt is the run of a set between two restarts. It is measured only if this process has seen it begin. Only what
the watches show counts, since the answer to a write may get lost. Pure: time is an argument.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from api import keys
from api.batch import Job
from api.indexes import parse_indexes
from api.jobset import JobSet
from api.jobset_status import LastRestart


class Milestones(Protocol):
    """Receives how many seconds JobSets took. Each method is called at most once for an attempt."""

    def on_created(self, seconds: float) -> None:
        """From the creation of the JobSet, or its resume, until every Job existed."""

    def on_ready(self, seconds: float) -> None:
        """From the creation of the JobSet, or its resume, until every Job was ready or completed for the first time."""

    def on_restarted(self, seconds: float) -> None:
        """From the decision to restart the set until every Job was ready or completed again."""


@dataclass(slots=True)
class _Milestone:
    """A milestone of one attempt, such as all Jobs being ready. `was_unreached`: it was observed as not reached."""

    was_unreached: bool = False
    is_reached: bool = False

    def observe(self, is_reached_now: bool) -> bool:
        """Note whether the milestone is reached. Returns whether it is now reached and was observed as not reached."""
        if not is_reached_now:
            self.was_unreached = True
            return False
        self.is_reached = True
        return self.was_unreached


@dataclass(slots=True)
class _MeasuredAttempt:
    """An attempt that is being measured. `start_time`: when it began, Unix time in seconds."""

    start_time: float
    created: _Milestone = field(default_factory=_Milestone)
    ready: _Milestone = field(default_factory=_Milestone)


@dataclass(slots=True)
class AttemptTimes:
    """The measurement of one JobSet. `open_restart`: the start time of a restart that is not over, "" if there is none.

    `suspended`, `restarts`: as the last reconcile saw them. `measured`: the current attempt; None if it is not
    measured.
    """

    suspended: bool
    restarts: int
    measured: _MeasuredAttempt | None
    open_restart: str = ""


class Stopwatch:
    """Measures attempts from what reconciles see.

    An attempt is measured if this process saw it begin: the JobSet had no status yet, or was suspended and was then
    resumed. A restart ends the measurement, as the next attempt is reported as a restart. A milestone is reported if it
    was observed first as not reached and then as reached.
    """

    def __init__(self, milestones: Milestones) -> None:
        self._milestones = milestones

    def note(self, times: AttemptTimes | None, js: JobSet, jobs: Collection[Job], now: float) -> AttemptTimes | None:
        """Note the stored JobSet and its Jobs at the start of a reconcile. `now`: Unix time in seconds.

        `times`: the result of the last call for this JobSet; None at the first call.
        """
        if not js.is_ours:
            return None
        if times is None:
            times = _first_times(js, now)
        else:
            _update_times(times, js, now)
        self._report_restart(times, js.status.last_restart)
        if times.measured is not None:
            self._report_milestones(times.measured, js, jobs, now)
        return None if js.status.terminal_state else times

    def _report_restart(self, times: AttemptTimes, last: LastRestart | None) -> None:
        if last is None:
            return
        if last.duration_seconds is None:
            times.open_restart = last.start_time
        elif times.open_restart:
            if times.open_restart == last.start_time:
                self._milestones.on_restarted(last.duration_seconds)
            times.open_restart = ""

    def _report_milestones(self, attempt: _MeasuredAttempt, js: JobSet, jobs: Collection[Job], now: float) -> None:
        seconds = max(now - attempt.start_time, 0.0)
        if not attempt.created.is_reached and attempt.created.observe(not _lacks_jobs(js, jobs)):
            self._milestones.on_created(seconds)
        if not (attempt.ready.is_reached or js.spec.suspend) and attempt.ready.observe(_has_all_jobs_ready(js)):
            self._milestones.on_ready(seconds)


def _first_times(js: JobSet, now: float) -> AttemptTimes:
    """The times at the first reconcile. The attempt is not measured if the JobSet already has a status."""
    measured = None if js.status.replicated_jobs_status else _MeasuredAttempt(_creation_time(js, now))
    return AttemptTimes(bool(js.spec.suspend), js.status.restarts, measured)


def _update_times(times: AttemptTimes, js: JobSet, now: float) -> None:
    """Begin to measure if the set was resumed since the last reconcile. Stop if it was suspended or restarted."""
    if times.suspended and not js.spec.suspend:
        times.measured = _MeasuredAttempt(now)
    elif bool(js.spec.suspend) != times.suspended or js.status.restarts != times.restarts:
        times.measured = None
    times.suspended, times.restarts = bool(js.spec.suspend), js.status.restarts


def _creation_time(js: JobSet, now: float) -> float:
    """Unix time of the creation. In the second of the creation it is `now`, since the timestamp has no fractions."""
    text = js.metadata.creation_timestamp
    stamp = datetime.fromisoformat(text).timestamp() if text else now
    return now if now < stamp + 1 else stamp


def _lacks_jobs(js: JobSet, jobs: Collection[Job]) -> bool:
    """Whether a Job of the current attempt was not created, or was deleted before it completed."""
    completed = {status.name: status.completed_indexes for status in js.status.replicated_jobs_status}
    indexes = {
        rjob.name: parse_indexes(completed.get(rjob.name, ""), rjob.replicas) for rjob in js.spec.replicated_jobs
    }
    if len(jobs) + sum(map(len, indexes.values())) < sum([rjob.replicas for rjob in js.spec.replicated_jobs]):
        return True  # the usual case while Jobs are created, without checking each Job
    attempt = str(js.status.restarts)
    all_labels = [job.metadata.labels for job in jobs if job.metadata.deletion_timestamp is None]
    existing = {
        (labels.get(keys.REPLICATED_JOB_NAME, ""), labels.get(keys.JOB_INDEX, ""))
        for labels in all_labels
        if labels.get(keys.RESTART_ATTEMPT) == attempt
    }
    return any(
        (rjob.name, str(index)) not in existing
        for rjob in js.spec.replicated_jobs
        for index in indexes[rjob.name].missing(rjob.replicas)
    )


def _has_all_jobs_ready(js: JobSet) -> bool:
    """Whether the stored counts say that every Job is ready or has succeeded."""
    ready = sum([status.ready + status.succeeded for status in js.status.replicated_jobs_status])
    return ready >= sum([rjob.replicas for rjob in js.spec.replicated_jobs])
