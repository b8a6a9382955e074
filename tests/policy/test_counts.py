"""Counts in the status of a policy: however decisions are spread over replicas and time, they add up."""

from collections import Counter
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from policy.counts import MATCHED, RULE_FIELDS, SET, Tally, status_patch
from policy.status_types import ANYONE, API_SERVER, MAX_RULES, JobSetPolicyStatus, RuleCounts

RULES = ["maxJobs", "maxTotals", "defaults"]
DECISIONS = st.tuples(
    st.sampled_from(RULES), st.sampled_from([*RULE_FIELDS, MATCHED, SET]), st.integers(1, 9), st.integers(10, 59)
)


def at(second: int) -> str:
    return f"2030-01-01T00:00:{second}Z"


def tally(*decisions: tuple[str, str, int, int]) -> Tally:
    found = Tally()
    for rule, action, count, second in decisions:
        found.add(rule, action, count, at(second))
    return found


def patched(status: JobSetPolicyStatus, changed: dict[str, Any]) -> JobSetPolicyStatus:
    """The status after the merge patch, as the API server makes it and a replica reads it."""
    return msgspec.convert({**msgspec.to_builtins(status), **changed}, JobSetPolicyStatus)


def of_rule(status: JobSetPolicyStatus, name: str) -> RuleCounts:
    (found,) = (rule for rule in status.rules if rule.name == name)
    return found


def test_what_is_counted_of_a_rule_and_of_the_policy():
    new = tally(("match", MATCHED, 5, 10), ("maxJobs", "Deny", 2, 11), ("maxTotals", "Warn", 3, 12))
    new.add("defaults", SET, 4, at(13))
    status = patched(JobSetPolicyStatus(), status_patch(JobSetPolicyStatus(), new, API_SERVER))
    assert (status.matched, status.denied, status.warned, status.defaulted) == (5, 2, 3, 4)
    assert status.last_seen == at(12), "neither a match nor defaults are violations"
    assert [rule.name for rule in status.rules] == ["maxJobs", "maxTotals"]
    assert of_rule(status, "maxJobs") == RuleCounts(name="maxJobs", denied=2, last_seen=at(11))


def test_what_is_not_counted_is_not_written():
    assert status_patch(JobSetPolicyStatus(denied=3), tally(("match", MATCHED, 1, 10)), ANYONE) == {
        "reviewsFrom": "Anyone",
        "matched": 1,
    }


def test_an_older_time_never_replaces_a_later_one():
    before = JobSetPolicyStatus(last_seen=at(30), rules=(RuleCounts(name="maxJobs", last_seen=at(30)),))
    status = patched(before, status_patch(before, tally(("maxJobs", "Deny", 1, 20)), API_SERVER))
    assert status.last_seen == of_rule(status, "maxJobs").last_seen == at(30)


def test_the_list_of_rules_is_bounded():
    full = JobSetPolicyStatus(rules=tuple(RuleCounts(name=f"rule{n}") for n in range(MAX_RULES)))
    changed = status_patch(full, tally(("maxJobs", "Deny", 1, 10), ("rule0", "Deny", 1, 10)), API_SERVER)
    assert len(changed["rules"]) == MAX_RULES
    assert changed["denied"] == 1


@given(st.lists(DECISIONS), st.data())
def test_replicas_add_up_in_whatever_order_they_write(decisions: list[tuple[str, str, int, int]], data: st.DataObject):
    """Each decision falls to one of three replicas, which write at any time; one joins what it could not write."""
    status, replicas = JobSetPolicyStatus(), [Tally(), Tally(), Tally()]
    for rule, action, count, second in decisions:
        number = data.draw(st.integers(0, 2))
        replicas[number].add(rule, action, count, at(second))
        if data.draw(st.booleans()):
            status = patched(status, status_patch(status, replicas[number], API_SERVER))
            replicas[number] = Tally()
    last = Tally()
    for each in replicas:
        last.join(each)
    status = patched(status, status_patch(status, last, API_SERVER))
    expected = Counter[tuple[str, str]]()
    for rule, action, count, _ in decisions:
        expected[rule, action] += count
    for action, name in RULE_FIELDS.items():
        by_rule = {rule: expected[rule, action] for rule in RULES}
        assert {rule.name: getattr(rule, name) for rule in status.rules if getattr(rule, name)} == {
            rule: count for rule, count in by_rule.items() if count
        }
        assert getattr(status, name) == sum(by_rule.values())
    assert status.matched == sum(expected[rule, MATCHED] for rule in RULES)
    assert status.defaulted == sum(expected[rule, SET] for rule in RULES)
    violations = [second for _, action, _, second in decisions if action in RULE_FIELDS]
    assert status.last_seen == (at(max(violations)) if violations else None)
