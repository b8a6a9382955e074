"""Which defaults of policies a new JobSet gets, and what the author of a policy is told about conflicts."""

from typing import Any

import pytest

from api.features import FeatureGates
from authoring.policies import policy_faults
from policy import defaults as defaults_module
from policy.conflicts import conflicts
from policy.defaults import defaults_for
from policy.judged import Namespace
from policy.types import JobSetPolicy, read_policy
from tests.support.objects.jobsets import jobset
from tests.support.objects.policies import manifest, policy, setting

JSON = dict[str, Any]
TEAM = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
GATES = FeatureGates({"JobSetActiveDeadlineSeconds": True})
EVERYTHING: JSON = {
    "labels": {"kueue.x-k8s.io/queue-name": "research"},
    "ttlSecondsAfterFinished": 3600,
    "activeDeadlineSeconds": 86400,
    "priorityClassName": "low",
    "nodeSelector": {"pool": "training"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
}
NAMES = [
    "labels[kueue.x-k8s.io/queue-name]",
    "ttlSecondsAfterFinished",
    "activeDeadlineSeconds",
    "priorityClassName",
    "nodeSelector[pool]",
    "tolerations[gpu]",
]


def sets(name: str = "tenants", match: JSON | None = None, **defaults: Any) -> JobSetPolicy:
    return read_policy(setting(name, match, **defaults))


def got(*policies: JobSetPolicy, labels: JSON | None = None, namespace: JSON | None = None) -> list[tuple[str, str]]:
    """The defaults that a JobSet gets, with their policies."""
    obj = jobset()
    obj["metadata"]["labels"] = labels
    found = defaults_for(policies, obj, Namespace("n", namespace or {}), GATES)
    return [(each.metadata.name, default.name) for each, default in found]


def test_a_deadline_needs_its_gate():
    found = defaults_for([sets(**EVERYTHING)], jobset(), Namespace(), FeatureGates())
    assert [default.name for _, default in found] == [name for name in NAMES if name != "activeDeadlineSeconds"]


REFUSING: list[tuple[str, JSON]] = [
    (NAMES[0], {"requiredQueue": {"allowed": ["other"]}}),
    (NAMES[0], {"requiredLabels": [{"key": "kueue.x-k8s.io/queue-name", "pattern": "[0-9]+"}]}),
    (NAMES[1], {"ttl": {"max": 3599}}),
    (NAMES[2], {"activeDeadline": {"max": 1}}),
    (NAMES[3], {"priorityClasses": {"allowed": ["high"]}}),
    (NAMES[4], {"nodeSelectors": {"allowed": [{"key": "pool", "values": ["serving"]}]}}),
    (NAMES[5], {"tolerations": {"allowed": [{"key": "tpu"}]}}),
]


@pytest.mark.parametrize(("name", "rules"), REFUSING)
class TestARuleThatRefusesADefault:
    def test_keeps_it_from_being_set_where_both_match(self, name: str, rules: JSON):
        rest = [each for each in NAMES if each != name]
        demands = policy("demands", **rules)
        assert [default for _, default in got(sets(**EVERYTHING), demands)] == rest
        elsewhere = policy("demands", match=TEAM, **rules)
        assert [default for _, default in got(sets(**EVERYTHING), elsewhere)] == NAMES

    def test_is_said_at_either_policy(self, name: str, rules: JSON):
        both = ours, theirs = sets(**EVERYTHING), policy("demands", **rules)
        (field,) = rules
        (found,) = conflicts(ours, both, GATES)
        assert found.is_warning
        assert found.detail == f"rule {field} of policy demands refuses it"
        assert str(found.path).startswith(f"spec.defaults.{name.partition('[')[0]}")
        (found,) = conflicts(theirs, both, GATES)
        assert (str(found.path), found.detail) == (
            f"spec.rules.{field}",
            f"refuses the default {name} of policy tenants",
        )

    def test_is_a_fault_within_one_policy(self, name: str, rules: JSON):
        ((field, _),) = rules.items()
        (found,) = policy_faults(setting(rules=rules, **EVERYTHING))[0]
        assert found.detail == f"rule {field} of this policy refuses it"
        assert str(found.path).startswith(f"spec.defaults.{name.partition('[')[0]}")


def test_a_limit_of_the_namespace_counts():
    limited = policy("demands", ttl={"max": 10, "fromNamespaceLabel": "ttl"})
    ours = sets(ttlSecondsAfterFinished=20)
    assert got(ours, limited) == []
    assert len(got(ours, limited, namespace={"ttl": "20"})) == 1


def test_two_values_are_a_conflict_unless_only_one_policy_can_match():
    ours, theirs = sets("b", ttlSecondsAfterFinished=1), sets("a", ttlSecondsAfterFinished=2, priorityClassName="low")
    (found,) = conflicts(ours, [theirs], GATES)
    assert str(found.path) == "spec.defaults.ttlSecondsAfterFinished"
    assert "that of a is set: its name comes first" in found.fix
    assert conflicts(ours, [sets("a", ttlSecondsAfterFinished=1)], GATES) == []
    apart = [sets(name, {"namespaceSelector": {"matchLabels": {"t": name}}}, ttlSecondsAfterFinished=i) for i, name in
             enumerate("ab")]  # fmt: skip
    assert conflicts(apart[0], apart, GATES) == []


def test_a_deadline_without_its_gate_is_said_at_the_policy():
    (found,) = conflicts(sets(**EVERYTHING), [], FeatureGates())
    assert str(found.path) == "spec.defaults.activeDeadlineSeconds"


def test_policies_with_the_same_defaults_are_not_tried_on_each_other(monkeypatch: pytest.MonkeyPatch):
    """The work grows with the number of policies, and not with its square."""
    tried: list[Any] = []
    real = defaults_module._sample
    monkeypatch.setattr(defaults_module, "_sample", lambda own: tried.append(own) or real(own))
    many = [sets(f"policy-{number:02}", ttlSecondsAfterFinished=60) for number in range(20)]
    assert [each.metadata.name for each, _ in defaults_for(many, jobset(), Namespace(), GATES)] == ["policy-00"]
    assert len(tried) == 1


def test_an_exception_keeps_no_other_policy_from_being_looked_at(monkeypatch: pytest.MonkeyPatch):
    real = defaults_module.each_default

    def each(own: Any) -> Any:
        if own.ttl_seconds_after_finished == 1:
            raise KeyError
        return real(own)

    monkeypatch.setattr(defaults_module, "each_default", each)
    both, heard = [sets("a", ttlSecondsAfterFinished=1), sets("b", ttlSecondsAfterFinished=2)], []
    found = defaults_for(both, jobset(), Namespace(), GATES, on_failure=lambda *failure: heard.append(failure))
    assert [each.metadata.name for each, _ in found] == ["b"]
    ((failed, error),) = heard
    assert (failed.metadata.name, type(error)) == ("a", KeyError)
    with pytest.raises(KeyError):
        defaults_for(both, jobset(), Namespace(), GATES)


@pytest.mark.parametrize(
    ("defaults", "found"),
    [
        ({}, "spec.defaults: Required value: add a default"),
        ({"labels": {"a b": "c"}}, "spec.defaults.labels.a b: Invalid value"),
        ({"labels": {"a": "b c"}}, 'spec.defaults.labels.a: Invalid value: "b c"'),
        ({"labels": {f"k{i}": "" for i in range(65)}}, "spec.defaults.labels: Too many: 65: must have at most 64"),
        ({"nodeSelector": {"a": "/"}}, "spec.defaults.nodeSelector.a: Invalid value"),
        ({"ttlSecondsAfterFinished": -1}, "spec.defaults.ttlSecondsAfterFinished: Invalid value: -1"),
        ({"activeDeadlineSeconds": 0}, "spec.defaults.activeDeadlineSeconds: Invalid value: 0"),
        ({"priorityClassName": "Low"}, 'spec.defaults.priorityClassName: Invalid value: "Low"'),
        ({"tolerations": [{"key": ""}]}, "spec.defaults.tolerations[0].key: Invalid value"),
        ({"tolerations": [{"key": "a", "value": "b c"}]}, "spec.defaults.tolerations[0].value: Invalid value"),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            "spec.defaults.tolerations[0].value: Forbidden: Exists compares with no value",
        ),
        ({"tolerations": [{"key": "a"}, {"key": "a"}]}, "spec.defaults.tolerations[1].key: Duplicate value"),
        ({"ttl": 5}, 'spec.defaults.ttl: unknown field "ttl"'),
    ],
)
def test_faults(defaults: JSON, found: str):
    (text,) = [str(error) for error in policy_faults(setting(**defaults))[0]]
    assert found in text


def test_a_policy_may_do_nothing_but_set_defaults():
    assert policy_faults(setting(**EVERYTHING))[0] == []
    assert policy_faults(setting(rules=manifest(ttl={"max": 3600})["spec"]["rules"], **EVERYTHING))[0] == []
