"""Finds the state of a JobSet from its status, and whether it can still reach another state. Pure.

The commands use these functions, too. A JobSet may be a model of this package or a struct of the commands.
"""

import html
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, get_args

from jobset_client.errors import NeverError, RefusedError
from jobset_client.words import as_json, did_you_mean

State = Literal["completed", "failed", "finished", "ready", "suspended"]
STATES: tuple[State, ...] = get_args(State)
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
"""Label of a JobSet that Kueue suspends and resumes."""
MANAGER = "jobset.sigs.k8s.io/jobset-controller"
"""spec.managedBy of JobSets that this program manages. It also manages JobSets without the field."""
RECENT_SECONDS = 3600.0
"""Seconds for which a failed attempt counts as recent."""
_MAX_MESSAGE_CHARACTERS = 400
"""Largest number of characters of a termination message in a text."""
_MAX_ROWS = 50
"""Largest number of ReplicatedJobs that a notebook shows."""
_COUNT_NAMES = ("ready", "succeeded", "failed")
LOOP = 2
"""A JobSet with this number of recent failed attempts, or more, keeps failing."""


class AnyJobSet(Protocol):
    """A JobSet with the attributes of `models.JobSet`, whose type may be another one."""

    @property
    def metadata(self) -> Any: ...

    @property
    def spec(self) -> Any: ...

    @property
    def status(self) -> Any: ...


def has_reached(js: AnyJobSet, state: str) -> bool:
    """Whether the JobSet is in this state now. `finished` means completed or failed."""
    match state:
        case "completed" | "failed":
            return bool(js.status.terminal_state == state.capitalize())
        case "finished":
            return bool(js.status.terminal_state)
        case "suspended":
            return _is_suspended(js)
        case _:
            return _is_ready(js)


def _is_suspended(js: AnyJobSet) -> bool:
    """Whether no Job has active pods. The condition Suspended is set earlier, before the first Job is suspended."""
    is_halted = bool(js.spec.suspend) and not end_summary(js) and is_true(js, "Suspended")
    return is_halted and not any(entry.active for entry in js.status.replicated_jobs_status)


def _is_ready(js: AnyJobSet) -> bool:
    """Whether every Job is ready or has succeeded."""
    if end_summary(js) or js.spec.suspend or is_true(js, "Suspended") or is_true(js, "RestartingJobSet"):
        return False
    counts = {entry.name: (entry.ready or 0) + (entry.succeeded or 0) for entry in js.status.replicated_jobs_status}
    reduced = {entry.name: entry.replicas for entry in js.status.reduced_replicas or ()}
    return all(
        counts.get(rjob.name, 0) >= min(job_count(rjob.replicas), reduced.get(rjob.name, job_count(rjob.replicas)))
        for rjob in js.spec.replicated_jobs
        if not rjob.spare_for
    )


def job_count(replicas: int | None) -> int:
    """The number of Jobs of a ReplicatedJob, which is 1 if `replicas` is absent."""
    return 1 if replicas is None else replicas


def end_summary(js: AnyJobSet) -> str:
    """`has completed at TIME` or `has failed at TIME: REASON`; empty for a JobSet that has not ended."""
    state = js.status.terminal_state
    if not state:
        return ""
    end_condition = find_condition(js, state)
    when = f" at {end_condition.last_transition_time}" if end_condition and end_condition.last_transition_time else ""
    reason = f": {end_condition.message}" if state == "Failed" and end_condition and end_condition.message else ""
    return f"has {state.lower()}{when}{reason}"


