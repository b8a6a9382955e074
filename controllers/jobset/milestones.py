"""Reports to metrics, once each, how long JobSets took: all Jobs created, all ready, ready again after a restart.

Only the state of the watches counts, not what was sent: an answer may get lost. An attempt is measured only if this
process has seen it begin. Pure: time is an argument.
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
    """Receives how long JobSets took, in seconds; each at most once for an attempt."""

    def on_created(self, seconds: float) -> None:
        """From the creation of the JobSet, or its resume, until every Job existed."""

    def on_ready(self, seconds: float) -> None:
        """From the creation of the JobSet, or its resume, until every Job was ready or done for the first time."""

    def on_restarted(self, seconds: float) -> None:
        """From the decision to restart the set until every Job was ready or done again."""


@dataclass(slots=True)
class _Once:
    """Whether something is reached for the first time, after it was seen unreached. `over`: it was reached."""

    unreached: bool = False
    over: bool = False

    def reached(self, now: bool) -> bool:
        if not now:
            self.unreached = True
            return False
        self.over = True
        return self.unreached


@dataclass(slots=True)
class _Start:
    """An attempt that is being measured. `begun` is Unix time in seconds."""

    begun: float
    created: _Once = field(default_factory=_Once)
    ready: _Once = field(default_factory=_Once)


@dataclass(slots=True)
class AttemptTimes:
    """The measurement of one JobSet. `restarting` is the start time of a restart that is not over, "" for none."""

    suspended: bool
    restarts: int
    start: _Start | None
    restarting: str = ""


class Stopwatch:
    """Measures attempts from what reconciles see.

    An attempt is measured if this process saw it begin: a JobSet without any status yet, or one that was suspended and
    is not any more. A restart ends the measurement, as that attempt is reported as a restart. A milestone is reported
    if it was observed first as not reached and then as reached.
    """

    def __init__(self, milestones: Milestones) -> None:
        self._milestones = milestones

    def saw(self, times: AttemptTimes | None, js: JobSet, jobs: Collection[Job], now: float) -> AttemptTimes | None:
        """Note the stored JobSet and its Jobs at the start of a reconcile. `now`: Unix time in seconds.

        `times`: the result of the last call for this JobSet; None for the first one.
        """
        if not js.is_ours:
            return None
        if times is None:
            times = _first_sight(js, now)
        else:
            _continue(times, js, now)
        self._report_restart(times, js.status.last_restart)
        if times.start is not None:
            self._report_start(times.start, js, jobs, now)
        return None if js.status.terminal_state else times

    def _report_restart(self, times: AttemptTimes, last: LastRestart | None) -> None:
        if last is None:
            return
        if last.duration_seconds is None:
            times.restarting = last.start_time
        elif times.restarting:
            if times.restarting == last.start_time:
                self._milestones.on_restarted(last.duration_seconds)
            times.restarting = ""

    def _report_start(self, start: _Start, js: JobSet, jobs: Collection[Job], now: float) -> None:
        seconds = max(now - start.begun, 0.0)
        if not start.created.over and start.created.reached(not _lacks_jobs(js, jobs)):
            self._milestones.on_created(seconds)
        if not (start.ready.over or js.spec.suspend) and start.ready.reached(_all_ready(js)):
            self._milestones.on_ready(seconds)


def _first_sight(js: JobSet, now: float) -> AttemptTimes:
    """The times of a JobSet that began before this process: when it was first ready is unknown."""
    start = None if js.status.replicated_jobs_status else _Start(_created_at(js, now))
    return AttemptTimes(bool(js.spec.suspend), js.status.restarts, start)


def _continue(times: AttemptTimes, js: JobSet, now: float) -> None:
    """Note whether an attempt has begun or was interrupted since the last reconcile."""
    if times.suspended and not js.spec.suspend:
        times.start = _Start(now)
    elif bool(js.spec.suspend) != times.suspended or js.status.restarts != times.restarts:
        times.start = None
    times.suspended, times.restarts = bool(js.spec.suspend), js.status.restarts


def _created_at(js: JobSet, now: float) -> float:
    """Unix time of the creation. The timestamp has whole seconds: within that second, `now` is more exact."""
    text = js.metadata.creation_timestamp
    stamp = datetime.fromisoformat(text).timestamp() if text else now
    return now if now < stamp + 1 else stamp


def _lacks_jobs(js: JobSet, jobs: Collection[Job]) -> bool:
    """Whether a Job of the current attempt was not created, or was deleted before it completed."""
    completed = {status.name: status.completed_indexes for status in js.status.replicated_jobs_status}
    done = {rjob.name: parse_indexes(completed.get(rjob.name, ""), rjob.replicas) for rjob in js.spec.replicated_jobs}
    if len(jobs) + sum(map(len, done.values())) < sum([rjob.replicas for rjob in js.spec.replicated_jobs]):
        return True  # the usual case while Jobs are created, without checking each
    attempt = str(js.status.restarts)
    labels = [job.metadata.labels for job in jobs if job.metadata.deletion_timestamp is None]
    existing = {
        (found.get(keys.REPLICATED_JOB_NAME, ""), found.get(keys.JOB_INDEX, ""))
        for found in labels
        if found.get(keys.RESTART_ATTEMPT) == attempt
    }
    return any(
        (rjob.name, str(index)) not in existing
        for rjob in js.spec.replicated_jobs
        for index in done[rjob.name].missing(rjob.replicas)
    )


def _all_ready(js: JobSet) -> bool:
    """Whether the stored counts say that every Job is ready or succeeded."""
    reached = sum([status.ready + status.succeeded for status in js.status.replicated_jobs_status])
    return reached >= sum([rjob.replicas for rjob in js.spec.replicated_jobs])
