"""A policy that is wrong is explained, all faults at once, with the likely intended word."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine import policy_schema
from authoring.policies import policy_faults
from policy.faults import cautions
from tests.support.objects.policies import manifest


def said(obj: dict[str, Any]) -> list[str]:
    return [str(error) for error in policy_faults(obj)[0]]


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ({}, "spec.rules: Required value: add a rule"),
        ({"maxTotal": {}}, 'spec.rules.maxTotal: unknown field "maxTotal"; did you mean "maxTotals"?'),
        ({"maxTotals": {}}, "spec.rules.maxTotals: Required value: write pods, resources or resourceClaims"),
        (
            {"maxJobs": {}},
            "spec.rules.maxJobs: Required value: write max, fromNamespaceLabel or fromNamespaceAnnotation",
        ),
        ({"ttl": {}}, "spec.rules.ttl: Required value: write max"),
        (
            {"maxJobs": {"max": "8 Jobs"}},
            'spec.rules.maxJobs.max: Invalid value: "8 Jobs": is not a whole number; write a whole number such as 8',
        ),
        ({"maxRestarts": {"max": "1.5"}}, "is not a whole number; write a whole number such as 8"),
        ({"maxReplicatedJobs": {"max": "1Gi"}}, "is not a whole number; write a whole number such as 8"),
        ({"maxRestarts": {"max": 1.5}}, "is a number; write a whole number such as 8"),
        ({"backoffLimit": {"max": -1}}, "a limit is not negative; write a whole number such as 8"),
        ({"ttl": {"max": "1.5"}}, "is not a number of seconds; write 3600 for 1h"),
        ({"ttl": {"max": "7w"}}, "spec.rules.ttl.max: Invalid value"),
        ({"maxJobs": {"max": "7d"}}, "is not a whole number; write a whole number such as 8"),
        ({"maxJobs": {"max": -1}}, "spec.rules.maxJobs.max: Invalid value: -1: a limit is not negative"),
        (
            {"maxTotals": {"resources": [{"name": "cpu", "max": "1e1.5"}]}},
            'spec.rules.maxTotals.resources[0].max: Invalid value: "1e1.5": "1e1.5" is not an amount; write an amount',
        ),
        ({"maxTotals": {"resources": [{"name": "cpu", "max": "-1"}]}}, "a limit is not negative; write an amount"),
        ({"maxJobs": {"fromNamespaceLabel": "a b"}}, 'spec.rules.maxJobs.fromNamespaceLabel: Invalid value: "a b"'),
        ({"imageRegistries": {"allowed": []}}, "spec.rules.imageRegistries.allowed: Required value: an empty list"),
        ({"imageRegistries": {}}, "spec.rules.imageRegistries.allowed: Required value"),
        ({"imageRegistries": {"allowed": ["https://a.b"]}}, "has no scheme"),
        ({"imageRegistries": {"allowed": ["a.b/c:1"]}}, "has no tag"),
        ({"imageRegistries": {"allowed": ["a.b/c@sha256:1"]}}, "has no digest"),
        ({"imageRegistries": {"allowed": ["/"]}}, "is not empty"),
        (
            {"imageRegistries": {"allowed": ["docker.io/library/*"]}},
            'write "docker.io/library": it allows what is below',
        ),
        (
            {"imageRegistries": {"allowed": ["*"]}},
            "no wildcards: it is compared as it is; leave the rule out to allow all",
        ),
        ({"imageRegistries": {"allowed": ["*.a.b/c:*"]}}, "name each registry"),
        (
            {"requiredQueue": {"allowed": ["*"]}},
            'spec.rules.requiredQueue.allowed[0]: Invalid value: "*": no wildcards',
        ),
        ({"priorityClasses": {"allowed": ["low-*"]}}, "name each that is meant"),
        ({"nodeSelectors": {"allowed": [{"key": "a", "values": ["*"]}]}}, "leave values out to allow all"),
        ({"managedBy": {"allowed": ["jobset"]}}, "no JobSet can have it in managedBy: must be a domain-prefixed path"),
        ({"managedBy": {"allowed": ["A.b/c"]}}, "no JobSet can have it in managedBy: a lowercase RFC 1123 subdomain"),
        ({"managedBy": {"allowed": ["a.b/c d"]}}, "no JobSet can have it in managedBy: Invalid path"),
        ({"managedBy": {"allowed": [f"a.b/{'c' * 60}"]}}, "may not be more than 63 bytes"),
        ({"managedBy": {"allowed": ["a.b/*"]}}, "no wildcards"),
        ({"forbid": []}, "spec.rules.forbid: Required value: an empty list"),
        ({"forbid": ["hostpath"]}, 'did you mean "hostPath"?'),
        ({"requiredLabels": [{"key": "a", "pattern": "a("}]}, "not an RE2 pattern: missing ): a("),
        ({"requiredLabels": [{"key": "", "pattern": "a"}]}, "spec.rules.requiredLabels[0].key: Invalid value"),
        ({"requiredLabels": [{"key": "a"}, {"key": "a"}]}, "spec.rules.requiredLabels[1].key: Duplicate value"),
        ({"requiredQueue": {"labels": []}}, "spec.rules.requiredQueue.labels: Required value: an empty list"),
        ({"requiredQueue": {"labels": ["a b"]}}, 'spec.rules.requiredQueue.labels[0]: Invalid value: "a b"'),
        ({"requiredRequests": {"resources": [str(i) for i in range(65)]}}, "must have at most 64 items"),
        ({"networkDNS": "On"}, "spec.rules.networkDNS: Unsupported value"),
        ({"requiredAnnotations": [{"key": "a", "pattern": "a" * 513}]}, "may not be more than 512 characters"),
    ],
)
def test_rules(rules: dict[str, Any], found: str):
    (text,) = said(manifest(**rules))
    assert found in text


@pytest.mark.parametrize(
    "rules",
    [
        {"maxJobs": {"max": 0}}, {"maxJobs": {"fromNamespaceAnnotation": "a/b"}}, {"ttl": {"required": True}}, {"ttl": {"max": "7d"}},
        {"maxRestarts": {"forbidUnlimitedActions": True}}, {"backoffLimit": {"zeroWithRestarts": True}},
        {"imageRegistries": {"allowed": ["reg:5000", "reg:5000/team/"]}}, {"exclusiveTopologies": {"required": True}},
        {"requiredQueue": {}}, {"imagesByDigest": True}, {"managedBy": {"allowed": ["acme.io/foo"]}},
    ],
)  # fmt: skip
def test_good_rules(rules: dict[str, Any]):
    assert said(manifest(**rules)) == []


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        (
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            "matchExpressions[0].values: Required value: In compares",
        ),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}, "Exists compares with no value"),
        ({"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}, 'did you mean "In"?'),
        ({"matchLabels": {"a b": "c"}}, "matchLabels.a b: Invalid value"),
        ({"matchLabels": {"team": "ml-*"}}, 'matchLabels.team: Invalid value: "ml-*": no wildcards'),
        (
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "b?"]}]},
            'values[1]: Invalid value: "b?": no wildcards',
        ),
        ({"matchLabels": {f"k{i}": "" for i in range(65)}}, "must have at most 64 labels"),
    ],
)
def test_selectors(selector: dict[str, Any], found: str):
    (text,) = said(manifest(match={"namespaceSelector": selector}, maxJobs={"max": 1}))
    assert found in text


def test_a_policy_without_the_own_controller_is_warned_about():
    def cautioned(*allowed: str) -> list[str]:
        policy = policy_faults(manifest(managedBy={"allowed": list(allowed)}))[1]
        assert policy is not None
        return [str(error) for error in cautions(policy)]

    (found,) = cautioned("acme.io/foo")
    assert found.startswith(
        "spec.rules.managedBy.allowed: Invalid value: JobSets without managedBy break the rule: they are managed by "
        "jobset.sigs.k8s.io/jobset-controller; add that to the list"
    )
    assert cautioned("acme.io/foo", "jobset.sigs.k8s.io/jobset-controller") == []


NO_RESOURCE = "no container can ask for a resource of this name"


@pytest.mark.parametrize(
    ("rules", "path", "said"),
    [
        (
            {"maxTotals": {"resources": [{"name": "cpu", "max": 1}, {"name": "gpu", "max": 1}]}},
            "spec.rules.maxTotals.resources[1].name",
            f'"gpu": {NO_RESOURCE}; write it with its domain, such as nvidia.com/gpu',
        ),
        (
            {"requiredRequests": {"resources": ["Memory"]}},
            "spec.rules.requiredRequests.resources[0]",
            f'"Memory": {NO_RESOURCE}; did you mean "memory"?',
        ),
        (
            {"requiredLimits": {"resources": ["nvidia.com/gpu", "hugepages-2Mi", "ephemeral-storage", "cpus"]}},
            "spec.rules.requiredLimits.resources[3]",
            f'"cpus": {NO_RESOURCE}; did you mean "cpu"?',
        ),
        (
            {"priorityClasses": {"allowed": ["Low", "high"]}},
            "spec.rules.priorityClasses.allowed[0]",
            '"Low": no PriorityClass can have this name: a lowercase RFC 1123 subdomain',
        ),
    ],
)
def test_names_that_nothing_can_have_are_warned_about(rules: dict[str, Any], path: str, said: str):
    policy = policy_faults(manifest(**rules))[1]
    assert policy is not None
    (text,) = map(str, cautions(policy))
    assert text.startswith(f"{path}: Invalid value: {said}")


def test_actions():
    (text,) = said(manifest(actions=("Deny", "Warn"), maxJobs={"max": 1}))
    assert text.startswith("spec.validationActions: Invalid value: Deny and Warn exclude each other")
    (text,) = said(manifest(actions=(), maxJobs={"max": 1}))
    assert text.startswith("spec.validationActions: Required value")
    assert said(manifest(actions=("Deny", "Audit"), maxJobs={"max": 1})) == []


def test_type_and_name():
    obj = {**manifest(maxJobs={"max": 1}), "apiVersion": "v1", "metadata": {"name": "A B"}}
    assert [text.split(":")[0] for text in said(obj)] == ["apiVersion", "metadata.name"]
    assert len(said({"kind": "JobSetPolicy"})) > 2


def test_all_faults_stand_in_one_answer_and_consequences_are_left_out():
    rules = {"maxTotal": {}, "maxTotals": {"pods": {"max": "x y"}}, "imageRegistries": {"allowed": []}, "ttl": 3}
    places = {text.split(": ")[0].removeprefix("spec.") for text in said(manifest(actions=("Deny", "Warn"), **rules))}
    assert places == {
        "validationActions", "rules.maxTotal", "rules.maxTotals.pods.max", "rules.imageRegistries.allowed", "rules.ttl",
    }  # fmt: skip


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["max", "allowed", "key", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES, DEFAULTS = (
    sorted(policy_schema()._schema["properties"]["spec"]["properties"][field]["properties"])
    for field in ("rules", "defaults")
)


@pytest.mark.no_cover
@settings(max_examples=100)
@given(
    rules=st.dictionaries(st.sampled_from([*NAMES, "other"]), JSON_VALUES, max_size=4) | JSON_VALUES,
    match=JSON_VALUES,
    labels=JSON_VALUES,
    defaults=st.dictionaries(st.sampled_from(DEFAULTS), JSON_VALUES, max_size=4) | JSON_VALUES,
)
def test_any_policy_is_good_or_explained(rules: Any, match: Any, labels: Any, defaults: Any):
    obj = manifest()
    obj["spec"] |= {"rules": rules, "match": match, "defaults": defaults}
    obj["metadata"] |= {"labels": labels}
    found, policy = policy_faults(obj)
    assert (policy is None) is bool(found)
