"""Which state a JobSet has reached, and which it will never reach. Pure."""

from api import keys
from api.jobset import JobSet
from kube.model.meta import find, is_true

STATES = ("completed", "failed", "finished", "ready", "suspended")


def reached(js: JobSet, state: str) -> bool:
    """Whether it is in this state now; the state is one of `STATES`."""
    match state:
        case "completed":
            return js.status.terminal_state == keys.COMPLETED
        case "failed":
            return js.status.terminal_state == keys.FAILED
        case "finished":
            return bool(js.status.terminal_state)
        case "suspended":
            return _suspended(js)
        case _:
            return _ready(js)


def _suspended(js: JobSet) -> bool:
    """Whether no Job of the set has pods any more. The condition alone comes before the first Job is suspended."""
    halted = js.suspended and not end_summary(js) and is_true(js.status.conditions, keys.SUSPENDED)
    return halted and not any(counted.active for counted in js.status.replicated_jobs_status)


def _ready(js: JobSet) -> bool:
    """Whether every Job of the set is ready or has succeeded, as its status says."""
    conditions = js.status.conditions
    if end_summary(js) or js.suspended or is_true(conditions, keys.SUSPENDED) or is_true(conditions, keys.RESTARTING):
        return False
    counts = {counted.name: counted.ready + counted.succeeded for counted in js.status.replicated_jobs_status}
    return all(counts.get(rjob.name, 0) >= rjob.replicas for rjob in js.spec.replicated_jobs)


def end_summary(js: JobSet) -> str:
    """`has completed at TIME` or `has failed at TIME: why`; empty for a set that has not ended."""
    state = js.status.terminal_state
    if not state:
        return ""
    condition = find(js.status.conditions, state)
    when = f" at {condition.last_transition_time}" if condition and condition.last_transition_time else ""
    why = f": {condition.message}" if state == keys.FAILED and condition and condition.message else ""
    return f"has {state.lower()}{when}{why}"
