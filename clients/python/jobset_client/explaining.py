"""Explains by its status and its events why a JobSet waits, or how it ended. Without IO."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobset_client.core import Call, Operation, ask, path
from jobset_client.errors import ApiError
from jobset_client.models import JobSet
from jobset_client.states import end_words, is_true, job_count, state_in_words, title
from jobset_client.words import count_noun

MAX_EVENTS = 500
"""Largest number of events that are read."""
MAX_LISTED = 5
"""Largest number of events in an explanation, which are the latest."""
_REPEATING_CONDITIONS = {"Suspended": "its Jobs are suspended", "RestartingJobSet": "it restarts"}
"""Conditions that only repeat the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A state in words, its reasons line by line, and the objects that were not read (`not_looked_at`)."""

    jobset: JobSet
    state: str
    lines: tuple[str, ...]
    not_looked_at: tuple[str, ...]

    def __str__(self) -> str:
        indented_lines = [f"  {line}" for line in self.lines] + [
            f"not looked at: {name}" for name in self.not_looked_at
        ]
        return "\n".join([f"{title(self.jobset)}: {self.state}", *indented_lines])


def explain(js: JobSet) -> Operation[Explanation]:
    """Read the events of the JobSet, and explain its status and the events."""
    name, namespace = js.metadata.name, js.metadata.namespace or ""
    url_path = f"/api/v1/namespaces/{path(namespace)}/events"
    query = (("fieldSelector", f"involvedObject.uid={js.metadata.uid}"), ("limit", str(MAX_EVENTS)))
    not_looked_at: tuple[str, ...] = (f"Jobs, pods, nodes and the scheduler: jobset explain {name} -n {namespace}",)
    events: list[str] = []
    try:
        page = yield from ask(Call(method="GET", path=url_path, query=query, task=f"list the events of {title(js)}"))
        events = list(_event_lines(page.get("items") or []))
    except ApiError as error:
        not_looked_at = (f"events: {error}", *not_looked_at)
    return Explanation(
        jobset=js, state=state_in_words(js), lines=(*_status_lines(js), *events), not_looked_at=not_looked_at
    )


def _status_lines(js: JobSet) -> Iterator[str]:
    status = js.status
    if status.current_stage:
        yield f"stage: {status.current_stage}"
    counts = {entry.name: entry for entry in status.replicated_jobs_status}
    for rjob in js.spec.replicated_jobs:
        count, total = counts.get(rjob.name), job_count(rjob.replicas)
        if count is None:
            no_count = f"none of {total} Jobs is" if total > 1 else "its Job is not"
            yield f"{rjob.name}: {no_count} counted yet: no manager has seen it, or it waits for its stage"
            continue
        numbers = [(name, getattr(count, name)) for name in ("ready", "succeeded", "failed", "active", "suspended")]
        non_zero = [f"{number} {name}" for name, number in numbers if number]
        yield f"{rjob.name}: of {count_noun(total, 'Job')} {', '.join(non_zero) or 'none is ready yet'}"
    if status.restarts:
        limit = (js.spec.failure_policy.max_restarts if js.spec.failure_policy else None) or 0
        counted_restarts = status.restarts_count_towards_max or 0
        verb = "counts" if counted_restarts == 1 else "count"
        yield f"restarts: {status.restarts}, of which {counted_restarts} {verb} towards maxRestarts {limit}"
    for entry in status.attempt_history[-1:]:
        details = (entry.message, end_words(entry))
        yield f"attempt {entry.attempt} failed: {', '.join(part for part in details if part) or entry.reason}"
    for condition in status.conditions:
        if condition.status == "True" and condition.message and condition.type not in _REPEATING_CONDITIONS:
            yield f"{condition.type}: {condition.message}"
        elif condition.status == "False" and condition.type in _AWAITED_CONDITIONS:
            yield f"not {condition.type}: {condition.message or condition.reason}"
    if js.spec.suspend and not is_true(js, "Suspended"):
        yield "spec.suspend is true, and its Jobs are not suspended yet"


_AWAITED_CONDITIONS = {"SchedulingObjectsReady", "PodGroupsInitiallyScheduled"}
"""Conditions that a JobSet waits for."""


def _event_lines(items: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield lines for the latest events, the latest last."""
    for entry in sorted(items, key=_event_time)[-MAX_LISTED:]:
        text = " ".join(str(entry.get("message") or "").split())
        yield f"event {entry.get('type') or 'Normal'} {entry.get('reason') or ''}: {text}"


def _event_time(event: Mapping[str, Any]) -> str:
    series = event.get("series") or {}
    created = (event.get("metadata") or {}).get("creationTimestamp")
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"), created)
    return next((str(time) for time in times if time), "")
