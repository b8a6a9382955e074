"""What `Schema` says of wrong JobSets. tests/integration/test_schema_agreement.py asks a real API server, too."""

import copy
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.model.field import ErrorType, Layer
from tests.support.corpus.mutations import SCHEMA, dig, mutated, nodes, training
from tests.support.objects.jobsets import jobset, rjob
from webhooks.jobset.schema.schema import Schema
from webhooks.jobset.schema.walk import MAX_FAULTS, Walk
from webhooks.jobset.schema.words import type_name

JUDGE = Schema(SCHEMA)
JOB = "spec.replicatedJobs[0].template.spec"
MAIN = f"{JOB}.template.spec.containers[0]"
TYPE_INVALID, INVALID, REQUIRED = ErrorType.TYPE_INVALID, ErrorType.INVALID, ErrorType.REQUIRED
NOT_SUPPORTED, TOO_MANY, DUPLICATE = ErrorType.NOT_SUPPORTED, ErrorType.TOO_MANY, ErrorType.DUPLICATE
STAYS = {NOT_SUPPORTED, DUPLICATE}
QUANTITY = 'is not a quantity; write a number with an optional unit, such as "500m", "2", "1.5Gi" or "100M"'


def one_container(**fields):
    return jobset(rjob(pod={"containers": [{"name": "main", "image": "i", **fields}]}))


def limits(value):
    return one_container(resources={"limits": {"memory": value}})


