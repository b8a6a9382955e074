"""When an exception from a policy counts, from which rules, and what is said about one that does not."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from policy.exception_faults import exception_faults
from policy.exception_types import read_exception
from policy.exceptions import duration_of, excused_rules, standing, time_of
from policy.judged import Namespace
from policy.types import JobSetPolicy, read_policy
from tests.support.objects.policies import exception, judged, manifest

JSON = dict[str, Any]
NOW = datetime(2030, 1, 1, 0, 30, tzinfo=UTC)
NOT_HERE = "policy limits allows no exceptions in this namespace"
ALLOWS = "exceptions: {allowedNamespaces: {matchLabels: {kubernetes.io/metadata.name: default}}, maxDuration: 7d}"
TEAM = Namespace("default", {"team": "a"})


def limits(name: str = "limits", allowed: JSON | None = None, most: str = "1h", **rules: Any) -> JobSetPolicy:
    """A policy that allows exceptions, by default everywhere and for an hour."""
    body = manifest(name, **(rules or {"maxJobs": {"max": 1}}))
    body["spec"]["exceptions"] = {"allowedNamespaces": allowed or {}, "maxDuration": most}
    return read_policy(body)


def names(*exceptions: JSON, metadata: JSON | None = None, policy: JobSetPolicy | None = None) -> dict[Any, str]:
    """The rules that do not count, each with its exception."""
    js, each = judged(metadata=metadata or {}), [read_exception(obj) for obj in exceptions]
    return dict(excused_rules(each, [policy or limits()], js, TEAM, NOW))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("30s", timedelta(seconds=30)), ("5m", timedelta(minutes=5)), ("12h", timedelta(hours=12)),
        ("30d", timedelta(days=30)), ("", timedelta()), ("h", timedelta()), ("5", timedelta()), ("-5h", timedelta()),
    ],
)  # fmt: skip
def test_durations(text: str, found: timedelta):
    assert duration_of(text) == found


@pytest.mark.parametrize("text", ["", "2030", "2030-01-01T00:00:00", "2030-13-01T00:00:00Z", "soon"])
def test_a_time_needs_a_time_zone(text: str):
    assert time_of(text) is None


@pytest.mark.parametrize(
    ("spec", "created", "why_not"),
    [
        ({}, "2030-01-01T00:00:00Z", ""),
        ({}, None, ""),
        ({}, "2029-12-31T23:30:00Z", "it ended at 2030-01-01T00:30:00Z"),
        ({"expiresAt": "2030-01-01T00:30:01Z"}, "2030-01-01T00:00:00Z", ""),
        ({"expiresAt": "2030-01-01T01:30:00+01:00"}, "2030-01-01T00:00:00Z", "it ended at 2030-01-01T01:30:00+01:00"),
        ({"expiresAt": "2030-02-30T00:00:00Z"}, None, "expiresAt is not a time with a time zone"),
    ],
)
def test_it_ends_when_it_says_and_no_later_than_the_policy_allows(spec: JSON, created: str | None, why_not: str):
    obj = exception(**spec)
    obj["metadata"]["creationTimestamp"] = created
    assert standing(read_exception(obj), limits(), TEAM, NOW).why_not == why_not


def test_it_counts_only_if_the_policy_allows_it_in_this_namespace():
    ours = read_exception(exception())
    assert standing(ours, None, TEAM, NOW).why_not == "there is no policy limits"
    absent = standing(read_exception(exception(rules=["ttl", "maxRestarts"])), limits(), TEAM, NOW)
    assert (absent.why_not, absent.reason) == ("policy limits has no rule ttl or maxRestarts", "NoRule")
    some = standing(read_exception(exception(rules=["ttl", "maxJobs"])), limits(), TEAM, NOW)
    assert (some.why_not, some.missing_rules) == ("", ("ttl",))
    silent = read_policy(manifest(maxJobs={"max": 1}))
    assert standing(ours, silent, TEAM, NOW).why_not == "policy limits allows no exceptions"
    for labels, why_not in (
        ({"team": "a"}, ""),
        (
            {"team": "b"},
            f"{NOT_HERE}: exceptions.allowedNamespaces wants team=b, and namespace default has team=a",
        ),
    ):
        assert standing(ours, limits(allowed={"matchLabels": labels}), TEAM, NOW).why_not == why_not


def test_it_counts_for_the_jobsets_and_rules_that_it_names():
    assert names(exception()) == {("limits", "maxJobs"): "big-run"}
    assert names(exception(policy="other")) == {}
    assert names(exception(match={"names": ["train"]})) == {("limits", "maxJobs"): "big-run"}
    assert names(exception(match={"names": ["other"]})) == {}
    selected = exception(match={"objectSelector": {"matchLabels": {"run": "1"}}})
    assert names(selected) == {}
    assert names(selected, metadata={"labels": {"run": "1"}}) == {("limits", "maxJobs"): "big-run"}


def faults(policies: dict[str, JobSetPolicy] | None = None, **spec: Any) -> list[tuple[str, str, bool]]:
    """What is said about an exception that is created now: place, text, whether it is a warning."""
    obj = exception(**{"expiresAt": "2030-01-01T01:00:00Z", **spec})
    del obj["metadata"]["creationTimestamp"]
    known = {"limits": limits()} if policies is None else policies
    found = exception_faults(read_exception(obj), known, TEAM, NOW)
    return [(str(error.path), error.body, error.is_warning) for error in found]


def test_a_good_one_has_no_faults():
    assert faults() == []


@pytest.mark.parametrize(
    ("policies", "spec", "place", "text", "warning"),
    [
        (None, {"rules": []}, "spec.rules", "Required value: name the rules that are not to count", False),
        (None, {"match": {"names": []}}, "spec.match.names", "an empty list", False),
        (None, {"expiresAt": "2030-02-30T00:00:00Z"}, "spec.expiresAt", "no such time", False),
        (None, {"expiresAt": "2030-01-01T00:30:00Z"}, "spec.expiresAt", "the time is over", False),
        (
            None,
            {"expiresAt": "2030-01-01T02:00:00Z"},
            "spec.expiresAt",
            "policy limits allows at most 1h; write 2030-01-01T01:30:00Z or an earlier time",
            False,
        ),
        (None, {"policy": "limit"}, "spec.policy", 'did you mean "limits"?', True),
        (None, {"rules": ["maxJobs", "ttl"]}, "spec.rules[1]", "policy limits has no rule ttl", True),
        (
            {"limits": limits(allowed={"matchLabels": {"team": "b"}})},
            {},
            "spec.policy",
            f"and namespace default has team=a; ask the owner of the policy to allow it in its spec, such as by {ALLOWS}",
            False,
        ),
        (
            {"limits": read_policy(manifest(maxJobs={"max": 1}))},
            {},
            "spec.policy",
            "policy limits allows no exceptions; ask",
            False,
        ),
    ],
)
def test_faults(policies: Any, spec: JSON, place: str, text: str, warning: bool):
    ((found_at, said, is_warning),) = faults(policies, **spec)
    assert (found_at, is_warning) == (place, warning)
    assert text in said
