"""The attempts of a JobSet in order of time: how each ended, and what runs now. Pure."""

from api.jobset import JobSet
from api.jobset_status import FailedAttempt
from diagnose.restart_causes import why_it_failed
from kube.model.meta import JSON, find
from ui.records import cut


def timeline(js: JobSet, state: str) -> JSON:
    """`attempts` oldest first; `leftOut`: how many earlier ones the status does not record any more.

    `state` is the set's. `from` is empty if unknown, `to` is empty for the present attempt.
    """
    history = js.status.attempt_history
    left_out = history[0].attempt if history else js.status.execution_attempts or 0
    begin = "" if left_out else js.metadata.creation_timestamp or ""
    attempts: list[JSON] = []
    for attempt in history:
        attempts.append(_failed_attempt(attempt, begin))
        begin = attempt.time
    if not _ended_with(js, history):
        attempts.append(_present_attempt(js, state, begin, history[-1].attempt + 1 if history else left_out))
    return {"attempts": attempts, "leftOut": left_out, "lastRestart": _last_restart(js)}


def _ended_with(js: JobSet, history: tuple[FailedAttempt, ...]) -> bool:
    """Whether the set failed finally with the last failed attempt."""
    if js.status.terminal_state != "Failed" or not history:
        return False
    return history[-1].attempt >= (js.status.execution_attempts or 0)


def _failed_attempt(attempt: FailedAttempt, begin: str) -> JSON:
    return {
        "attempt": attempt.attempt,
        "from": begin,
        "to": attempt.time,
        "outcome": "Failed",
        "reason": attempt.reason,
        "message": cut(attempt.message),
        "job": attempt.failed_job,
        "pod": attempt.pod,
        "node": attempt.node,
        "container": attempt.container,
        "exitCode": attempt.exit_code,
        "why": why_it_failed(attempt),
    }


def _present_attempt(js: JobSet, state: str, begin: str, number: int) -> JSON:
    """The running attempt, or the last one if its end is not recorded as a failure."""
    status = js.status
    ended = find(status.conditions, status.terminal_state) if status.terminal_state else None
    return {
        "attempt": number if status.execution_attempts is None else status.execution_attempts,
        "from": begin,
        "to": ended.last_transition_time if ended is not None else "",
        "outcome": state,
        "reason": ended.reason if ended else "",
        "message": cut(ended.message if ended else ""),
    }


def _last_restart(js: JobSet) -> JSON | None:
    last = js.status.last_restart
    return None if last is None else {
        "reason": last.reason, "start": last.start_time, "seconds": last.duration_seconds,
    }  # fmt: skip