# JobSet, place, kind, the text without the place
FAULTS = {
    "integer-in-quotes": (jobset(rjob(replicas="3")), "spec.replicatedJobs[0].replicas", TYPE_INVALID,
        'Invalid value: "3": must be of type integer, is a string; write 3 without quotes'),
    "integer-in-words": (jobset(rjob(replicas="three")), "spec.replicatedJobs[0].replicas", TYPE_INVALID,
        'Invalid value: "three": must be of type integer, is a string; write a whole number'),
    "integer-with-a-fraction": (jobset(rjob(replicas=1.5)), "spec.replicatedJobs[0].replicas", TYPE_INVALID,
        "Invalid value: 1.5: must be of type integer, is a number; write a whole number"),
    "boolean-in-quotes": (jobset(suspend="true"), "spec.suspend", TYPE_INVALID,
        'Invalid value: "true": must be of type boolean, is a string; write true without quotes'),
    "boolean-of-yaml-1.1": (jobset(suspend="no"), "spec.suspend", TYPE_INVALID,
        'Invalid value: "no": must be of type boolean, is a string; write false'),
    "boolean-as-a-number": (jobset(suspend=1), "spec.suspend", TYPE_INVALID,
        "Invalid value: 1: must be of type boolean, is an integer; write true"),
    "boolean-as-anything": (jobset(suspend="maybe"), "spec.suspend", TYPE_INVALID,
        'Invalid value: "maybe": must be of type boolean, is a string; write true or false, without quotes'),
    "text-without-quotes": (one_container(env=[{"name": "A", "value": 1}]), f"{MAIN}.env[0].value", TYPE_INVALID,
        'Invalid value: 1: must be of type string, is an integer; write it in quotes, as it stands in your file (it was read as "1")'),
    "true-for-a-text": (one_container(env=[{"name": "A", "value": True}]), f"{MAIN}.env[0].value", TYPE_INVALID,
        'Invalid value: true: must be of type string, is a boolean; write it in quotes, as it stands in your file (it was read as "true")'),
    "list-for-a-text": (one_container(image=["x"]), f"{MAIN}.image", TYPE_INVALID,
        "Invalid value: must be of type string, is an array; write a text"),
    "text-for-a-list": (one_container(command="sh"), f"{MAIN}.command", TYPE_INVALID,
        'Invalid value: "sh": must be of type array, is a string; write it as a list: ["sh"]'),
    "text-for-a-list-of-objects": (one_container(env="A=1"), f"{MAIN}.env", TYPE_INVALID,
        'Invalid value: "A=1": must be of type array, is a string; write it as a list of objects: every item starts with "- name: "'),
    "map-for-a-list": (one_container(env={"A": "x"}), f"{MAIN}.env", TYPE_INVALID,
        'Invalid value: must be of type array, is an object; write it as a list: every item starts with "- name: "'),
    "item-for-a-list": (jobset(volumeClaimPolicies={"retentionPolicy": {}}), "spec.volumeClaimPolicies", TYPE_INVALID,
        'Invalid value: must be of type array, is an object; write it as a list: put "- " before its first field'),
    "list-for-an-object": (jobset(network=[]), "spec.network", TYPE_INVALID,
        'Invalid value: must be of type object, is an array; write its fields directly under it, without "- "'),
    "text-for-an-object": (jobset(startupPolicy="InOrder"), "spec.startupPolicy", TYPE_INVALID,
        'Invalid value: "InOrder": must be of type object, is a string; write it as an object: {startupPolicyOrder: InOrder}'),
    "empty-item": (one_container(args=["a", None]), f"{MAIN}.args[1]", TYPE_INVALID,
        "Invalid value: null: must be of type string, is null; write a value here, or remove the empty item"),
    "fraction-for-a-quantity": (limits(0.5), f"{MAIN}.resources.limits.memory", TYPE_INVALID,
        'Invalid value: 0.5: must be of type integer or string, is a number; write it in quotes, as it stands in your file (it was read as "0.5")'),
    "object-for-a-quantity": (limits({}), f"{MAIN}.resources.limits.memory", TYPE_INVALID,
        "Invalid value: must be of type integer or string, is an object; write a whole number or a text"),
    "missing-text": (jobset({"template": rjob()["template"]}), "spec.replicatedJobs[0].name", REQUIRED,
        'Required value: add "name": a text'),
    "null-text": (jobset(rjob(None)), "spec.replicatedJobs[0].name", REQUIRED,
        'Required value: add "name": a text'),
    "missing-object": (jobset({"name": "w"}), "spec.replicatedJobs[0].template", REQUIRED,
        'Required value: add "template": an object'),
    "missing-list": (jobset({"name": "w", "template": {"spec": {"template": {"spec": {}}}}}), f"{JOB}.template.spec.containers", REQUIRED,
        'Required value: add "containers": a list'),
    "missing-number": (one_container(ports=[{}]), f"{MAIN}.ports[0].containerPort", REQUIRED,
        'Required value: add "containerPort": a whole number'),
    "missing-port": (one_container(livenessProbe={"httpGet": {}}), f"{MAIN}.livenessProbe.httpGet.port", REQUIRED,
        'Required value: add "port": a text'),
    "missing-choice": (jobset(successPolicy={}), "spec.successPolicy.operator", REQUIRED,
        'Required value: add "operator": one of "All", "Any"'),
    "choice-in-lower-case": (jobset(successPolicy={"operator": "all"}), "spec.successPolicy.operator", NOT_SUPPORTED,
        'Unsupported value: "all": supported values: "All", "Any"; did you mean "All"?'),
    "choice-of-nothing-like-it": (jobset(startupPolicy={"startupPolicyOrder": "x"}), "spec.startupPolicy.startupPolicyOrder", NOT_SUPPORTED,
        'Unsupported value: "x": supported values: "AnyOrder", "InOrder"; choose one of them'),
    "choice-of-another-type": (jobset(successPolicy={"operator": 1}), "spec.successPolicy.operator", TYPE_INVALID,
        'Invalid value: 1: must be of type string, is an integer; write it in quotes, as it stands in your file (it was read as "1")'),
    "below-the-minimum": (jobset(ttlSecondsAfterFinished=-1), "spec.ttlSecondsAfterFinished", INVALID,
        "Invalid value: -1: should be greater than or equal to 0; write 0 or a larger number"),
    "above-the-maximum": (jobset(rjob(replicas=1_000_001)), "spec.replicatedJobs[0].replicas", INVALID,
        "Invalid value: 1000001: should be less than or equal to 1000000; write 1000000 or a smaller number"),
    "int32": (jobset(rjob(parallelism=2**31)), f"{JOB}.parallelism", INVALID, "Invalid value: 2147483648: does not fit into int32; write a number from -2147483648 to 2147483647"),
    "int32-with-limits": (jobset(rjob(replicas=10**12)), "spec.replicatedJobs[0].replicas", INVALID, "Invalid value: 1000000000000: does not fit into int32; write a number from 0 to 1000000"),
    "int64": (jobset(rjob(job={"activeDeadlineSeconds": -(2**63) - 1})), f"{JOB}.activeDeadlineSeconds", INVALID,
        "Invalid value: -9223372036854775809: does not fit into int64; write a number from -9223372036854775808 to 9223372036854775807"),
    "too-many": (jobset(rjob(dependsOn=[{"name": f"a{i}", "status": "Ready"} for i in range(6)])), "spec.replicatedJobs[0].dependsOn", TOO_MANY,
        "Too many: 6: must have at most 5 items; remove 1 of them; those after the first 5 were not looked at"),
    "same-name": (jobset(rjob("a"), rjob("b"), rjob("a")), "spec.replicatedJobs[2].name", DUPLICATE,
        'Duplicate value: "a": item 0 has it too; give every item its own "name"'),
    "same-port-by-default": (one_container(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]), f"{MAIN}.ports[1].containerPort", DUPLICATE,
        'Duplicate value: 80: item 0 has it too; give every item its own combination of "containerPort" and "protocol"'),
    "same-name-by-default": (jobset(rjob(pod={"imagePullSecrets": [{}, {}], "containers": [{"name": "main", "image": "busybox"}]})),
        f"{JOB}.template.spec.imagePullSecrets[1]", DUPLICATE, 'Duplicate value: "": item 0 has it too; give every item its own "name"'),
    "same-member": (jobset(rjob(job={"podFailurePolicy": {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1, 2, 1]}}]}})),
        f"{JOB}.podFailurePolicy.rules[0].onExitCodes.values[2]", DUPLICATE, "Duplicate value: 1: item 0 is the same; remove one of them"),
    "bytes": (limits("1GB"), f"{MAIN}.resources.limits.memory", INVALID, f'Invalid value: "1GB": {QUANTITY}; did you mean "1G"?'),
    "spaced": (limits("500 m"), f"{MAIN}.resources.limits.memory", INVALID, f'Invalid value: "500 m": {QUANTITY}; did you mean "500m"?'),
    "small-letters": (limits("2gi"), f"{MAIN}.resources.limits.memory", INVALID, f'Invalid value: "2gi": {QUANTITY}; did you mean "2Gi"?'),
    "cores": (limits("2 cores"), f"{MAIN}.resources.limits.memory", INVALID, f'Invalid value: "2 cores": {QUANTITY}; did you mean "2"?'),
    "no-quantity-at-all": (limits("lots"), f"{MAIN}.resources.limits.memory", INVALID, f'Invalid value: "lots": {QUANTITY}'),
    "no-number": (limits("1.2.3GB"), f"{MAIN}.resources.limits.memory", INVALID, f'Invalid value: "1.2.3GB": {QUANTITY}'),
    "time": (jobset(volumeClaimPolicies=[{"templates": [{"status": {"conditions": [{"type": "A", "status": "True", "lastTransitionTime": "now"}]}}]}]),
        "spec.volumeClaimPolicies[0].templates[0].status.conditions[0].lastTransitionTime", INVALID,
        'Invalid value: "now": is not a time; write it like "2026-01-31T12:00:00Z"'),
    "metadata": (jobset() | {"metadata": []}, "metadata", TYPE_INVALID,
        'Invalid value: must be of type object, is an array; write its fields directly under it, without "- "'),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_has_its_place_its_type_and_a_fix(case):
    obj, path, kind, text = FAULTS[case]
    before = copy.deepcopy(obj)
    (fault,) = JUDGE.faults(obj)
    assert (str(fault.path), fault.type, fault.body) == (path, kind, text)
    assert fault.layer is Layer.SCHEMA
    assert fault.rule.id.startswith("schema-")
    repaired = JUDGE.repair(obj, [fault])
    assert [str(left.path) for left in JUDGE.faults(repaired)] == ([path] if kind in STAYS else [])
    assert obj == before


