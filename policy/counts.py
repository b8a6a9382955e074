"""Counts of admission's decisions for the status of policies. Pure: the time is passed in."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kube.model.meta import JSON
from policy.status_types import ANYONE, API_SERVER, MAX_RULES, JobSetPolicyStatus, RuleCounts

MATCHED: Final = "Matched"
"""The action that counts a JobSet to which a policy applies."""
SET: Final = "Set"
"""The action of defaults that were set."""

FIELDS: Final[Mapping[str, str]] = {
    "Deny": "denied",
    "Warn": "warned",
    "Audit": "audited",
    "Excepted": "excepted",
    "Error": "failed",
}
"""Actions about a rule, and their fields in the status."""
_WHOLE: Final[Mapping[str, str]] = {MATCHED: "matched", SET: "defaulted"}
"""Fields of the status for actions that are counted for the whole policy only."""


@dataclass(slots=True)
class Tally:
    """Decisions of one policy that are not in its status yet: numbers by rule and action."""

    times: Counter[tuple[str, str]] = field(default_factory=Counter)
    seen: dict[str, str] = field(default_factory=dict)
    """When a rule was violated last, in the form of the API."""

    def add(self, rule: str, action: str, count: int, at: str) -> None:
        """Count one decision that many times."""
        self.times[rule, action] += count
        if action in FIELDS:
            self.seen[rule] = max(at, self.seen.get(rule, ""))

    def join(self, other: "Tally") -> None:
        """Add the counts of another tally."""
        self.times += other.times
        for rule, at in other.seen.items():
            self.seen[rule] = max(at, self.seen.get(rule, ""))


def status_patch(status: JobSetPolicyStatus, tally: Tally, reviews_from: str) -> JSON:
    """The fields of the status that a tally of such reviews changes, as a merge patch.

    Counts without `reviewsFrom` may come from reviews of anyone.
    """
    rules = {rule.name: rule for rule in status.rules}
    has_counts = any(getattr(status, each) for each in (*FIELDS.values(), *_WHOLE.values()))
    before = status.reviews_from or (ANYONE if has_counts else reviews_from)
    changed: JSON = {"reviewsFrom": ANYONE if ANYONE in {before, reviews_from} else API_SERVER}
    for (name, action), count in tally.times.items():
        if action in _WHOLE:
            whole = _WHOLE[action]
            changed[whole] = changed.get(whole, getattr(status, whole)) + count
        elif action in FIELDS and (name in rules or len(rules) < MAX_RULES):
            counted = FIELDS[action]
            rule = rules.get(name) or RuleCounts(name=name)
            rules[name] = msgspec.structs.replace(
                rule,
                **{counted: getattr(rule, counted) + count},
                last_seen=max(rule.last_seen or "", tally.seen.get(name, "")) or None,
            )
            changed[counted] = changed.get(counted, getattr(status, counted)) + count
    if any(action in FIELDS for _, action in tally.times):
        changed["lastSeen"] = max((status.last_seen or "", *tally.seen.values())) or None
        changed["rules"] = [msgspec.to_builtins(rules[name]) for name in sorted(rules)]
    return changed
