"""Each field of the CRD that is no part of a template is as docs/reference/api.md says."""

import json

import pytest

from tests.support.crd_nodes import NODES, OWN

NOT_FAILED = "a failed Job sets off the failure policy, so nothing can wait for it: wait for Succeeded, Ready or Active"
NOT_SUSPENDED = "a suspended JobSet starts nothing, so no stage can follow on it: wait for Succeeded, Ready or Active"
STAGES_OR_STARTUP = (
    "executionPolicy InOrder and startupPolicy InOrder exclude each other: keep executionPolicy; startupPolicy is"
    " deprecated, and executionPolicy with replicatedJobsStatus Ready does the same"
)
STAGES_OR_DEPENDS_ON = (
    "executionPolicy InOrder and dependsOn exclude each other: keep dependsOn where a ReplicatedJob waits for several"
    " or for certain ones, executionPolicy where each waits for the one ahead of it in the list"
)
SHARE_RULE = {
    "rule": "!has(self.minSucceeded) || self.operator != 'Any'",
    "message": "minSucceeded and operator Any exclude each other: Any means one Job; keep All beside minSucceeded",
}
IMMUTABLE = [{"rule": "self == oldSelf", "message": "Value is immutable"}]
MAP = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
ATOMIC = {"type": "array", "x-kubernetes-list-type": "atomic"}
INT32 = {"type": "integer", "format": "int32"}
ACTIONS = [
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
    "RestartReplicatedJob",
]
ONE_POLICY = {
    "rule": "has(self.basic) != has(self.gang)",
    "message": "exactly one of basic and gang: gang: {} is all or nothing, basic: {} one by one",
}
ONE_MODE = {
    "rule": "has(self.single) != has(self.all)",
    "message": "exactly one of single and all: all: {} preempts everything below as one, single: {} pod by pod",
}
ONE_SOURCE = {
    "rule": "has(self.resourceClaimName) != has(self.resourceClaimTemplateName)",
    "message": "exactly one of resourceClaimName, which all groups share, and resourceClaimTemplateName, one for each",
}
OBJECT = {"type": "object"}


def scheduling(path, count, *, claims):
    """What every level of spec.scheduling has; `count` is what its gangs count."""
    fields = {
        f"{path}.schedulingPolicy": OBJECT | {"x-kubernetes-validations": [ONE_POLICY]},
        f"{path}.schedulingPolicy.basic": OBJECT,
        f"{path}.schedulingPolicy.gang": OBJECT,
        f"{path}.schedulingPolicy.gang.{count}": INT32 | {"minimum": 1},
        f"{path}.schedulingConstraints": OBJECT,
        f"{path}.schedulingConstraints.topology": ATOMIC | {"maxItems": 1},
        f"{path}.schedulingConstraints.topology[]": OBJECT,
        f"{path}.schedulingConstraints.topology[].key!": {"type": "string"},
        f"{path}.disruptionMode": OBJECT | {"x-kubernetes-validations": [ONE_MODE]},
        f"{path}.disruptionMode.single": OBJECT,
        f"{path}.disruptionMode.all": OBJECT,
    }
    if claims:
        fields |= {
            f"{path}.resourceClaims": MAP | {"maxItems": 4},
            f"{path}.resourceClaims[]": OBJECT | {"x-kubernetes-validations": [ONE_SOURCE]},
            f"{path}.resourceClaims[].name!": {"type": "string"},
            f"{path}.resourceClaims[].resourceClaimName": {"type": "string", "minLength": 1},
            f"{path}.resourceClaims[].resourceClaimTemplateName": {"type": "string", "minLength": 1},
        }
    return fields


