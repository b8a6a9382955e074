"""`Schema` says of an object what a real API server with our CRD says of it, without webhooks."""

import copy
import re

import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.cluster.jobs import JOBSETS
from tests.support.corpus.mutations import SCHEMA, dig, mutated, training
from webhooks.jobset.schema.schema import Schema

PATH = JOBSETS.format("default")
JUDGE = Schema(SCHEMA)
CEL = (
    "mutually exclusive", "exclude each other", "namespace cannot be set", "Value is immutable", "rules were not checked",
    "so nothing can wait for it", "so no stage can follow on it", "must be Succeeded, Ready or Active",
    "exactly one of",
)  # fmt: skip
# Sentences without a place, each beside one that has it: of the alternatives of a quantity, and of integers out of range.
PLACELESS = ("must validate at least one schema", "value must be of type integer")


@pytest.fixture(scope="module")
def api(jobset_server):
    """One connection to an API server with our CRD, where no webhook is asked."""
    with jobset_server.connect() as connection:
        yield connection


def refusals(api, obj):
    """What the API server's schema validation has against the object: (field, message)."""
    status, answer = api.request("POST", f"{PATH}?dryRun=All&fieldValidation=Ignore", obj)
    assert status in {201, 422}, answer
    causes = [] if status == 201 else [(cause["field"], cause["message"]) for cause in answer["details"]["causes"]]
    return [cause for cause in causes if not any(words in cause[1] for words in CEL)]


def check_agreement(api, obj):
    theirs, ours = refusals(api, obj), JUDGE.faults(obj)
    assert bool(ours) == bool(theirs), (ours, theirs)
    paths = {dotted(fault.path) for fault in ours}
    for field, message in theirs:
        if field == "<nil>":
            assert any(words in message for words in PLACELESS), message
        elif message.startswith("Duplicate value"):
            assert any(path == field or path.startswith(f"{field}.") for path in paths), (field, message, paths)
        else:
            assert field in paths, (field, message, paths)


def dotted(path):
    """A path as the API server's schema validation and strict decoding write it: keys of maps like other members."""
    return re.sub(r"\[([^\]\d][^\]]*)\]", r".\1", str(path))


