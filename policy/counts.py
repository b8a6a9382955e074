"""Counts decisions of admission for the status of policies. Pure; the caller passes the time."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kube.model.meta import JSON
from policy.status_types import ANYONE, API_SERVER, MAX_RULES, JobSetPolicyStatus, RuleCounts

MATCHED: Final = "Matched"
"""Action: a policy applies to a JobSet."""
SET: Final = "Set"
"""Action: a policy has set defaults in a JobSet."""

FIELDS: Final[Mapping[str, str]] = {
    "Deny": "denied",
    "Warn": "warned",
    "Audit": "audited",
    "Excepted": "excepted",
    "Error": "failed",
}
"""The fields of the status by action, for actions that are counted by rule."""
_WHOLE: Final[Mapping[str, str]] = {MATCHED: "matched", SET: "defaulted"}
"""The fields of the status by action, for actions that are counted only for the whole policy."""


@dataclass(slots=True)
class Tally:
    """The number of decisions by rule and action that are not in the status of a policy yet."""

    times: Counter[tuple[str, str]] = field(default_factory=Counter)
    seen: dict[str, str] = field(default_factory=dict)
    """When a rule was violated last, in the form of the API."""

    def add(self, rule: str, action: str, count: int, at: str) -> None:
        """Add `count` decisions."""
        self.times[rule, action] += count
        if action in FIELDS:
            self.seen[rule] = max(at, self.seen.get(rule, ""))

    def join(self, other: "Tally") -> None:
        """Add the counts of another tally."""
        self.times += other.times
        for rule, at in other.seen.items():
            self.seen[rule] = max(at, self.seen.get(rule, ""))


def status_patch(status: JobSetPolicyStatus, tally: Tally, reviews_from: str) -> JSON:
    """The fields of the status that a tally changes, as a merge patch.

    `reviews_from`: who may have sent the reviews of the tally. Anyone may have caused stored counts without
    `reviewsFrom`.
    """
    rules = {rule.name: rule for rule in status.rules}
    has_counts = any(getattr(status, name) for name in (*FIELDS.values(), *_WHOLE.values()))
    stored_reviews_from = status.reviews_from or (ANYONE if has_counts else reviews_from)
    changed: JSON = {"reviewsFrom": ANYONE if ANYONE in {stored_reviews_from, reviews_from} else API_SERVER}
    for (name, action), count in tally.times.items():
        if action in _WHOLE:
            field_name = _WHOLE[action]
            changed[field_name] = changed.get(field_name, getattr(status, field_name)) + count
        elif action in FIELDS and (name in rules or len(rules) < MAX_RULES):
            field_name = FIELDS[action]
            rule = rules.get(name) or RuleCounts(name=name)
            rules[name] = msgspec.structs.replace(
                rule,
                **{field_name: getattr(rule, field_name) + count},
                last_seen=max(rule.last_seen or "", tally.seen.get(name, "")) or None,
            )
            changed[field_name] = changed.get(field_name, getattr(status, field_name)) + count
    if any(action in FIELDS for _, action in tally.times):
        changed["lastSeen"] = max((status.last_seen or "", *tally.seen.values())) or None
        changed["rules"] = [msgspec.to_builtins(rules[name]) for name in sorted(rules)]
    return changed