TEXTS = {
    "type": "object",
    "properties": {
        "size": {"type": "string", "minLength": 2, "maxLength": 3},
        "shape": {"type": "string", "pattern": "^[a-z]$"},
        "share": {"type": "number"},
    },
}


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (
            {"size": "a"},
            'size: Invalid value: "a": should be at least 2 characters long; lengthen it, or leave the field out',
        ),
        ({"size": "abcd"}, "size: Too long: may not be more than 3 characters; shorten it"),
        ({"shape": "a\n"}, "shape: Invalid value: \"a\\n\": should match '^[a-z]$'; use only what the pattern allows"),
        ({"share": "1"}, 'share: Invalid value: "1": must be of type number, is a string; write 1 without quotes'),
    ],
)
def test_keywords_used_in_the_status_only_are_checked(obj, text):
    assert [str(fault) for fault in Schema(TEXTS).faults(obj)] == [text]


@pytest.mark.parametrize("obj", [{}, {"size": None}, {"size": "äöü", "shape": "x", "share": 1.5}, {"share": 1}])
def test_valid_values_of_keywords_used_in_the_status_pass(obj):
    assert Schema(TEXTS).faults(obj) == []


@pytest.mark.parametrize(
    "node",
    [
        {"type": "string", "oneOf": []},
        {"type": "integer", "multipleOf": 3},
        {"type": "array"},
        {"properties": {}},
        {"type": "integer", "format": "uint8"},
        {"type": "string", "anyOf": [{"type": "string"}]},
    ],
)
def test_a_schema_that_would_be_misread_is_refused(node):
    with pytest.raises(ValueError, match=r"schema of a\.items: "):
        Schema({"type": "object", "properties": {"a": {"type": "array", "items": node}}})