WORKER = ("spec", "replicatedJobs", 1)
JOB = (*WORKER, "template", "spec")
POD = (*JOB, "template", "spec")
MAIN = (*POD, "containers", 0)
VALUE = {
    # types
    "replicas-text": ((*WORKER, "replicas"), "3"),
    "replicas-float": ((*WORKER, "replicas"), 1.5),
    "replicas-whole-float": ((*WORKER, "replicas"), 2.0),
    "replicas-true": ((*WORKER, "replicas"), True),
    "name-number": ((*WORKER, "name"), 5),
    "suspend-text": (("spec", "suspend"), "true"),
    "suspend-number": (("spec", "suspend"), 1),
    "list-for-object": (("spec", "network"), []),
    "text-for-object": (("spec", "startupPolicy"), "InOrder"),
    "object-for-list": (("spec", "replicatedJobs"), {"name": "x"}),
    "text-for-list": ((*MAIN, "command"), "sh -c x"),
    "null-item": (("spec", "successPolicy", "targetReplicatedJobs"), [None]),
    "null-object-item": ((*MAIN, "env"), [{"name": "A"}, None]),
    "number-item": ((*MAIN, "args"), ["x", 5]),
    "label-number": ((*WORKER, "template", "metadata", "labels"), {"a": 1}),
    "label-null": ((*WORKER, "template", "metadata", "labels"), {"a": None}),
    "env-value-number": ((*MAIN, "env"), [{"name": "A", "value": 1}]),
    "env-map": ((*MAIN, "env"), {"A": "x"}),
    "metadata-list": ((*WORKER, "template", "metadata"), []),
    # null is absent
    "null-optional": (("spec", "network"), None),
    "null-required": ((*POD, "containers"), None),
    "null-with-default": ((*WORKER, "replicas"), None),
    "null-enum": (("spec", "failurePolicy", "restartStrategy"), None),
    "null-required-enum": (("spec", "successPolicy", "operator"), None),
    "null-default-of-name": ((*POD, "imagePullSecrets"), [{"name": None}]),
    "null-key-with-default": ((*MAIN, "ports"), [{"containerPort": 80, "protocol": None}, {"containerPort": 80}]),
    "null-spec": (("spec",), None),
    "null-in-unknown": ((*WORKER, "another"), {"a": None}),
    # required
    "no-name": (WORKER, {"template": {"spec": {"template": {"spec": {"containers": []}}}}}),
    "no-template": (WORKER, {"name": "w"}),
    "no-containers": (POD, {}),
    "empty-containers": ((*POD, "containers"), []),
    "empty-job": ((*WORKER, "template"), {}),
    "no-container-name": ((*POD, "containers"), [{"image": "x"}, {}]),
    "absent-with-default": ((*MAIN, "ports"), [{"containerPort": 80}]),
    "rule-without-name": (("spec", "failurePolicy", "rules"), [{"action": "FailJobSet"}]),
    "coordinator": (("spec", "coordinator"), {}),
    # enums, numbers, sizes
    "operator": (("spec", "successPolicy", "operator"), "Some"),
    "operator-number": (("spec", "successPolicy", "operator"), 1),
    "operator-empty": (("spec", "successPolicy", "operator"), ""),
    "strategy": (("spec", "failurePolicy", "restartStrategy"), "recreate"),
    "replicas-negative": ((*WORKER, "replicas"), -1),
    "ttl-negative": (("spec", "ttlSecondsAfterFinished"), -1),
    "restarts-negative": (("spec", "failurePolicy", "maxRestarts"), -1),
    "int32-most": ((*JOB, "parallelism"), 2**31 - 1),
    "int32-over": ((*JOB, "parallelism"), 2**31),
    "int32-under": ((*JOB, "parallelism"), -(2**31) - 1),
    "int64-most": ((*JOB, "activeDeadlineSeconds"), 2**63 - 1),
    "int64-over": ((*JOB, "activeDeadlineSeconds"), 2**63),
    "huge": ((*JOB, "activeDeadlineSeconds"), 10**40),
    "depends-on-six": ((*WORKER, "dependsOn"), [{"name": f"a{i}", "status": "Ready"} for i in range(6)]),
    "policies-51": (("spec", "volumeClaimPolicies"), [{}] * 51),
    "stage-state-too-long": (("spec", "executionPolicy", "replicatedJobsStatus"), "x" * 65),
    "stage-state-null": (("spec", "executionPolicy", "replicatedJobsStatus"), None),
    "stages-none": (("spec", "executionPolicy", "sequentialReplicatedJobs"), 0),
    "exit-code-0": ((*WORKER, "exitCodePolicy", "retryable"), [137, 0]),
    "exit-code-twice": ((*WORKER, "exitCodePolicy", "retryable"), [137, 137]),
    "exit-codes-256": ((*WORKER, "exitCodePolicy", "permanent"), list(range(1, 257))),
    "exit-code-text": (("spec", "failurePolicy", "rules", 0, "onExitCodes", "values"), ["137"]),
    "no-exit-codes": (("spec", "failurePolicy", "rules", 0, "onExitCodes"), {"operator": "In"}),
    "rule-restarts-negative": (("spec", "failurePolicy", "rules", 0, "maxRestarts"), -1),
    "unit": (("spec", "successPolicy", "unit"), "Node"),
    "share-number": (("spec", "successPolicy", "minSucceeded"), 3),
    "share-text": (("spec", "successPolicy", "minSucceeded"), "most"),
    "share-float": (("spec", "successPolicy", "minSucceeded"), 0.8),
    "share-true": (("spec", "successPolicy", "minSucceeded"), True),
    # quantities and texts
    "quantity": ((*MAIN, "resources"), {"limits": {"memory": "1GB"}}),
    "quantity-empty": ((*MAIN, "resources"), {"limits": {"memory": ""}}),
    "quantity-number": ((*MAIN, "resources"), {"limits": {"cpu": 1, "memory": "1.5Gi", "x": "-1e3", "y": "+.5"}}),
    "quantity-float": ((*MAIN, "resources"), {"limits": {"cpu": 0.5}}),
    "quantity-newline": ((*MAIN, "resources"), {"limits": {"cpu": "1\n"}}),
    "quantity-null": ((*MAIN, "resources"), {"limits": {"cpu": None}}),
    "port-true": ((*MAIN, "livenessProbe"), {"httpGet": {"port": True}}),
    "port-text": ((*MAIN, "livenessProbe"), {"httpGet": {"port": "http"}}),
    "time": (("spec", "volumeClaimPolicies", 0, "templates"),
             [{"status": {"conditions": [{"type": "A", "status": "True", "lastTransitionTime": "yesterday"}]}}]),
    "time-good": (("spec", "volumeClaimPolicies", 0, "templates"),
                  [{"status": {"conditions": [{"type": "A", "status": "True", "lastTransitionTime": "2026-01-31t12:00:00.5+01:00"}]}}]),
    # keys
    "two-names": (("spec", "replicatedJobs"), [{"name": "w", "template": {}}] * 2),
    "two-names-of-three": ((*MAIN, "env"), [{"name": n} for n in "ABAA"]),
    "two-ports": ((*MAIN, "ports"), [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]),
    "scheduling": (("spec", "scheduling"), {}),
    "scheduling-text": (("spec", "scheduling"), "gang"),
    "policy-text": (("spec", "scheduling"), {"schedulingPolicy": "gang"}),
    "policy-null": (("spec", "scheduling"), {"schedulingPolicy": {"gang": {}, "basic": None}}),
    "entries-9": (("spec", "scheduling"), {"replicatedJobs": [{"targetReplicatedJobs": [str(i)]} for i in range(9)]}),
    "no-targets": (("spec", "scheduling"), {"replicatedJobs": [{"job": {}}]}),
    "two-topologies": (("spec", "scheduling"), {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}}),
    "no-topology-key": (("spec", "scheduling"), {"schedulingConstraints": {"topology": [{}]}}),
    "claims-5": (("spec", "scheduling"), {"replicatedJobs": [{"targetReplicatedJobs": ["a"], "resourceClaims": [
        {"name": f"c{i}", "resourceClaimName": "a"} for i in range(5)]}]}),
    "claim-empty": (("spec", "scheduling"), {"replicatedJobs": [{"targetReplicatedJobs": ["a"], "resourceClaims": [
        {"name": "c", "resourceClaimName": ""}]}]}),
    "claim-twice": (("spec", "scheduling"), {"replicatedJobs": [{"targetReplicatedJobs": ["a"], "resourceClaims": [
        {"name": "c", "resourceClaimName": "a"}] * 2}]}),
    "udp-and-tcp": ((*MAIN, "ports"), [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]),
    "two-volumes": ((*POD, "volumes"), [{"name": "a"}, {"name": "a"}]),
    "two-exit-codes": ((*JOB, "podFailurePolicy"), {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2, 1]}}]}),
    "two-default-secrets": ((*POD, "imagePullSecrets"), [{}, {}]),
    "atomic-twice": ((*MAIN, "args"), ["a", "a"]),
    "status": (("status",), {"restarts": "x"}),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUE)
