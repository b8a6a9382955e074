"""Why a JobSet waits, or how it ended, by its status and its events. Without IO."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobset_client.core import Call, Operation, ask, path
from jobset_client.errors import ApiError
from jobset_client.models import JobSet
from jobset_client.states import end_words, in_words, is_true, jobs_of, title
from jobset_client.words import count_noun

MAX_EVENTS = 500
"""Events that are read."""
MAX_LISTED = 5
"""Events that are listed, the latest first."""
_REPEATING_CONDITIONS = {"Suspended": "its Jobs are suspended", "RestartingJobSet": "it restarts"}
"""Conditions that repeat the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A state in words, its reasons line by line, and what was not checked."""

    jobset: JobSet
    state: str
    lines: tuple[str, ...]
    not_looked_at: tuple[str, ...]

    def __str__(self) -> str:
        below = [f"  {line}" for line in self.lines] + [f"not looked at: {name}" for name in self.not_looked_at]
        return "\n".join([f"{title(self.jobset)}: {self.state}", *below])


def explain(js: JobSet) -> Operation[Explanation]:
    """Read the events of the set, and explain them and its status."""
    name, namespace = js.metadata.name, js.metadata.namespace or ""
    url_path = f"/api/v1/namespaces/{path(namespace)}/events"
    query = (("fieldSelector", f"involvedObject.uid={js.metadata.uid}"), ("limit", str(MAX_EVENTS)))
    unseen: tuple[str, ...] = (f"Jobs, pods, nodes and the scheduler: jobset explain {name} -n {namespace}",)
    events: list[str] = []
    try:
        page = yield from ask(Call(method="GET", path=url_path, query=query, task=f"list the events of {title(js)}"))
        events = list(_events(page.get("items") or []))
    except ApiError as error:
        unseen = (f"events: {error}", *unseen)
    return Explanation(jobset=js, state=in_words(js), lines=(*_status(js), *events), not_looked_at=unseen)


def _status(js: JobSet) -> Iterator[str]:
    status = js.status
    if status.current_stage:
        yield f"stage: {status.current_stage}"
    counts = {entry.name: entry for entry in status.replicated_jobs_status}
    for rjob in js.spec.replicated_jobs:
        count, total = counts.get(rjob.name), jobs_of(rjob.replicas)
        if count is None:
            none = f"none of {total} Jobs is" if total > 1 else "its Job is not"
            yield f"{rjob.name}: {none} counted yet: no manager has seen it, or it waits for its stage"
            continue
        numbers = [(name, getattr(count, name)) for name in ("ready", "succeeded", "failed", "active", "suspended")]
        some = [f"{number} {name}" for name, number in numbers if number]
        yield f"{rjob.name}: of {count_noun(total, 'Job')} {', '.join(some) or 'none is ready yet'}"
    if status.restarts:
        most = (js.spec.failure_policy.max_restarts if js.spec.failure_policy else None) or 0
        towards = status.restarts_count_towards_max or 0
        verb = "counts" if towards == 1 else "count"
        yield f"restarts: {status.restarts}, of which {towards} {verb} towards maxRestarts {most}"
    for entry in status.attempt_history[-1:]:
        parts = (entry.message, end_words(entry))
        yield f"attempt {entry.attempt} failed: {', '.join(part for part in parts if part) or entry.reason}"
    for condition in status.conditions:
        if condition.status == "True" and condition.message and condition.type not in _REPEATING_CONDITIONS:
            yield f"{condition.type}: {condition.message}"
        elif condition.status == "False" and condition.type in _AWAITED_CONDITIONS:
            yield f"not {condition.type}: {condition.message or condition.reason}"
    if js.spec.suspend and not is_true(js, "Suspended"):
        yield "spec.suspend is true, and its Jobs are not suspended yet"


_AWAITED_CONDITIONS = {"SchedulingObjectsReady", "PodGroupsInitiallyScheduled"}
"""Conditions that a set waits for."""


def _events(items: list[Mapping[str, Any]]) -> Iterator[str]:
    """The latest ones, latest last."""
    for entry in sorted(items, key=_time)[-MAX_LISTED:]:
        text = " ".join(str(entry.get("message") or "").split())
        yield f"event {entry.get('type') or 'Normal'} {entry.get('reason') or ''}: {text}"


def _time(event: Mapping[str, Any]) -> str:
    series = event.get("series") or {}
    created = (event.get("metadata") or {}).get("creationTimestamp")
    moments = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"), created)
    return next((str(moment) for moment in moments if moment), "")