def state_in_words(js: AnyJobSet, now: datetime | None = None) -> str:
    """The state in the words of `jobset explain`: completed, failed, is suspended, keeps failing, runs, waits.

    `now` is the present time by default.
    """
    status, is_halted = js.status, _is_suspended(js)
    phrases = {
        str(status.terminal_state).lower(): bool(status.terminal_state),
        "is being deleted": bool(js.metadata.deletion_timestamp),
        "is managed by another controller": js.spec.managed_by not in {None, MANAGER},
        "is suspended": is_halted,
        "is being suspended": bool(js.spec.suspend),
        "keeps failing": _keeps_failing(js, now or datetime.now(UTC)),
        "restarts": is_true(js, "RestartingJobSet"),
        "runs": _is_ready(js),
        "waits": True,
    }
    return next(phrase for phrase, applies in phrases.items() if applies)


def _keeps_failing(js: AnyJobSet, now: datetime) -> bool:
    """Whether several attempts have failed within the last hour."""
    recent = [entry for entry in js.status.attempt_history if _seconds_since(entry.time, now) <= RECENT_SECONDS]
    return bool(js.status.restarts) and len(recent) >= LOOP


def _one_line(text: str) -> str:
    """The text from a container as one line, without control characters."""
    words = "".join(char if char.isprintable() else " " for char in text).split()
    return " ".join(words)[:_MAX_MESSAGE_CHARACTERS]


def _seconds_since(time: str | None, now: datetime) -> float:
    try:
        return (now - datetime.fromisoformat(time or "")).total_seconds()
    except (ValueError, TypeError):
        return math.inf


def end_words(attempt: Any) -> str:
    """How an attempt ended, such as `pod p on node n, exit code 137 (OOMKilled: last line)`; may be empty.

    The parentheses contain the kubelet's reason, and the last line of the termination message.
    """
    lines = (attempt.termination_message or "").strip().splitlines()[-1:]
    reason = ": ".join(part for part in (attempt.pod_reason, *map(_one_line, lines)) if part)
    container = f"container {attempt.container} of " if attempt.container and attempt.pod else ""
    pod = f"{container}pod {attempt.pod}" + (f" on node {attempt.node}" if attempt.node else "") if attempt.pod else ""
    code = "" if attempt.exit_code is None else f"exit code {attempt.exit_code}"
    summary = ", ".join(part for part in (pod, code) if part)
    return f"{summary} ({reason})" if summary and reason else summary or reason


def find_condition(js: AnyJobSet, condition_type: str) -> Any:
    """The condition with the type `condition_type`; None without it."""
    return next((entry for entry in js.status.conditions if entry.type == condition_type), None)


def is_true(js: AnyJobSet, condition_type: str) -> bool:
    """Whether the condition with the type `condition_type` has the status True."""
    condition = find_condition(js, condition_type)
    return condition is not None and condition.status == "True"


def title(js: AnyJobSet) -> str:
    """`JobSet team-a/train`."""
    return f"JobSet {js.metadata.namespace}/{js.metadata.name}"


def as_html(js: AnyJobSet) -> str:
    """HTML for a notebook, with the state and a row for each ReplicatedJob."""
    counts = {entry.name: entry for entry in js.status.replicated_jobs_status}
    lines = [("ReplicatedJob", "Jobs", *_COUNT_NAMES)]
    for rjob in js.spec.replicated_jobs[:_MAX_ROWS]:
        numbers = (getattr(counts.get(rjob.name), count, None) or 0 for count in _COUNT_NAMES)
        lines.append((rjob.name, str(job_count(rjob.replicas)), *map(str, numbers)))
    rows = ("".join(f"<td>{html.escape(cell)}</td>" for cell in line) for line in lines)
    table = "".join(f"<tr>{row}</tr>" for row in rows)
    hidden = len(js.spec.replicated_jobs) - _MAX_ROWS
    more = f"<p>and {hidden} more</p>" if hidden > 0 else ""
    words = html.escape(f"{title(js)}: {state_in_words(js)}, restarts {js.status.restarts or 0}")
    return f"<p><b>{words}</b></p><table>{table}</table>{more}"