ENTRY = "spec.scheduling.replicatedJobs[]"
EXIT_CODES = {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 255}
# Path -> keywords apart from description, properties and items. `!` marks a field that the schema requires.
FIELDS = {
    "spec.replicatedJobs": MAP,
    "spec.replicatedJobs[].name!": {"type": "string"},
    "spec.replicatedJobs[].groupName": {"type": "string", "default": "default"},
    "spec.replicatedJobs[].template!": {"type": "object"},
    "spec.replicatedJobs[].replicas": INT32 | {"default": 1, "minimum": 0},
    "spec.replicatedJobs[].dependsOn": MAP | {"maxItems": 5, "x-kubernetes-validations": IMMUTABLE},
    "spec.replicatedJobs[].dependsOn[].name!": {"type": "string"},
    "spec.replicatedJobs[].dependsOn[].status!": {"type": "string", "enum": ["Ready", "Complete"]},
    "spec.network": {"type": "object", "x-kubernetes-validations": IMMUTABLE},
    "spec.network.enableDNSHostnames": {"type": "boolean"},
    "spec.network.subdomain": {"type": "string"},
    "spec.network.publishNotReadyAddresses": {"type": "boolean"},
    "spec.successPolicy": {"type": "object", "x-kubernetes-validations": [*IMMUTABLE, SHARE_RULE]},
    "spec.successPolicy.operator!": {"type": "string", "enum": ["All", "Any"]},
    "spec.successPolicy.targetReplicatedJobs": ATOMIC,
    "spec.successPolicy.targetReplicatedJobs[]": {"type": "string"},
    "spec.failurePolicy": {"type": "object", "x-kubernetes-validations": IMMUTABLE},
    "spec.failurePolicy.maxRestarts": INT32,
    "spec.failurePolicy.restartStrategy": {
        "type": "string",
        "default": "Recreate",
        "enum": ["Recreate", "BlockingRecreate", "InPlaceRestart"],
    },
    "spec.failurePolicy.rules": {"type": "array"},
    "spec.failurePolicy.rules[].name!": {"type": "string"},
    "spec.failurePolicy.rules[].action!": {"type": "string", "enum": ACTIONS},
    "spec.failurePolicy.rules[].onJobFailureReasons": {"type": "array"},
    "spec.failurePolicy.rules[].onJobFailureReasons[]": {"type": "string"},
    "spec.failurePolicy.rules[].onJobFailureMessagePatterns": {"type": "array"},
    "spec.failurePolicy.rules[].onJobFailureMessagePatterns[]": {"type": "string"},
    "spec.failurePolicy.rules[].targetReplicatedJobs": ATOMIC,
    "spec.failurePolicy.rules[].targetReplicatedJobs[]": {"type": "string"},
    "spec.startupPolicy": {"type": "object", "x-kubernetes-validations": IMMUTABLE},
    "spec.startupPolicy.startupPolicyOrder!": {"type": "string", "enum": ["AnyOrder", "InOrder"]},
    "spec.suspend": {"type": "boolean"},
    "spec.coordinator": {"type": "object"},
    "spec.coordinator.replicatedJob!": {"type": "string"},
    "spec.coordinator.jobIndex": {"type": "integer"},
    "spec.coordinator.podIndex": {"type": "integer"},
    "spec.managedBy": {"type": "string"},
    "spec.ttlSecondsAfterFinished": INT32 | {"minimum": 0},
    "spec.volumeClaimPolicies": ATOMIC | {"maxItems": 50, "x-kubernetes-validations": IMMUTABLE},
    "spec.volumeClaimPolicies[].templates": ATOMIC | {"maxItems": 50},
    "spec.volumeClaimPolicies[].templates[]": {"type": "object"},
    "spec.volumeClaimPolicies[].retentionPolicy": {"type": "object"},
    "spec.volumeClaimPolicies[].retentionPolicy.whenDeleted": {
        "type": "string",
        "default": "Delete",
        "enum": ["Delete", "Retain"],
    },
    "status.conditions": MAP | {"x-kubernetes-list-map-keys": ["type"]},
    "status.conditions[].observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
    "status.conditions[].status!": {"type": "string", "enum": ["True", "False", "Unknown"]},
    "status.conditions[].message!": {"type": "string", "maxLength": 32768},
    "status.conditions[].lastTransitionTime!": {"type": "string", "format": "date-time"},
    "status.restarts": INT32,
    "status.restartsCountTowardsMax": INT32,
    "status.terminalState": {"type": "string"},
    "status.replicatedJobsStatus": MAP,
    "status.replicatedJobsStatus[].name!": {"type": "string"},
    **{f"status.replicatedJobsStatus[].{n}!": INT32 for n in ("ready", "succeeded", "failed", "active", "suspended")},
    "status.replicatedJobsStatus[].jobRestarts": ATOMIC | {"maxItems": 1024},
    "status.replicatedJobsStatus[].jobRestarts[]": INT32,
    "status.replicatedJobsStatus[].jobRestartsCountTowardsMax": ATOMIC | {"maxItems": 1024},
    "status.replicatedJobsStatus[].jobRestartsCountTowardsMax[]": INT32,
    # Additions to the Go JobSet's spec.
    "spec.executionPolicy": {"type": "object", "x-kubernetes-validations": IMMUTABLE},
    "spec.executionPolicy.executionPolicyOrder": {
        "type": "string",
        "default": "AnyOrder",
        "enum": ["AnyOrder", "InOrder"],
    },
    "spec.executionPolicy.replicatedJobsStatus": {
        "type": "string",
        "default": "Succeeded",
        "maxLength": 64,
        "x-kubernetes-validations": [
            {"rule": "self != 'Failed'", "message": NOT_FAILED},
            {"rule": "self != 'Suspended'", "message": NOT_SUSPENDED},
            {
                "rule": "self in ['Succeeded', 'Ready', 'Active', 'Failed', 'Suspended']",
                "message": "must be Succeeded, Ready or Active",
            },
        ],
    },
    "spec.executionPolicy.sequentialReplicatedJobs": INT32 | {"minimum": 1},
    "spec.replicatedJobs[].exitCodePolicy": {"type": "object"},
    "spec.replicatedJobs[].exitCodePolicy.permanent": EXIT_CODES,
    "spec.replicatedJobs[].exitCodePolicy.permanent[]": INT32 | {"minimum": 1},
    "spec.replicatedJobs[].exitCodePolicy.retryable": EXIT_CODES,
    "spec.replicatedJobs[].exitCodePolicy.retryable[]": INT32 | {"minimum": 1},
    "spec.replicatedJobs[].exitCodePolicy.containerName": {"type": "string"},
    "spec.scheduling": OBJECT,
    **scheduling("spec.scheduling", "minGroupCount", claims=False),
    "spec.scheduling.replicatedJobs": ATOMIC | {"maxItems": 8},
    ENTRY: OBJECT,
    f"{ENTRY}.targetReplicatedJobs!": {"type": "array", "x-kubernetes-list-type": "set"},
    f"{ENTRY}.targetReplicatedJobs[]": {"type": "string"},
    **scheduling(ENTRY, "minGroupCount", claims=True),
    f"{ENTRY}.job": OBJECT,
    **scheduling(f"{ENTRY}.job", "minCount", claims=True),
    "spec.successPolicy.minSucceeded": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    },
    "spec.successPolicy.unit": {"type": "string", "enum": ["Job", "Pod"]},
    "spec.failurePolicy.failOn": {"type": "string", "enum": ["JobFailed", "FailureTarget"]},
    "spec.failurePolicy.rules[].maxRestarts": INT32 | {"minimum": 0},
    "spec.failurePolicy.rules[].onExitCodes": {"type": "object"},
    "spec.failurePolicy.rules[].onExitCodes.operator!": {"type": "string", "enum": ["In", "NotIn"]},
    "spec.failurePolicy.rules[].onExitCodes.values!": EXIT_CODES,
    "spec.failurePolicy.rules[].onExitCodes.values[]": INT32 | {"minimum": 1},
    "spec.failurePolicy.rules[].onExitCodes.containerName": {"type": "string"},
    # Additions to the Go JobSet's status.
    "status.replicatedJobsStatus[].released": {"type": "boolean"},
    "status.replicatedJobsStatus[].remaining": INT32,
    "status.currentStage": {"type": "string"},
    "status.failurePolicyRestarts": MAP,
    "status.failurePolicyRestarts[].name!": {"type": "string"},
    "status.failurePolicyRestarts[].restarts": INT32,
    "status.attemptHistory[].container": {"type": "string"},
    "status.replicatedJobsStatus[].completedIndexes": {"type": "string"},
    "status.replicatedJobsStatus[].started": {"type": "boolean"},
    "status.executionAttempts": INT32 | {"minimum": 0},
    "status.lastRestart": {"type": "object"},
    "status.lastRestart.reason": {"type": "string"},
    "status.lastRestart.startTime": {"type": "string", "format": "date-time"},
    "status.lastRestart.durationSeconds": INT32,
    "status.attemptHistory": ATOMIC | {"maxItems": 10},
    "status.attemptHistory[]": {"type": "object"},
    "status.attemptHistory[].time": {"type": "string", "format": "date-time"},
    **{f"status.attemptHistory[].{n}": INT32 for n in ("attempt", "exitCode")},
    **{f"status.attemptHistory[].{n}": {"type": "string"} for n in ("reason", "message", "failedJob", "pod", "node")},
    "status.previousInPlaceRestartAttempt": INT32 | {"minimum": 0},
    "status.currentInPlaceRestartAttempt": INT32 | {"minimum": 0},
}
ELSEWHERE = {
    "apiVersion", "kind", "metadata", "spec", "status", "spec.replicatedJobs[]", "spec.replicatedJobs[].dependsOn[]",
    "spec.failurePolicy.rules[]", "spec.volumeClaimPolicies[]", "status.conditions[]", "status.conditions[].type",
    "status.conditions[].reason", "status.replicatedJobsStatus[]", "status.failurePolicyRestarts[]",
}  # fmt: skip


