"""Each field of the CRD that is no part of a template is as docs/reference/api.md says."""

import json

import pytest

from tests.support.corpus import crd_before
from tests.support.corpus.crd_fields import FIELDS, STAGES_OR_DEPENDS_ON, STAGES_OR_STARTUP
from tests.support.corpus.crd_nodes import NODES, OWN

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


def test_failure_actions_that_clients_use_stay():
    assert NODES["spec.failurePolicy.rules[].action"]["enum"][:6] == [*crd_before.ACTIONS, "RestartReplicatedJob"]


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
