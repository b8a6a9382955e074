"""Every set ends as it would without faults: no Job created twice, no restart counted twice or lost.

The expected end of a set is an annotation of it (`EXPECTED`), written by the load: so the checks only need objects of
the API server.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from api import keys
from dev.chaos.checks.violation import Violation
from dev.chaos.events import MANAGER, Event
from kube.model.meta import JSON

EXPECTED = "chaos.jobset.dev/expected"
"""Annotation: JSON of the fields of the status that the set ends with (terminalState, restarts, executionAttempts)."""

JOB_TWICE, RESTART_TWICE, OTHER_END, NO_END = "Job twice", "restart twice", "other end", "no end"


@dataclass(slots=True)
class Life:
    """One JobSet from its creation on, by its UID."""

    name: str
    namespace: str
    expected: JSON
    created: float
    statuses: list[tuple[int, float, JSON]] = field(default_factory=list)
    """Version, time and status of each status write."""
    unanswered: JSON = field(default_factory=dict)
    """The status of the last write that was refused with 5xx: a broken connection is logged as 504, and its write may
    have been stored."""

    @property
    def status(self) -> JSON:
        """The last one."""
        return max(self.statuses, default=(0, 0.0, {}), key=lambda write: write[0])[2]


def lives(events: Iterable[Event]) -> dict[str, Life]:
    """All JobSets that say what is expected of them, by UID."""
    found: dict[str, Life] = {}
    for event in events:
        if event.resource == "jobsets/status" and event.code >= 500:
            life = found.get((event.asked.get("metadata") or {}).get("uid", ""))
            if life is not None:
                life.unanswered = {**life.status, **event.asked["status"]}
        if event.resource not in {"jobsets", "jobsets/status"} or not event.is_stored or not event.answer:
            continue
        metadata = event.answer.get("metadata") or {}
        text = (metadata.get("annotations") or {}).get(EXPECTED)
        if text is None:
            continue
        life = found.setdefault(
            metadata["uid"], Life(metadata["name"], metadata["namespace"], json.loads(text), event.ended)
        )
        if event.resource == "jobsets/status":
            life.statuses.append((event.version, event.ended, event.answer.get("status") or {}))
    return found


def check(events: Sequence[Event], left: Collection[str]) -> list[Violation]:
    """Judge every set. `left` has the UIDs of the JobSets that exist at the end.

    A set that was deleted before its end is not judged if its namespace was deleted, too. If it was deleted after a
    write without an answer, that write counts as stored: the load only deletes sets that it has seen ended.
    """
    known = lives(events)
    dropped = _namespace_deletions(events)
    violations = _jobs_twice(events)
    for uid, life in known.items():
        jobset_name = f"{life.namespace}/{life.name}"
        violations += _restarts_twice(life, jobset_name)
        status = life.status
        if not status.get("terminalState") and uid not in left:
            status = life.unanswered or status
        if not status.get("terminalState"):
            gone_with_namespace = uid not in left and any(at > life.created for at in dropped[life.namespace])
            if not gone_with_namespace:
                text = f"expected {life.expected}, its status is {_expected_fields(status, life.expected)}"
                violations.append(Violation(NO_END, jobset_name, text))
        elif (end := _expected_fields(status, life.expected)) != life.expected:
            violations.append(Violation(OTHER_END, jobset_name, f"expected {life.expected}, it ended with {end}"))
    return violations


def _expected_fields(status: JSON, expected: JSON) -> JSON:
    """The fields of the status with an expected value."""
    return {name: status.get(name, 0) for name in expected}


def _namespace_deletions(events: Iterable[Event]) -> dict[str, list[float]]:
    """When each namespace was deleted."""
    found: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.resource == "namespaces" and event.verb == "delete" and event.is_stored:
            found[event.name].append(event.ended)
    return found


def _jobs_twice(events: Iterable[Event]) -> list[Violation]:
    """Jobs that the manager created although there was one of that index in the same attempt."""
    seen: dict[tuple[str, ...], Event] = {}
    violations = []
    for event in events:
        if event.resource != "jobs" or event.verb != "create" or not event.is_stored or event.user != MANAGER:
            continue
        metadata = event.answer["metadata"]
        labels = metadata.get("labels") or {}
        attempts = (keys.RESTART_ATTEMPT, keys.JOB_RESTART_ATTEMPT)
        job_key = (labels[keys.JOBSET_UID], metadata["name"], *(labels.get(key, "0") for key in attempts))
        if first := seen.get(job_key):
            text = (
                f"attempt {job_key[2]} was created by {first.credential} and {event.ended - first.ended:.1f} s later by"
            )
            subject = f"{event.namespace}/{metadata['name']}"
            violations.append(Violation(JOB_TWICE, subject, f"{text} {event.credential}", event.ended))
        seen[job_key] = event
    return violations


def _restarts_twice(life: Life, jobset_name: str) -> list[Violation]:
    """Status writes that count more than one restart, or fewer than before."""
    violations = []
    before = 0
    for _, at, status in sorted(life.statuses, key=lambda write: write[0]):
        restarts = status.get("restarts", 0)
        if restarts not in {before, before + 1}:
            text = f"status.restarts went from {before} to {restarts} in one write"
            violations.append(Violation(RESTART_TWICE, jobset_name, text, at))
        before = restarts
    return violations