@pytest.mark.parametrize(
    "obj",
    [
        training(),
        jobset(),
        {},
        {"spec": None},
        jobset(network=None, failurePolicy={"restartStrategy": None}),
        jobset(rjob(replicas=None, groupName=None)),
        jobset(rjob(replicas=2.0)),
        one_container(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]),
        one_container(resources={"limits": {"a": 1, "b": "1.5Gi", "c": "-1e3", "d": "+.5", "e": None}}),
        one_container(args=["a", "a"]),
        jobset(another={"deep": [None, {"a": 1}]}),
        jobset() | {"status": {"restarts": "x"}},
    ],
)
def test_what_the_api_server_accepts_has_no_fault(obj):
    assert JUDGE.faults(obj) == []
    assert JUDGE.repair(obj, []) is obj


def test_all_faults_are_named_at_once():
    obj = jobset(
        rjob("a", replicas=-1), rjob("a", parallelism="2"), None, suspend=0, successPolicy={"operator": "Some"}
    )
    assert {str(fault.path) for fault in JUDGE.faults(obj)} == {
        "spec.replicatedJobs[0].replicas",
        "spec.replicatedJobs[1].name",
        "spec.replicatedJobs[1].template.spec.parallelism",
        "spec.replicatedJobs[2]",
        "spec.suspend",
        "spec.successPolicy.operator",
    }


REPAIRED = {
    "member": (jobset(rjob(replicas="x")), ("spec", "replicatedJobs", 0, "replicas"), None),
    "required-text": (jobset(rjob(5)), ("spec", "replicatedJobs", 0, "name"), ""),
    "required-choice": (jobset(successPolicy={}), ("spec", "successPolicy"), {"operator": "All"}),
    "required-object": (jobset({"name": "w"}), ("spec", "replicatedJobs", 0, "template"), {}),
    "required-inside": (jobset({"name": "w", "template": {"spec": {}}}), ("spec", "replicatedJobs", 0, "template", "spec"), {"template": {}}),
    "item": (one_container(args=["a", None, 5]), ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "containers", 0, "args"), ["a", "", ""]),
    "object-item": (jobset(rjob(), None), ("spec", "replicatedJobs", 1), {"name": "", "template": {}}),
    "negative": (jobset(ttlSecondsAfterFinished=-1), ("spec", "ttlSecondsAfterFinished"), None),
    "whole-number": (jobset(rjob(replicas=2.0), suspend=5), ("spec", "replicatedJobs", 0, "replicas"), 2),
    "unknown": (jobset(suspend=5, another=[None]), ("spec", "another"), [None]),
    "spec": ({"metadata": {"name": "a"}, "spec": 5}, (), {"metadata": {"name": "a"}, "spec": {}}),
    "all": (["x"], (), {"metadata": {}, "spec": {}}),
}  # fmt: skip


