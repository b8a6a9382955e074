"""Which state a JobSet is in, as its status says."""

from typing import Literal, get_args

from jobset_client.models import Condition, JobSet

State = Literal["completed", "failed", "finished", "ready", "suspended"]
STATES: tuple[State, ...] = get_args(State)
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
"""Label of a JobSet that Kueue suspends and resumes."""


def reached(js: JobSet, state: State) -> bool:
    """Whether it is in this state now. `finished`: completed or failed."""
    match state:
        case "completed" | "failed":
            return js.status.terminal_state == state.capitalize()
        case "finished":
            return bool(js.status.terminal_state)
        case "suspended":
            return _suspended(js)
        case _:
            return _ready(js)


def _suspended(js: JobSet) -> bool:
    """Whether no Job has pods any more. The condition alone comes before the first Job is suspended."""
    halted = bool(js.spec.suspend) and not end_text(js) and is_true(js, "Suspended")
    return halted and not any(entry.active for entry in js.status.replicated_jobs_status)


def _ready(js: JobSet) -> bool:
    """Whether every Job is ready or has succeeded."""
    if end_text(js) or js.spec.suspend or is_true(js, "Suspended") or is_true(js, "RestartingJobSet"):
        return False
    counts = {entry.name: (entry.ready or 0) + (entry.succeeded or 0) for entry in js.status.replicated_jobs_status}
    return all(counts.get(rjob.name, 0) >= jobs_of(rjob.replicas) for rjob in js.spec.replicated_jobs)


def jobs_of(replicas: int | None) -> int:
    """Jobs of a ReplicatedJob: 1 where `replicas` is absent."""
    return 1 if replicas is None else replicas


def end_text(js: JobSet) -> str:
    """`has completed at TIME` or `has failed at TIME: why`; empty for a set that has not ended."""
    state = js.status.terminal_state
    if not state:
        return ""
    found = condition(js, state)
    when = f" at {found.last_transition_time}" if found and found.last_transition_time else ""
    why = f": {found.message}" if state == "Failed" and found and found.message else ""
    return f"has {state.lower()}{when}{why}"


def in_words(js: JobSet) -> str:
    """The state in one or two words: completed, failed, suspended, is being suspended, restarts, runs, starts."""
    if js.status.terminal_state:
        return js.status.terminal_state.lower()
    if js.metadata.deletion_timestamp:
        return "is being deleted"
    if js.spec.suspend:
        return "suspended" if _suspended(js) else "is being suspended"
    if is_true(js, "RestartingJobSet"):
        return "restarts"
    return "runs" if _ready(js) else "starts"


def condition(js: JobSet, kind: str) -> Condition | None:
    """The condition of that type."""
    return next((entry for entry in js.status.conditions if entry.type == kind), None)


def is_true(js: JobSet, kind: str) -> bool:
    """Whether the condition of that type has status True."""
    found = condition(js, kind)
    return found is not None and found.status == "True"


def title(js: JobSet) -> str:
    """`JobSet team-a/train`."""
    return f"JobSet {js.metadata.namespace}/{js.metadata.name}"
