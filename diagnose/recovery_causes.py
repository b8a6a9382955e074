"""What the last recovery of a set took, as a time line, and which share of its time the set has run. Pure.

See docs/concepts/recovery-times.md. It holds nothing up, so it stands at the end of every explanation.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from api.jobset_status import AttemptTimes, Recovery
from controllers.planning.recovery import goodput
from diagnose.case import Case
from diagnose.finding import Answer, Finding, Level
from diagnose.restart_causes import attempt_words
from diagnose.times import seconds_since


def last_recovery(case: Case) -> Iterator[Answer]:
    """The phases of the last recovery; nothing of a set that has never recovered, or whose times are not kept."""
    recovery = case.facts.jobset.status.recovery
    entries = (
        [] if recovery is None else [times for times in recovery.attempts if times.detected_after_seconds is not None]
    )
    if recovery is None or not entries:
        return
    entry = entries[-1]
    took = entry.ready_after_seconds
    so_far = f"{took} s from the failure until all Jobs were ready" if took is not None else "it is not over"
    because = tuple(Finding(Level.FINE, "recovery-phase", message) for message in _time_line(case, entry))
    message = f"last recovery, of attempt {entry.attempt}: {so_far}; {_share(recovery, case.facts.now)}"
    yield Answer(Finding(Level.FINE, "recovery", message, because=because))


def _time_line(case: Case, entry: AttemptTimes) -> Iterator[str]:
    """One line for each phase that was reached: when, how long after the failure, and what."""
    history = case.facts.jobset.status.attempt_history
    failed = next((attempt_words(attempt) for attempt in reversed(history) if attempt.attempt == entry.attempt - 1), "")
    phases = (
        (0, f"failure: {failed}" if failed else "failure"),
        (entry.detected_after_seconds, "restart decided"),
        (entry.drained_after_seconds, "old Jobs and pods gone"),
        (entry.created_after_seconds, "all Jobs created"),
        (entry.ready_after_seconds, "all Jobs ready"),
    )
    for seconds, message in phases:
        if seconds is not None:
            yield f"{_clock(entry.since, seconds)}+{seconds} s: {message}"


def _clock(since: str, seconds: int) -> str:
    try:
        return f"{(datetime.fromisoformat(since) + timedelta(seconds=seconds)).astimezone(UTC):%H:%M:%SZ} "
    except (ValueError, OverflowError):
        return ""


def _share(recovery: Recovery, now: datetime) -> str:
    """Until now: the status is counted up to its last change."""
    since = max(int(seconds_since(recovery.since, now) or 0), 0)
    running = recovery.running_seconds + (since if recovery.running else 0)
    lost = recovery.lost_seconds + (0 if recovery.running else since)
    return f"goodput {goodput(running, lost) or 'not known yet'}: {running} s running, {lost} s lost"
