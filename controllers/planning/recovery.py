"""Measures the cost of failures: how long a set ran, how long it did not run, and the times of each recovery.

See docs/concepts/recovery-times.md.

Gate JobSetRecoveryTimes. Times alone cause no write: they are added to other writes of the status. So a change is
counted from the first write after it, unless an object has its time: the creation and the failure of a Job, the start
of a taint. Every second from the first write on is counted once, as running or as lost; seconds of a suspension are not
counted.
"""

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from api import keys
from api.jobset_status import AttemptTimes, JobSetStatus, Recovery
from controllers.planning.context import Context
from controllers.planning.elastic import REDUCED, RESIZED, RESTORED
from controllers.planning.failure_match import failed_by_pods
from controllers.planning.maintenance import REASON as MAINTENANCE

GATE = "JobSetRecoveryTimes"
MAX_HISTORY = 10
"""How many starts and recoveries `status.recovery.attempts` keeps. The CRD does not allow more."""


def with_recovery(ctx: Context, status: JobSetStatus) -> JobSetStatus:
    """`status`, which is about to be written, with the times until now; without any times if the gate is off."""
    stored, now = ctx.js.status, ctx.now
    if not ctx.gates[GATE]:
        return status if status.recovery is None else replace(status, recovery=None)
    if status.execution_attempts is None or stored.terminal_state:
        return status
    old_times = stored.recovery or Recovery()
    is_running, begins_attempt = _is_running(ctx, status), status.execution_attempts != stored.execution_attempts
    is_restart = _is_restart(stored, status) and not _is_planned(stored, status)
    failure_time = _failure_time(ctx) if is_restart or status.terminal_state == keys.FAILED else ""
    is_unchanged = old_times.running == is_running and old_times.since and status.spares == stored.spares
    is_unchanged = is_unchanged and not (begins_attempt or is_restart or status.terminal_state or ctx.js.spec.suspend)
    times = old_times
    if not is_unchanged:
        times = _count_seconds(old_times, failure_time, now, sum(entry.ready for entry in stored.spares))
        is_counting = not (ctx.js.spec.suspend or status.terminal_state)
        # The clock of the process that wrote `since` may have been ahead: its seconds are not counted a second time.
        counted_until = old_times.since if elapsed_seconds(now, old_times.since) else now
        times = replace(times, running=is_running, since=counted_until if is_counting else "")
    was_over = _is_over(times)
    if not (was_over or ctx.js.spec.suspend):
        times = _with_progress(ctx, times, runs=is_running)
    if begins_attempt or (is_restart and was_over):
        since = (failure_time or _lost_since(old_times, now)) if is_restart else _started_at(ctx)
        times = _begin(times, status.execution_attempts, since, now, restarts=is_restart)
        if is_running and not is_restart:
            times = _with_progress(ctx, times, runs=True)
    return replace(status, recovery=times)


def goodput(running: int, lost: int) -> str:
    """The percentage of seconds in which a set ran, rounded down; empty before the first second."""
    total = running + lost
    return f"{running * 1000 // total / 10:.1f}%" if total else ""


def elapsed_seconds(start: str, end: str) -> int:
    """Whole seconds between two times; 0 if a time is unknown, or the clock of another process was ahead."""
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
        (entry.ready + entry.succeeded == rjob.replicas and not entry.suspended) or not ctx.stages.is_next(rjob)
        for rjob in ctx.js.spec.replicated_jobs
        if (entry := entries.get(rjob.name)) is not None
    )


def _is_restart(old: JobSetStatus, new: JobSetStatus) -> bool:
    """Whether the new status restarts the set, a part of the set, or its workers in place."""
    counts = [(s.restarts, s.previous_in_place_restart_attempt, _single_restarts(s)) for s in (old, new)]
    return counts[0] != counts[1]


def _is_planned(old: JobSetStatus, new: JobSetStatus) -> bool:
    """Whether the restart moves the set off nodes in maintenance, or changes its size. It then counts as a start."""
    restart, reasons = new.last_restart, {MAINTENANCE, REDUCED, RESIZED, RESTORED}
    return restart is not None and restart.reason in reasons and new.restarts > old.restarts


def _single_restarts(status: JobSetStatus) -> int:
    """How many restarts of single Jobs the status counts."""
    return sum(sum(entry.job_restarts) for entry in status.replicated_jobs_status)