@pytest.mark.parametrize("case", REPAIRED)
def test_wrong_values_are_repaired(case):
    obj, path, value = REPAIRED[case]
    found = JUDGE.repair(obj, JUDGE.faults(obj))
    for key in path:
        found = found.get(key) if isinstance(found, dict) else found[key]
    assert found == value


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)


@st.composite
def laced(draw):
    """A changed JobSet with any JSON in one place."""
    obj = draw(mutated())
    *parent, last = draw(st.sampled_from([("spec", *path) for path, _ in nodes(obj["spec"])]))
    dig(obj, tuple(parent))[last] = draw(JSONS)
    return obj


def check_all(obj):
    repaired = JUDGE.repair(obj, JUDGE.faults(obj))
    assert [fault for fault in JUDGE.faults(repaired) if fault.type not in STAYS] == []
    JUDGE.unknown_fields(obj)


@pytest.mark.no_cover
@given(st.one_of(JSONS, mutated(), laced()))
def test_any_object_is_judged_and_repaired(obj):
    check_all(obj)


def nested(depth):
    tree = None
    for level in range(depth):
        tree = [tree] if level % 2 else {"a": tree}
    return tree


ODD = {
    "deep": {"spec": {"suspend": nested(5000), "network": nested(5001), "managedBy": nested(5000)}},
    "deep-quantity": limits(nested(5000)),
    "deep-unknown": {"spec": {"another": nested(5000)}},
    "surrogates": {
        "spec": {"replicatedJobs": [{"name": "\ud800", "\udfff": 1}], "suspend": "\ud800", "network": "\ud800"}
    },
    "surrogate-quantity": limits("\ud8001Gi"),
    "digits": jobset(rjob(replicas=10**5000, groupName=10**5000, dependsOn=10**5000), suspend=10**5000),
    "no-numbers": jobset(rjob(replicas=float("nan"), groupName=float("inf")), suspend=float("-inf")),
}


@pytest.mark.parametrize("case", ODD)
def test_unusual_values_are_judged_and_repaired(case):
    check_all(ODD[case])


@given(mutated(changes=1))
def test_what_is_quickly_called_good_is_good(obj):
    """The library may only err on the side of a closer look."""
    if JUDGE._is_valid(obj):
        walk = Walk({})
        walk.repair(obj, JUDGE._schema)
        assert walk.faults == []


