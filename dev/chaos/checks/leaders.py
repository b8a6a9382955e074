"""Checks that no two leaders write in one term of the lease.

A term belongs to one holder. It begins with the write that takes the lease, and ends with the next write that names
another holder or none. A write of the controllers is late if the API server stored it outside the terms of its sender.
A late write is harmless if one of these guards held:

- it named the version or the UID of the object that it was decided from, so that no other client had changed the
object;
- it created an object with the name and attempt that the current leader would also have used;
- it deleted Jobs of an attempt that was over.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from api import keys
from app.settings import LeaderElectionSettings
from dev.chaos.checks.violation import Violation
from dev.chaos.events import MANAGER, WRITES, Event

LEASE = LeaderElectionSettings().resource_name
RULE = "two leaders"
LEADER_RESOURCES = {
    "jobs",
    "jobsets",
    "jobsets/status",
    "persistentvolumeclaims",
    "pods",
    "services",
    "compositepodgroups",
    "podgroups",
    "workloads",
}
"""Resources that only the replica with the lease writes."""

NO_LIMIT = 1 << 63
"""Greater than any version, for the deletion of a collection, which has no version."""

STALE_CODES = {404, 409, 422}
"""Answers to a write that was planned on an object that no longer exists."""


@dataclass(frozen=True, slots=True)
class Term:
    """The term of `holder`, from the lease write `first_write` until before `end_write`.

    `end_write`: the next write that names another holder or none; None if there is no such write.
    """

    holder: str
    first_write: Event
    end_write: Event | None = None

    def holds(self, event: Event) -> bool:
        """Whether the holder may have sent the event within the term.

        If the event has no version, only times are compared. If the times do not decide, the event counts as sent
        within the term. The version may be older than the term, since a patch that changes nothing is answered with
        the object's earlier version.
        """
        if event.credential != self.first_write.credential:
            return False
        if event.version:
            has_begun = self.first_write.version < event.version or self.first_write.ended <= event.started
            return has_begun and (self.end_write is None or event.version < self.end_write.version)
        return self.first_write.started <= event.ended and (
            self.end_write is None or event.started <= self.end_write.ended
        )


@dataclass(frozen=True, slots=True)
class Leaders:
    """The result of the check. `late_writes` counts writes outside the sender's terms, by request and result."""

    term_count: int
    late_writes: dict[str, int]
    violations: list[Violation]


def terms(events: Iterable[Event]) -> list[Term]:
    """The terms of leaders, from the stored writes of the lease."""
    writes = sorted(
        (event for event in events if event.resource == "leases" and event.name == LEASE and event.is_stored),
        key=lambda event: event.version,
    )
    found_terms: list[Term] = []
    for event in writes:
        holder = (event.response_body.get("spec") or {}).get("holderIdentity") or ""
        current = found_terms[-1] if found_terms and found_terms[-1].end_write is None else None
        if current and current.holder != holder:
            found_terms[-1] = replace(current, end_write=event)
        if holder and not (current and current.holder == holder):
            found_terms.append(Term(holder, event))
    return found_terms


def check(events: Sequence[Event]) -> Leaders:
    """Check every write of the controllers."""
    found_terms = terms(events)
    restart_counts = _restart_counts(events)
    late_writes: Counter[str] = Counter()
    violations = []
    for event in events:
        if not _is_by_controllers(event) or any(term.holds(event) for term in found_terms):
            continue
        request = f"{event.verb} {event.resource}"
        if event.code >= 400:
            late_writes[f"{request} refused with {event.code}"] += event.code in STALE_CODES
            continue
        guard = _guard_of(event, restart_counts)
        late_writes[f"{request} stored, {guard or 'no guard'}"] += 1
        if not guard:
            text = f"{request} was stored while its sender {event.credential} had no lease, and nothing guarded it"
            violations.append(Violation(RULE, f"{event.namespace}/{event.name}", text, event.ended))
    return Leaders(len(found_terms), {text: count for text, count in late_writes.items() if count}, violations)


def _is_by_controllers(event: Event) -> bool:
    return event.user == MANAGER and event.resource in LEADER_RESOURCES and event.verb in WRITES and not event.dry_run


def _guard_of(event: Event, restart_counts: dict[str, list[tuple[int, int]]]) -> str:
    """The guard that made a late write harmless; empty if there was none."""
    if (event.request_body.get("metadata") or {}).get("resourceVersion"):
        return "it named the version"
    if (event.request_body.get("preconditions") or {}).get("uid"):
        return "it named the UID"
    if event.verb == "deletecollection":
        labels = dict(part.split("=", 1) for part in event.selector.split(",") if "=" in part)
        return "its attempt was over" if _is_attempt_over(labels, event, restart_counts) else ""
    if event.verb != "create":
        return ""
    labels = event.response_body["metadata"].get("labels") or {}
    if event.resource == "jobs" and _is_attempt_over(labels, event, restart_counts):
        return ""
    return "its name was free"


def _is_attempt_over(
    labels: Mapping[str, str], event: Event, restart_counts: Mapping[str, list[tuple[int, int]]]
) -> bool:
    """Whether the attempt in these labels was over at the time of the event, by the result of `_restart_counts`."""
    counts = restart_counts.get(labels.get(keys.JOBSET_UID, ""), [])
    current = max((count for version, count in counts if version < (event.version or NO_LIMIT)), default=0)
    return int(labels.get(keys.RESTART_ATTEMPT, current)) < current


def _restart_counts(events: Iterable[Event]) -> dict[str, list[tuple[int, int]]]:
    """By UID of a JobSet, each version of its status with the number of restarts in it."""
    counts: dict[str, list[tuple[int, int]]] = {}
    for event in events:
        if event.resource == "jobsets/status" and event.is_stored and event.response_body:
            uid = event.response_body["metadata"]["uid"]
            counts.setdefault(uid, []).append(
                (event.version, (event.response_body.get("status") or {}).get("restarts", 0))
            )
    return counts
