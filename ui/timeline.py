"""The attempts of a JobSet, from the oldest to the present attempt, with how each of them ended. Pure."""

from api.jobset import JobSet
from api.jobset_status import FailedAttempt
from diagnose.restart_causes import why_it_failed
from kube.model.meta import JSON, find
from ui.records import truncate


def timeline(js: JobSet, state: str) -> JSON:
    """The attempts, the oldest first, and the last restart. `state`: the state of the JobSet.

    `leftOut` is the number of earlier attempts, which the status no longer records. `from` is empty if it is not known,
    `to` is empty for the present attempt.
    """
    history = js.status.attempt_history
    left_out = history[0].attempt if history else js.status.execution_attempts or 0
    begin = "" if left_out else js.metadata.creation_timestamp or ""
    attempts: list[JSON] = []
    for attempt in history:
        attempts.append(_failed_attempt(attempt, begin))
        begin = attempt.time
    if not _has_failed_finally(js, history):
        attempts.append(_present_attempt(js, state, begin, history[-1].attempt + 1 if history else left_out))
    return {"attempts": attempts, "leftOut": left_out, "lastRestart": _last_restart(js)}


def _has_failed_finally(js: JobSet, history: tuple[FailedAttempt, ...]) -> bool:
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
        "message": truncate(attempt.message),
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
    final_condition = find(status.conditions, status.terminal_state) if status.terminal_state else None
    return {
        "attempt": number if status.execution_attempts is None else status.execution_attempts,
        "from": begin,
        "to": final_condition.last_transition_time if final_condition is not None else "",
        "outcome": state,
        "reason": final_condition.reason if final_condition else "",
        "message": truncate(final_condition.message if final_condition else ""),
    }


def _last_restart(js: JobSet) -> JSON | None:
    last = js.status.last_restart
    return None if last is None else {
        "reason": last.reason, "start": last.start_time, "seconds": last.duration_seconds,
    }  # fmt: skip
