"""Measures what failures cost: how long a set ran, how long it did not run, and how long each recovery took.

See docs/concepts/recovery-times.md (gate JobSetRecoveryTimes). The results are stored in `status.recovery`:

- A second counts as running if every Job that may run by now is ready or has completed. All other seconds are lost.
  Seconds of a suspension are not counted.
- `attempts` has an entry for each start and each recovery. A start is the first start of a set, a resume, or a planned
  restart. A recovery is the time from a failure until the set runs again.
- `spareSeconds` sums the seconds for which spare Jobs were ready: two Jobs in the same second count as two.
- The times of an entry are seconds since its failure or start: until the restart was decided (detected), until Jobs and
  pods of earlier attempts were gone (drained), until all Jobs existed (created), and until the set ran (ready).

Times alone cause no write: they are added to other writes of the status. So a change is counted from the next write of
the status, or from its own time where an object has this time (creation or failure of a Job, taint of a node).
"""

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from api import keys
from api.jobset_status import JobSetStatus
from api.recovery_times import AttemptTimes, Recovery
from controllers.planning.context import Context
from controllers.planning.elastic import REDUCED, RESIZED, RESTORED
from controllers.planning.failure_match import failed_by_pods
from controllers.planning.maintenance import REASON as MAINTENANCE

GATE = "JobSetRecoveryTimes"
MAX_HISTORY = 10
"""How many starts and recoveries `status.recovery.attempts` keeps. The CRD does not allow more."""


def with_recovery(ctx: Context, new_status: JobSetStatus) -> JobSetStatus:
    """`new_status`, which is about to be written, with `recovery` until now; without `recovery` if the gate is off."""
    stored = ctx.js.status
    if not ctx.gates[GATE]:
        return new_status if new_status.recovery is None else replace(new_status, recovery=None)
    if new_status.execution_attempts is None or stored.terminal_state:
        return new_status
    recovery, is_running = stored.recovery or Recovery(), _is_running(ctx, new_status)
    begins_attempt = new_status.execution_attempts != stored.execution_attempts
    is_unplanned = _is_restart(stored, new_status) and not _is_planned(stored, new_status)
    failure_time = _failure_time(ctx) if is_unplanned or new_status.terminal_state == keys.FAILED else ""
    # For a failure without a time of its own. If the set did not run at the last count, it has not run since then.
    fallback_failure_time = ctx.now if recovery.running or not recovery.since else recovery.since
    is_same_state = recovery.running == is_running and recovery.since and new_status.spares == stored.spares
    if not is_same_state or begins_attempt or is_unplanned or new_status.terminal_state or ctx.js.spec.suspend:
        recovery = _count_until_now(ctx, new_status, recovery, failure_time, is_running=is_running)
    last_entry_has_ended = _last_entry_has_ended(recovery)
    if not (last_entry_has_ended or ctx.js.spec.suspend):
        recovery = _with_progress(ctx, recovery, is_running=is_running)
    if is_unplanned and (begins_attempt or last_entry_has_ended):
        recovery = _with_new_entry(ctx, recovery, new_status, failure_time or fallback_failure_time, is_recovery=True)
    elif begins_attempt:
        recovery = _with_new_entry(ctx, recovery, new_status, _start_time(ctx), is_recovery=False)
        if is_running:
            recovery = _with_progress(ctx, recovery, is_running=True)
    return replace(new_status, recovery=recovery)


def goodput(running: int, lost: int) -> str:
    """The percentage of seconds in which a set ran, rounded down; empty before the first second."""
    total = running + lost
    return f"{running * 1000 // total / 10:.1f}%" if total else ""


def elapsed_seconds(start: str, end: str) -> int:
    """Whole seconds between two times; 0 if a time is unknown, or if `end` is before `start`.

    The clock of the process that wrote `start` may have been ahead.
    """
    start_time, end_time = _moment(start), _moment(end)
    return 0 if start_time is None or end_time is None else max(0, int((end_time - start_time).total_seconds()))


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _is_running(ctx: Context, status: JobSetStatus) -> bool:
    """Whether every Job that may run by now is ready or has completed."""
    if ctx.js.spec.suspend or status.terminal_state:
        return False
    entries = {entry.name: entry for entry in status.replicated_jobs_status}
    return all(
        (entry.ready + entry.succeeded == rjob.replicas and not entry.suspended) or not ctx.stages.may_run_now(rjob)
        for rjob in ctx.js.spec.replicated_jobs
        if (entry := entries.get(rjob.name)) is not None
    )


def _is_restart(old: JobSetStatus, new: JobSetStatus) -> bool:
    """Whether the new status restarts the set, a part of the set, or its workers in place."""
    counts = [(s.restarts, s.previous_in_place_restart_attempt, _part_restarts(s)) for s in (old, new)]
    return counts[0] != counts[1]


def _part_restarts(status: JobSetStatus) -> int:
    """How many restarts of single Jobs the status counts."""
    return sum(sum(entry.job_restarts) for entry in status.replicated_jobs_status)


