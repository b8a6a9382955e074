"""What `jobset policy` says about policies and exceptions that do not count, and how to correct what keeps them from it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.keys import NAMESPACE_NAME
from cli.policy import export
from tests.cli.test_policy_commands import GATES, LARGE, SMALL, suite
from tests.support.objects.policies import exception, manifest


class TestNoMatch:
    """No policy is about a JobSet: that is said, for nothing was checked."""

    @pytest.mark.parametrize(
        ("match", "why", "remedy"),
        [
            (
                {"namespaceSelector": {"matchLabels": {"x.com/tenant": "true"}}},
                "namespaceSelector wants x.com/tenant=true, and namespace default has no such label",
                "pass --namespace-label x.com/tenant=true if its namespace has that label",
            ),
            (
                {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: "team-a"}}},
                f"namespaceSelector wants {NAMESPACE_NAME}=team-a, and namespace default has {NAMESPACE_NAME}=default",
                "write `namespace: team-a` into its metadata, or -n team-a",
            ),
            (
                {"objectSelector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]}},
                "objectSelector wants tier in (a,b), and the JobSet has no such label",
                "change the labels of the JobSet",
            ),
        ],
    )
    def test_the_selector_is_named(self, match: Any, why: str, remedy: str, tool):
        code, out, _ = tool.eval(SMALL, manifest(match=match, maxJobs={"max": 0}))
        assert code == 0
        said = "note: metadata.name: no policy matches JobSet default/small, so no rule of 1 policy was checked: "
        assert f"{said}policy limits: {why}; {remedy}, or correct the selectors\n" in out
        assert out.endswith("0 errors, 0 warnings, 1 note\n")

    def test_one_that_matches_is_enough(self, tool):
        other = manifest("other", match={"objectSelector": {"matchLabels": {"a": "b"}}}, maxJobs={"max": 0})
        said = "1 file, 1 JobSet, 2 policies, 0 errors, 0 warnings\n"
        assert tool.eval(SMALL, other, manifest(maxJobs={"max": 9})) == (0, said, "")

    def test_the_rest_of_many_is_counted(self, tool):
        match = {"objectSelector": {"matchLabels": {"a": "b"}}}
        policies = [manifest(f"p{i}", match=match, maxJobs={"max": 0}) for i in range(5)]
        _, out, _ = tool.eval(SMALL, *policies)
        assert [f"policy p{i}: " in out for i in range(5)] == [True, True, True, False, False]
        assert "so no rule of 5 policies was checked: " in out


AT = ("--at", "2030-01-01T12:00:00Z")


def allowing(allowed: Any = None, **rules: Any) -> dict[str, Any]:
    """A policy that allows exceptions of a day, by default everywhere."""
    found = manifest(**(rules or {"maxJobs": {"max": 4}}))
    found["spec"]["exceptions"] = {"allowedNamespaces": allowed or {}, "maxDuration": "1d"}
    return found


ENDS: dict[str, Any] = {"expiresAt": "2030-01-01T20:00:00Z"}
NO_SUCH = "policy: exception default/big-run: there is no such policy, so nothing is excepted; did you mean"
NOT_COUNTING = {
    "the policy allows none": (
        manifest(maxJobs={"max": 4}),
        exception(**ENDS),
        "policy: exception default/big-run: policy limits allows no exceptions; ask the owner of the policy",
    ),
    "expired": (
        allowing(),
        exception(expiresAt="2020-01-01T00:00:00Z"),
        "expiresAt: exception default/big-run: the time is over; write a later time",
    ),
    "no such policy": (allowing(), exception(policy="limit", **ENDS), f'{NO_SUCH} "limits"?'),
    "no such rule": (
        allowing(),
        exception(rules=["maxJobs", "ttl"], **ENDS),
        "rules[1]: exception default/big-run: policy limits has no rule ttl, so nothing is excepted from it; its rules are:",
    ),
    "too long": (
        allowing(),
        exception(),
        "expiresAt: exception default/big-run: policy limits allows at most 1d; write 2030-01-02T00:00:00Z or an",
    ),
}
not_counting = pytest.mark.parametrize(("policy", "granted", "said"), NOT_COUNTING.values(), ids=NOT_COUNTING)


class TestExceptionsInEval:
    """Exceptions that do not count are named with the reason and the remedy."""

    def decide(self, tool, *policies: Any, flags: tuple[str, ...] = AT, jobset: Any = LARGE) -> str:
        return tool.eval(jobset, *policies, flags=flags)[1]

    @not_counting
    def test_it_says_why(self, policy: Any, granted: Any, said: str, tool):
        out = self.decide(tool, policy, granted)
        assert f": warning: spec.{said}" in out
        assert "p.yaml:" in out

    def test_the_rules_that_the_policy_has_are_named(self, tool):
        out = self.decide(tool, allowing(maxJobs={"max": 4}, maxRestarts={"max": 1}), exception(rules=["ttl"]))
        assert 'its rules are: "maxJobs", "maxRestarts"\n' in out

    def test_the_labels_of_the_namespace_can_be_passed(self, tool):
        policy, granted = allowing({"matchLabels": {"x.com/tenant": "true"}}), exception(**ENDS)
        out = self.decide(tool, policy, granted)
        assert (
            "warning: spec.policy: exception default/big-run: policy limits allows no exceptions in this namespace:"
            " exceptions.allowedNamespaces wants x.com/tenant=true, and namespace default has no such label;"
            " pass --namespace-label x.com/tenant=true if its namespace has that label, or ask the owner of the policy"
            " to allow it in its spec, such as by exceptions: {allowedNamespaces: {matchLabels:"
            " {kubernetes.io/metadata.name: default}}, maxDuration: 7d}\n"
        ) in out
        out = self.decide(tool, policy, granted, flags=(*AT, "--namespace-label", "x.com/tenant=true"))
        assert out == "1 file, 1 JobSet, 1 policy, 0 errors, 0 warnings\n"

    def test_one_that_the_policy_has_ended_needs_another(self, tool):
        out = self.decide(tool, allowing(), exception(), flags=("--at", "2030-02-01T00:00:00Z"))
        assert "it ended at 2030-01-02T00:00:00Z: policy limits allows at most 1d; create another exception\n" in out

    def test_one_that_names_no_namespace_is_of_default(self, tool):
        lost, jobset = exception(**ENDS), {**LARGE, "metadata": {"name": "large", "namespace": "team-a"}}
        del lost["metadata"]["namespace"]
        assert "warning: " not in self.decide(tool, allowing(), lost)
        out = self.decide(tool, allowing(), lost, jobset=jobset)
        assert "exception big-run is taken for one of namespace default, and no JobSet here is in it; " in out
        assert "write `namespace: team-a` into its metadata\n" in out


@not_counting
def test_export_says_it_on_standard_error(policy: Any, granted: Any, said: str, tool):
    until = min(granted["spec"]["expiresAt"].replace("203", "209"), "2099-01-01T00:00:00Z")
    granted = {**granted, "metadata": {"name": "big-run", "namespace": "default"}}
    granted["spec"] = {**granted["spec"], "expiresAt": until}
    code, _, err = tool.export(policy, granted)
    assert (code, f": warning: spec.{said.partition('; write')[0]}" in err) == (0, True)


def test_export_says_which_exceptions_are_too_many(tool, monkeypatch: Any):
    monkeypatch.setattr(export, "MAX_EXCEPTIONS", 1)
    end = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="seconds")
    granted = [exception(f"run-{i}", expiresAt=end) for i in range(2)]
    for each in granted:
        del each["metadata"]["creationTimestamp"]
    _, _, err = tool.export(allowing(), *granted)
    assert "limits: exception default/run-0 counts for new JobSets until" in err
    assert "limits: exception default/run-1 does not count in the API server: at most 1 from one policy do\n" in err


@pytest.mark.parametrize(("hours", "counts"), [(23, True), (25, False)])
def test_export_leaves_out_what_would_last_too_long(hours: int, counts: bool, tool):
    granted = exception(expiresAt=(datetime.now(UTC) + timedelta(hours=hours)).isoformat(timespec="seconds"))
    del granted["metadata"]["creationTimestamp"]
    code, _, err = tool.export(allowing(), granted)
    assert (code, "big-run counts for new JobSets until 20" in err) == (0, counts)
    assert ("limits: exception default/big-run does not count: it lasts too long\n" in err) is not counts
    assert ("policy limits allows at most 1d; write 20" in err) is not counts


TIME = '"2030-01-31T12:00:00Z"'
REASON = '"final run before the deadline, agreed with the platform team"'


@pytest.mark.parametrize(
    ("field", "value", "example"),
    [
        ("reason", "", REASON),
        ("reason", None, REASON),
        ("reason", "x" * 1025, REASON),
        ("expiresAt", "tomorrow", TIME),
        ("expiresAt", None, TIME),
        ("expiresAt", 5, TIME),
        ("expiresAt", "2030-01-31 at noon, central time", TIME),
        ("maxDuration", "week", '"7d"'),
        ("maxDuration", None, '"7d"'),
        ("maxDuration", 7, '"7d"'),
        ("maxDuration", "one week", '"7d"'),
    ],
)
def test_faults_of_texts_have_an_example(field: str, value: Any, example: str, tool):
    policy, granted = allowing(), exception()
    (policy["spec"]["exceptions"] if field == "maxDuration" else granted["spec"])[field] = value
    code, out, _ = tool.eval(LARGE, policy, granted)
    (said,) = [line for line in out.splitlines() if f"error: spec.{field}" in line or f"exceptions.{field}: " in line]
    assert (code, said.endswith(f", as in {example}")) == (1, True)


def test_gates_that_a_jobset_needs_are_named_with_the_flag(tool):
    timed = {**SMALL, "spec": {**SMALL["spec"], "activeDeadlineSeconds": 60}}
    policy = manifest(maxJobs={"max": 1})
    code, out, _ = tool.test(suite({"name": "a", "jobset": "small"}), timed, policy)
    assert (code, "faults of its own" in out) == (1, False)
    assert f"off in this run; run `jobset policy test {GATES}` if the manager has them on; " in out
    assert "for spec.activeDeadlineSeconds\n" in out
    assert tool("test", GATES, "s.yaml")[0] == 0