def test_one_value(api, case):
    (*parent, last), value = VALUE[case]
    obj = training()
    dig(obj, tuple(parent))[last] = copy.deepcopy(value)
    check_agreement(api, obj)


def test_the_good_one(api):
    assert refusals(api, training()) == JUDGE.faults(training()) == []


@pytest.mark.no_cover
@settings(max_examples=400, derandomize=True, suppress_health_check=list(HealthCheck))
@given(mutated())
@pytest.mark.slow
def test_random_changes(api, obj):
    check_agreement(api, obj)


@settings(max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck))
@given(mutated(changes=6))
def test_repaired_objects_are_accepted_but_for_values_that_are_not_repaired(api, obj):
    repaired = JUDGE.repair(obj, JUDGE.faults(obj))
    stays = ("Unsupported value", "Duplicate value", "Too many")
    assert [cause for cause in refusals(api, repaired) if not cause[1].startswith(stays)] == []


UNKNOWN = {
    "top": ("another",),
    "spec": ("spec", "replicatedJob"),
    "metadata": ("metadata", "label"),
    "job": (*JOB, "restartPolicy"),
    "pod": (*POD, "image"),
    "container": (*MAIN, "imagePullpolicy"),
    "template-metadata": (*WORKER, "template", "metadata", "creationTimestamp"),
    "pod-metadata": (*JOB, "template", "metadata", "generateName"),
    "claim": ("spec", "volumeClaimPolicies", 0, "templates", 0, "spec", "storage"),
    "rule": ("spec", "failurePolicy", "rules", 1, "maxRestart"),
    "stages": ("spec", "executionPolicy", "order"),
    "exit-codes": (*WORKER, "exitCodePolicy", "permanents"),
    "env": (*MAIN, "env", 0, "val"),
    "basic": ("spec", "scheduling", "schedulingPolicy", "basic", "minCount"),
    "status": ("status",),
}


@pytest.mark.parametrize("case", UNKNOWN)
@pytest.mark.parametrize("value", [5, None, {"a": {"b": 1}}, [{"a": 1}]], ids=["number", "null", "object", "list"])
def test_unknown_field(api, case, value):
    *parent, last = UNKNOWN[case]
    obj = training()
    if case == "basic":
        obj["spec"]["scheduling"] = {"schedulingPolicy": {"basic": {}}}
    dig(obj, tuple(parent))[last] = copy.deepcopy(value) if case != "status" else {"conditions": [], "restart": 5}
    status, answer = api.request("POST", f"{PATH}?dryRun=All&fieldValidation=Strict", obj)
    assert status == 400, answer
    theirs = re.findall(r'unknown field "([^"]+)"', answer["message"])
    assert sorted(theirs) == sorted(dotted(finding.path) for finding in JUDGE.unknown_fields(obj))