def _is_planned(old: JobSetStatus, new: JobSetStatus) -> bool:
    """Whether the new status restarts the set to leave nodes in maintenance, or to change the number of its Jobs."""
    restart, reasons = new.last_restart, {MAINTENANCE, REDUCED, RESIZED, RESTORED}
    return restart is not None and restart.reason in reasons and new.restarts > old.restarts


def _failure_time(ctx: Context) -> str:
    """Time of the first failure that this plan decides about; empty if unknown."""
    times = (time for time in _failure_times(ctx) if _moment(time) is not None)
    return min(times, key=lambda time: (_moment(time), time), default="")


def _failure_times(ctx: Context) -> Iterator[str]:
    for child in ctx.children.failed:
        for condition in child.job.status.conditions:
            if condition.status == "True" and condition.type in {keys.JOB_FAILED, keys.JOB_FAILURE_TARGET}:
                yield condition.last_transition_time
    yield from (failure.since for failure in failed_by_pods(ctx).values())


def _count_until_now(
    ctx: Context, new_status: JobSetStatus, recovery: Recovery, failure_time: str, *, is_running: bool
) -> Recovery:
    """`recovery` with the seconds from its `since` until now. `is_running`: whether the set runs from now on.

    All seconds after the time of a failure are lost, even before the failure was noticed.
    """
    until_now = elapsed_seconds(recovery.since, ctx.now)
    until_failure = min(elapsed_seconds(recovery.since, failure_time), until_now) if failure_time else until_now
    new_running_seconds = until_failure if recovery.running else 0
    running = recovery.running_seconds + new_running_seconds
    lost = recovery.lost_seconds + until_now - new_running_seconds
    attempts = recovery.attempts
    if attempts:
        last = attempts[-1]
        attempts = (*attempts[:-1], replace(last, running_seconds=last.running_seconds + new_running_seconds))
    is_counting = not (ctx.js.spec.suspend or new_status.terminal_state)
    # `since` is after `now` if the clock of the process that wrote it was ahead. No second is counted twice.
    counted_until = recovery.since if elapsed_seconds(ctx.now, recovery.since) else ctx.now
    ready_spares = sum(entry.ready for entry in ctx.js.status.spares)
    return replace(
        recovery,
        running_seconds=running,
        lost_seconds=lost,
        spare_seconds=recovery.spare_seconds + until_now * ready_spares,
        goodput=goodput(running, lost),
        running=is_running,
        since=counted_until if is_counting else "",
        attempts=attempts,
    )


def _start_time(ctx: Context) -> str:
    """The time of a start: now. If the set has no status yet, the creation of its first Job.

    The first status is written only when there are pods.
    """
    jobs = () if ctx.js.status.replicated_jobs_status else ctx.observed.jobs
    return min((job.metadata.creation_timestamp or ctx.now for job in jobs), default=ctx.now)


def _last_entry_has_ended(recovery: Recovery) -> bool:
    """Whether the set has run since the start or failure of the last entry; True if there is no entry."""
    return not recovery.attempts or recovery.attempts[-1].ready_after_seconds is not None


def _with_new_entry(
    ctx: Context, recovery: Recovery, new_status: JobSetStatus, since: str, *, is_recovery: bool
) -> Recovery:
    """`recovery` with one more entry, for a recovery or a start. `since`: when the failure or the start happened."""
    if not elapsed_seconds(since, ctx.now):
        since = ctx.now
    entry = AttemptTimes(
        attempt=new_status.execution_attempts or 0,
        since=since,
        detected_after_seconds=elapsed_seconds(since, ctx.now) if is_recovery else None,
    )
    return replace(recovery, attempts=(*recovery.attempts, entry)[-MAX_HISTORY:])


def _with_progress(ctx: Context, recovery: Recovery, *, is_running: bool) -> Recovery:
    """`recovery` with the drained, created and ready times that the last entry has reached by now."""
    entry = recovery.attempts[-1]
    until_now = elapsed_seconds(entry.since, ctx.now)
    newest_creation = max((job.metadata.creation_timestamp or "" for job in ctx.observed.jobs), default="")
    lacks_jobs = _lacks_jobs(ctx)
    creates_jobs = lacks_jobs or newest_creation >= entry.since
    drained, created = entry.drained_after_seconds, entry.created_after_seconds
    # If the Job that was created last is deleted already, `newest_creation` may be before the entry's other times.
    earliest = max(entry.detected_after_seconds or 0, drained or 0)
    until_creation = max(elapsed_seconds(entry.since, newest_creation), earliest)
    until_creation = until_now if lacks_jobs else min(until_creation, until_now)
    is_drained = creates_jobs and not ctx.may_have_old_pods
    if is_drained and drained is None and entry.detected_after_seconds is not None:
        drained = until_creation
    if is_drained and created is None and not lacks_jobs:
        created = until_creation
    ready = until_now if is_running else None
    entry = replace(entry, drained_after_seconds=drained, created_after_seconds=created, ready_after_seconds=ready)
    return replace(recovery, attempts=(*recovery.attempts[:-1], entry))


def _lacks_jobs(ctx: Context) -> bool:
    """Whether a Job that may run by now does not exist."""
    return any(ctx.stages.may_run_now(rjob) and ctx.children.lack_jobs(rjob) for rjob in ctx.js.spec.replicated_jobs)