class Wait:
    """Decides whether the wait for a state of one JobSet is over. A later JobSet with the same name does not count."""

    def __init__(self, first: AnyJobSet, state: str) -> None:
        self._first, self._state = first, state
        self._is_listed = False

    def is_over(self, js: AnyJobSet) -> bool:
        """Whether the JobSet is in the state. Raises `NeverError` if it cannot reach the state."""
        if js.metadata.uid != self._first.metadata.uid:
            raise self._deletion_error()
        self._is_listed = True
        if has_reached(js, self._state):
            return True
        if end := end_summary(js) or ("is being deleted" if js.metadata.deletion_timestamp is not None else ""):
            raise NeverError(f"{title(js)} {end}; it will never be {self._state}")
        return False

    def start_list(self) -> None:
        """Note that a list begins, which contains at most one JobSet of the name."""
        self._is_listed = False

    def end_list(self) -> None:
        """Note that the list ends. Raises `NeverError` if it did not contain the JobSet."""
        if not self._is_listed:
            raise self._deletion_error()

    def delete(self) -> None:
        """Raise `NeverError`, since the JobSet was deleted."""
        raise self._deletion_error()

    def _deletion_error(self) -> NeverError:
        return NeverError(f"{title(self._first)} was deleted; it will never be {self._state}")


def is_change(js: AnyJobSet, *, suspend: bool) -> bool:
    """Whether writing `spec.suspend` has an effect. Raises `RefusedError` for a JobSet that cannot run again."""
    refuse_ended(js)
    return bool(js.spec.suspend) != suspend


def refuse_ended(js: AnyJobSet) -> None:
    """Raise `RefusedError` for a JobSet that has ended, or is being deleted."""
    meta = js.metadata
    if meta.deletion_timestamp is not None:
        raise RefusedError(
            f"{title(js)} is being deleted since {meta.deletion_timestamp}:"
            f" jobset explain {meta.name} -n {meta.namespace} says what keeps it"
        )
    if end := end_summary(js):
        raise RefusedError(
            f"{title(js)} {end}; a JobSet that has ended does not change any more:"
            " delete it and create it again to run it once more"
        )


def suspend_patch(js: AnyJobSet, *, suspend: bool) -> dict[str, Any]:
    """A merge patch of `spec.suspend` of the JobSet of this UID."""
    return {"metadata": {"uid": js.metadata.uid}, "spec": {"suspend": suspend}}


def scale_patch(js: AnyJobSet, replicas: Mapping[str, int]) -> list[dict[str, Any]]:
    """A JSON patch that sets the `replicas` of ReplicatedJobs by name; empty if the JobSet has these numbers already.

    It applies only to the JobSet of this UID. Raises `RefusedError` for a JobSet that has ended, and for an unknown
    name.
    """
    refuse_ended(js)
    indexes = {rjob.name: index for index, rjob in enumerate(js.spec.replicated_jobs)}
    for name in replicas:
        if name not in indexes:
            raise RefusedError(f"{title(js)} has no ReplicatedJob {as_json(name)}: {did_you_mean(name, indexes)}")
    tests = [{"op": "test", "path": "/metadata/uid", "value": js.metadata.uid}]
    changes = []
    for name, number in replicas.items():
        path, rjob = f"/spec/replicatedJobs/{indexes[name]}", js.spec.replicated_jobs[indexes[name]]
        if job_count(rjob.replicas) != number:
            tests.append({"op": "test", "path": f"{path}/name", "value": name})
            changes.append({"op": "add", "path": f"{path}/replicas", "value": number})
    return [*tests, *changes] if changes else []


def queue_of(js: AnyJobSet) -> str:
    """The Kueue queue in the JobSet's label. Without Kueue in the cluster, the label has no effect."""
    return str(js.metadata.labels.get(QUEUE_NAME) or "")


def queue_refusal(js: AnyJobSet, clause: str) -> RefusedError:
    """The error for a JobSet of a Kueue queue. `clause`: what Kueue does, and what to do instead."""
    return RefusedError(f"{title(js)} is in the Kueue queue {queue_of(js)}, which {clause}")