FLOODS = {
    "faults": jobset(rjob(pod={"containers": [None] * 200_000})),
    "duplicates": one_container(env=[{"name": "A"}] * 200_000),
    "long-text": limits("9" * 2_000_000 + "x"),
    "unknown": jobset(**{f"x{i}": i for i in range(100_000)}),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("case", FLOODS)
def test_a_flood_is_answered_within_bounds(case):
    started = time.process_time()
    faults = JUDGE.faults(FLOODS[case])
    unknown = JUDGE.unknown_fields(FLOODS[case])
    repaired = JUDGE.repair(FLOODS[case], faults)
    # No benchmark: what is quadratic would take minutes.
    assert time.process_time() - started < 10
    assert len(faults) <= MAX_FAULTS
    assert len(unknown) <= MAX_FAULTS
    assert len(faults) + len(unknown) > 0
    assert isinstance(repaired["spec"], dict)


def test_a_walk_ends_when_enough_is_known(monkeypatch):
    looked_at = []
    monkeypatch.setattr(
        "webhooks.jobset.schema.words.type_name", lambda value: looked_at.append(value) or type_name(value)
    )
    JUDGE.repair(FLOODS["faults"], JUDGE.faults(FLOODS["faults"]))
    assert len(looked_at) < 5 * MAX_FAULTS


POD = f"{JOB}.template.spec"
# Where it is written, its value, the message
UNKNOWN = {
    "typing-error": (jobset() | {"spec": {"replicatedJob": []}}, "spec.replicatedJob", 'did you mean "replicatedJobs"?'),
    "typing-error-and-a-namesake": (one_container(port=80), f"{MAIN}.port", 'did you mean "ports"?'),
    "case": (one_container(imagepullpolicy="Always"), f"{MAIN}.imagepullpolicy", 'did you mean "imagePullPolicy"?'),
    "metadata": (jobset() | {"metadata": {"name": "a", "label": {}}}, "metadata.label", 'did you mean "labels"?'),
    "restart-policy-in-job": (jobset(rjob(job={"restartPolicy": "Never"})), f"{JOB}.restartPolicy", f"it belongs to {POD}"),
    "restart-policy-in-container-list": (jobset(restartPolicy="Never"), "spec.restartPolicy", "it belongs to spec.replicatedJobs[*].template.spec.template.spec"),
    "parallelism-in-pod": (jobset(rjob(pod={"parallelism": 2})), f"{POD}.parallelism", f"it belongs to {JOB}"),
    "backoff-limit-in-replicated-job": (jobset(rjob(backoffLimit=0)), "spec.replicatedJobs[0].backoffLimit", f"it belongs to {JOB}"),
    "max-restarts-in-spec": (jobset(maxRestarts=3), "spec.maxRestarts", "it belongs to spec.failurePolicy"),
    "replicas-in-job": (jobset(rjob(job={"replicas": 2})), f"{JOB}.replicas", "it belongs to spec.replicatedJobs[0]"),
    "labels-in-pod": (jobset(rjob(pod={"labels": {}})), f"{POD}.labels", f"it belongs to {JOB}.template.metadata"),
    "image-in-pod": (jobset(rjob(pod={"image": "x"})), f"{POD}.image", f"it belongs to {POD}.containers[*]"),
    "volumes-in-container": (one_container(volumes=[]), f"{MAIN}.volumes", f"it belongs to {POD}"),
    "operator-in-failure-policy": (jobset(failurePolicy={"operator": "All"}), "spec.failurePolicy.operator", "it belongs to spec.successPolicy"),
    "operator-of-exit-codes": (jobset(failurePolicy={"operator": "In"}), "spec.failurePolicy.operator", "it belongs to spec.failurePolicy.avoidNodes.onExitCodes"),
    "spec-at-the-wrong-level": (jobset() | {"suspend": True}, "suspend", "it belongs to spec"),
    "kind-inside": (jobset(apiVersion="v1"), "spec.apiVersion", "it belongs to the top level"),
    "no-idea": (jobset(network={"zzz": 1}), "spec.network.zzz", 'the fields here are: "enableDNSHostnames", "subdomain", "publishNotReadyAddresses"'),
    "wrong-type-of-its-namesake": (jobset(network={"parallelism": "x"}), "spec.network.parallelism",
                                   'the fields here are: "enableDNSHostnames", "subdomain", "publishNotReadyAddresses"'),
}  # fmt: skip


@pytest.mark.parametrize("case", UNKNOWN)
def test_for_an_unknown_field_a_known_one_is_suggested(case):
    obj, path, fix = UNKNOWN[case]
    (finding,) = JUDGE.unknown_fields(obj)
    field = path.rpartition(".")[2]
    assert str(finding) == f'{path}: unknown field "{field}"; {fix}'
    assert finding.layer is Layer.SCHEMA
    assert JUDGE.faults(obj) == []


GOOD = [training(), jobset(*(rjob(f"w{i}") for i in range(8))), limits(None),
    jobset(rjob(replicas=None), network=None, failurePolicy={"restartStrategy": None}, another=nested(300))]  # fmt: skip


@pytest.mark.parametrize("obj", GOOD)
def test_a_good_one_is_not_walked(obj, monkeypatch):
    monkeypatch.setattr("webhooks.jobset.schema.schema.Walk", None)
    assert JUDGE.faults(obj) == []