def _failure_time(ctx: Context) -> str:
    """Time of the first failure that this plan decides about; empty if unknown."""
    moments = (moment for moment in _failure_times(ctx) if _moment(moment) is not None)
    return min(moments, key=lambda text: (_moment(text), text), default="")


def _failure_times(ctx: Context) -> Iterator[str]:
    for child in ctx.children.failed:
        for condition in child.job.status.conditions:
            if condition.status == "True" and condition.type in {keys.JOB_FAILED, keys.JOB_FAILURE_TARGET}:
                yield condition.last_transition_time
    yield from (failed.since for failed in failed_by_pods(ctx).values())


def _count_seconds(times: Recovery, failure_time: str, now: str, spares: int) -> Recovery:
    """The times, to which the seconds until now are added. `spares`: how many spares were ready.

    All seconds after the time of a failure are lost, even before the failure was noticed.
    """
    until_now = elapsed_seconds(times.since, now)
    until_failure = min(elapsed_seconds(times.since, failure_time), until_now) if failure_time else until_now
    newly_running = until_failure if times.running else 0
    running, lost = times.running_seconds + newly_running, times.lost_seconds + until_now - newly_running
    attempts = times.attempts
    if attempts:
        last = attempts[-1]
        attempts = (*attempts[:-1], replace(last, running_seconds=last.running_seconds + newly_running))
    spare = times.spare_seconds + until_now * spares
    new_times = replace(times, running_seconds=running, lost_seconds=lost, spare_seconds=spare, attempts=attempts)
    return replace(new_times, goodput=goodput(running, lost))


def _lost_since(times: Recovery, now: str) -> str:
    """Since when the set has not run, if no failure is known."""
    return now if times.running or not times.since else times.since


def _started_at(ctx: Context) -> str:
    """When a start began: now; with the first status of a set, which waits for pods, when its first Job was created."""
    jobs = () if ctx.js.status.replicated_jobs_status else ctx.observed.jobs
    return min((job.metadata.creation_timestamp or ctx.now for job in jobs), default=ctx.now)


def _is_over(recovery: Recovery) -> bool:
    """Whether the last start or recovery has ended."""
    return not recovery.attempts or recovery.attempts[-1].ready_after_seconds is not None


def _begin(recovery: Recovery, attempt: int, since: str, now: str, *, restarts: bool) -> Recovery:
    """The times with one more entry, which is a recovery if something `restarts`, else a start or a resume."""
    since = since if elapsed_seconds(since, now) else now
    entry = AttemptTimes(
        attempt=attempt, since=since, detected_after_seconds=elapsed_seconds(since, now) if restarts else None
    )
    return replace(recovery, attempts=(*recovery.attempts, entry)[-MAX_HISTORY:])


def _with_progress(ctx: Context, recovery: Recovery, *, runs: bool) -> Recovery:
    """The times, whose last entry says after how long old pods were gone, all Jobs existed, and all Jobs were ready."""
    entry = recovery.attempts[-1]
    until_now = elapsed_seconds(entry.since, ctx.now)
    newest = max((job.metadata.creation_timestamp or "" for job in ctx.observed.jobs), default="")
    lacks_jobs = _lacks_jobs(ctx)
    creates_jobs = lacks_jobs or newest >= entry.since
    drained, created = entry.drained_after_seconds, entry.created_after_seconds
    # The last created Job may be deleted already: the newest one that is left is older than the entry's earlier times.
    earliest = max(entry.detected_after_seconds or 0, drained or 0)
    last_created = until_now if lacks_jobs else min(max(elapsed_seconds(entry.since, newest), earliest), until_now)
    has_no_old_pods = creates_jobs and not ctx.may_have_old_pods
    if has_no_old_pods and drained is None and entry.detected_after_seconds is not None:
        drained = last_created
    if has_no_old_pods and created is None and not lacks_jobs:
        created = last_created
    ready = until_now if runs else None
    entry = replace(entry, drained_after_seconds=drained, created_after_seconds=created, ready_after_seconds=ready)
    return replace(recovery, attempts=(*recovery.attempts[:-1], entry))


def _lacks_jobs(ctx: Context) -> bool:
    """Whether a Job that may run by now does not exist."""
    return any(ctx.stages.is_next(rjob) and ctx.children.lack_jobs(rjob) for rjob in ctx.js.spec.replicated_jobs)
