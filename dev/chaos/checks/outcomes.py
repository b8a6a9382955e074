"""Checks that every JobSet ends as without faults, and that no Job is created and no restart counted twice.

The load writes the expected end of a JobSet into an annotation (`EXPECTED`), so the checks only need objects of the API
server.
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
"""Annotation with the expected final fields of the status, as JSON (terminalState, restarts, executionAttempts)."""

JOB_TWICE, RESTART_TWICE, OTHER_END, NO_END = "Job twice", "restart twice", "other end", "no end"


@dataclass(slots=True)
class Life:
    """The life of one JobSet from its creation on."""

    name: str
    namespace: str
    expected: JSON
    created: float
    statuses: list[tuple[int, float, JSON]] = field(default_factory=list)
    """Version, time and status of each status write."""
    unconfirmed_status: JSON = field(default_factory=dict)
    """The status of the last write that was refused with 5xx. A broken connection is logged as 504, but its write may
    have been stored."""

    @property
    def status(self) -> JSON:
        """The last status."""
        return max(self.statuses, default=(0, 0.0, {}), key=lambda write: write[0])[2]


def lives(events: Iterable[Event]) -> dict[str, Life]:
    """The lives of all JobSets with the annotation `EXPECTED`, by UID."""
    lives_by_uid: dict[str, Life] = {}
    for event in events:
        if event.resource == "jobsets/status" and event.code >= 500:
            life = lives_by_uid.get((event.request_body.get("metadata") or {}).get("uid", ""))
            if life is not None:
                life.unconfirmed_status = {**life.status, **event.request_body["status"]}
        if event.resource not in {"jobsets", "jobsets/status"} or not event.is_stored or not event.response_body:
            continue
        metadata = event.response_body.get("metadata") or {}
        text = (metadata.get("annotations") or {}).get(EXPECTED)
        if text is None:
            continue
        life = lives_by_uid.setdefault(
            metadata["uid"], Life(metadata["name"], metadata["namespace"], json.loads(text), event.ended)
        )
        if event.resource == "jobsets/status":
            life.statuses.append((event.version, event.ended, event.response_body.get("status") or {}))
    return lives_by_uid


def check(events: Sequence[Event], remaining_uids: Collection[str]) -> list[Violation]:
    """Check every JobSet. `remaining_uids` are the UIDs of the JobSets that exist at the end of the run.

    A JobSet that was deleted before its end is not checked if its namespace was deleted, too. If it was deleted after a
    write without an answer, the write counts as stored: the load deletes only JobSets that it has seen ended.
    """
    lives_by_uid = lives(events)
    deletion_times = _namespace_deletions(events)
    violations = _jobs_twice(events)
    for uid, life in lives_by_uid.items():
        jobset_name = f"{life.namespace}/{life.name}"
        violations += _restarts_twice(life, jobset_name)
        status = life.status
        if not status.get("terminalState") and uid not in remaining_uids:
            status = life.unconfirmed_status or status
        if not status.get("terminalState"):
            gone_with_namespace = uid not in remaining_uids and any(
                at > life.created for at in deletion_times[life.namespace]
            )
            if not gone_with_namespace:
                text = f"expected {life.expected}, its status is {_expected_fields(status, life.expected)}"
                violations.append(Violation(NO_END, jobset_name, text))
        elif (end := _expected_fields(status, life.expected)) != life.expected:
            violations.append(Violation(OTHER_END, jobset_name, f"expected {life.expected}, it ended with {end}"))
    return violations


def _expected_fields(status: JSON, expected: JSON) -> JSON:
    """The fields of the status for which there is an expected value."""
    return {name: status.get(name, 0) for name in expected}


def _namespace_deletions(events: Iterable[Event]) -> dict[str, list[float]]:
    """The times at which each namespace was deleted."""
    deletion_times: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.resource == "namespaces" and event.verb == "delete" and event.is_stored:
            deletion_times[event.name].append(event.ended)
    return deletion_times


def _jobs_twice(events: Iterable[Event]) -> list[Violation]:
    """A violation for each Job that the manager created twice in the same attempt."""
    creations: dict[tuple[str, ...], Event] = {}
    violations = []
    for event in events:
        if event.resource != "jobs" or event.verb != "create" or not event.is_stored or event.user != MANAGER:
            continue
        metadata = event.response_body["metadata"]
        labels = metadata.get("labels") or {}
        attempts = (keys.RESTART_ATTEMPT, keys.JOB_RESTART_ATTEMPT)
        job_key = (labels[keys.JOBSET_UID], metadata["name"], *(labels.get(key, "0") for key in attempts))
        if first := creations.get(job_key):
            text = (
                f"attempt {job_key[2]} was created by {first.credential} and {event.ended - first.ended:.1f} s later by"
            )
            subject = f"{event.namespace}/{metadata['name']}"
            violations.append(Violation(JOB_TWICE, subject, f"{text} {event.credential}", event.ended))
        creations[job_key] = event
    return violations


def _restarts_twice(life: Life, jobset_name: str) -> list[Violation]:
    """A violation for each status write that counts more than one restart, or fewer restarts than before."""
    violations = []
    earlier_restarts = 0
    for _, at, status in sorted(life.statuses, key=lambda write: write[0]):
        restarts = status.get("restarts", 0)
        if restarts not in {earlier_restarts, earlier_restarts + 1}:
            text = f"status.restarts went from {earlier_restarts} to {restarts} in one write"
            violations.append(Violation(RESTART_TWICE, jobset_name, text, at))
        earlier_restarts = restarts
    return violations
