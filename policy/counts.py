"""Counts decisions of admission by policies, for their status. Pure; the caller passes the time."""

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

RULE_FIELDS: Final[Mapping[str, str]] = {
    "Deny": "denied",
    "Warn": "warned",
    "Audit": "audited",
    "Excepted": "excepted",
    "Error": "failed",
}
"""The fields of the status by action, for actions that are counted by rule."""
_POLICY_FIELDS: Final[Mapping[str, str]] = {MATCHED: "matched", SET: "defaulted"}
"""The fields of the status by action, for actions that are counted only for the whole policy."""


@dataclass(slots=True)
class Tally:
    """Counts of decisions, by rule and action, that are not in the status of a policy yet."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    last_seen: dict[str, str] = field(default_factory=dict)
    """The time of the last violation by rule (RFC 3339)."""

    def add(self, rule: str, action: str, count: int, at: str) -> None:
        """Add `count` decisions at a time (RFC 3339)."""
        self.counts[rule, action] += count
        if action in RULE_FIELDS:
            self.last_seen[rule] = max(at, self.last_seen.get(rule, ""))

    def join(self, other: "Tally") -> None:
        """Add the counts of another tally."""
        self.counts += other.counts
        for rule, at in other.last_seen.items():
            self.last_seen[rule] = max(at, self.last_seen.get(rule, ""))


def status_patch(status: JobSetPolicyStatus, tally: Tally, reviews_from: str) -> JSON:
    """The fields of the status that a tally changes, as a merge patch.

    `reviews_from`: who can have sent the counted reviews. For stored counts without `reviewsFrom` it is `ANYONE`.
    """
    rules = {rule.name: rule for rule in status.rules}
    has_counts = any(getattr(status, name) for name in (*RULE_FIELDS.values(), *_POLICY_FIELDS.values()))
    stored_reviews_from = status.reviews_from or (ANYONE if has_counts else reviews_from)
    patch: JSON = {"reviewsFrom": ANYONE if ANYONE in {stored_reviews_from, reviews_from} else API_SERVER}
    for (name, action), count in tally.counts.items():
        if action in _POLICY_FIELDS:
            field_name = _POLICY_FIELDS[action]
            patch[field_name] = patch.get(field_name, getattr(status, field_name)) + count
        elif action in RULE_FIELDS and (name in rules or len(rules) < MAX_RULES):
            field_name = RULE_FIELDS[action]
            rule = rules.get(name) or RuleCounts(name=name)
            rules[name] = msgspec.structs.replace(
                rule,
                **{field_name: getattr(rule, field_name) + count},
                last_seen=max(rule.last_seen or "", tally.last_seen.get(name, "")) or None,
            )
            patch[field_name] = patch.get(field_name, getattr(status, field_name)) + count
    if any(action in RULE_FIELDS for _, action in tally.counts):
        patch["lastSeen"] = max((status.last_seen or "", *tally.last_seen.values())) or None
        patch["rules"] = [msgspec.to_builtins(rules[name]) for name in sorted(rules)]
    return patch