@pytest.mark.parametrize("marked", FIELDS)
def test_field(marked):
    path = marked.rstrip("!")
    node = NODES[path]
    assert {k: v for k, v in node.items() if k not in {"description", "properties", "items", "required"}} == FIELDS[
        marked
    ]
    if not path.endswith("[]"):
        parent, _, name = path.rpartition(".")
        assert (name in NODES[parent].get("required", [])) == marked.endswith("!")


def test_no_other_fields():
    assert OWN.keys() == {f.rstrip("!") for f in FIELDS} | ELSEWHERE


def test_condition_type_and_reason_have_the_limits_of_metav1():
    kind, reason = NODES["status.conditions[].type"], NODES["status.conditions[].reason"]
    assert (kind["maxLength"], reason["maxLength"], reason["minLength"]) == (316, 1024, 1)
    assert kind["pattern"].endswith("(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$")
    assert reason["pattern"] == "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
    assert set(NODES["status.conditions[]"]["required"]) == {
        "lastTransitionTime",
        "message",
        "reason",
        "status",
        "type",
    }


def test_every_field_of_ours_is_described():
    assert [p for p, n in OWN.items() if not p.endswith("[]") and p != "metadata" and not n.get("description")] == []


def test_rules_and_messages():
    assert [rule["message"] for rule in NODES["spec"]["x-kubernetes-validations"]] == [
        "StartupPolicy and DependsOn APIs are mutually exclusive",
        STAGES_OR_STARTUP,
        STAGES_OR_DEPENDS_ON,
    ]
    (namespace,) = NODES["spec.volumeClaimPolicies[]"]["x-kubernetes-validations"]
    assert namespace["message"] == "namespace cannot be set for VolumeClaimPolicies templates"
    assert sum("x-kubernetes-validations" in n for n in NODES.values()) == 18


def test_defaults_inside_the_templates_are_those_of_1_2():
    found = {(p.rsplit(".", 2)[-2].rstrip("[]"), p.rsplit(".", 1)[-1], json.dumps(n["default"]))
             for p, n in NODES.items() if "default" in n and p not in FIELDS}  # fmt: skip
    empty_names = {f for f in found if f[1:] == ("name", '""')}
    assert {f[0] for f in empty_names} == {
        "configMap", "configMapKeyRef", "configMapRef", "imagePullSecrets", "nodePublishSecretRef", "secret",
        "secretKeyRef", "secretRef",
    }  # fmt: skip
    assert found - empty_names == {
        ("ports", "protocol", '"TCP"'),
        ("fileKeyRef", "optional", "false"),
        ("grpc", "service", '""'),
        ("azureDisk", "fsType", '"ext4"'),
        ("azureDisk", "readOnly", "false"),
        ("iscsi", "iscsiInterface", '"default"'),
        ("rbd", "keyring", '"/etc/ceph/keyring"'),
        ("rbd", "pool", '"rbd"'),
        ("rbd", "user", '"admin"'),
        ("scaleIO", "fsType", '"xfs"'),
        ("scaleIO", "storageMode", '"ThinProvisioned"'),
    }
