"""What the Go JobSet's CRD says of a field stays, and each field of ours says what it is for."""

import json

from manifests import crd
from tests.support.corpus.crd_nodes import NODES, OWN
from tests.support.corpus.go_crd import ACTIONS, DIGEST, digest, go_crd


def test_nothing_that_the_go_jobset_has_is_changed():
    assert digest(go_crd()) == DIGEST
    assert digest(crd()) != DIGEST


def test_failure_actions_that_clients_use_stay():
    assert NODES["spec.failurePolicy.rules[].action"]["enum"][:6] == [*ACTIONS, "RestartReplicatedJob"]


def test_every_field_of_ours_is_described():
    assert [p for p, n in OWN.items() if not p.endswith("[]") and p != "metadata" and not n.get("description")] == []


def test_defaults_inside_the_templates_are_those_of_1_2():
    found = {(p.rsplit(".", 2)[-2].rstrip("[]"), p.rsplit(".", 1)[-1], json.dumps(n["default"]))
             for p, n in NODES.items() if "default" in n and p not in OWN}  # fmt: skip
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
