"""The CRD is a schema that an API server takes, with the templates of Jobs and volume claims in full."""

import json

import pytest

from manifests import crd
from tests.support.corpus.crd_nodes import CLAIM, NODES, OWN, VERSION
from tests.support.corpus.go_crd import COLUMNS

KEYWORDS = {
    "additionalProperties", "anyOf", "default", "description", "enum", "format", "items", "maxItems", "maxLength",
    "minLength", "maximum", "minimum", "pattern", "properties", "required", "type", "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-validations",
}  # fmt: skip
POD = "spec.replicatedJobs[].template.spec.template.spec"


def test_no_conversion_webhook_that_nobody_serves():
    assert crd()["spec"]["conversion"] == {"strategy": "None"}


def test_columns_of_ours_stand_behind_those_of_the_go_jobset():
    columns = VERSION["additionalPrinterColumns"]
    assert tuple(column["name"] for column in columns[-len(COLUMNS) :]) == COLUMNS
    assert [column.get("priority", 0) for column in columns] == sorted(column.get("priority", 0) for column in columns)


def test_only_structural_keywords():
    assert {k for n in NODES.values() for k in n} == KEYWORDS


def test_every_node_has_one_type():
    for path, node in NODES.items():
        assert ("type" in node) != ("x-kubernetes-int-or-string" in node), path
        if "x-kubernetes-int-or-string" in node:
            assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}], path


def test_list_map_keys_are_required_or_defaulted():
    lists = {p: n for p, n in NODES.items() if n.get("x-kubernetes-list-type") == "map"}
    assert len(lists) > 20
    for path, node in lists.items():
        items = node["items"]
        for key in node["x-kubernetes-list-map-keys"]:
            assert key in items.get("required", []) or "default" in items["properties"][key], f"{path} {key}"


def test_a_required_field_has_no_default_that_would_supply_it():
    for path, node in NODES.items():
        for name in node.get("required", []):
            assert "default" not in node["properties"][name], f"{path}.{name}"


@pytest.mark.parametrize(
    "path",
    [
        "spec.replicatedJobs[].template.metadata",
        "spec.replicatedJobs[].template.spec.template.metadata",
        f"{POD}.volumes[].ephemeral.volumeClaimTemplate.metadata",
        f"{CLAIM}.metadata",
    ],
)
def test_metadata_of_templates(path):
    assert set(NODES[path]["properties"]) == {"annotations", "finalizers", "labels", "name", "namespace"}


def test_templates_are_complete():
    for path in (f"{POD}.containers[]", f"{POD}.initContainers[]", f"{POD}.ephemeralContainers[]"):
        assert {"env", "image", "livenessProbe", "ports", "resources", "securityContext"} <= set(
            NODES[path]["properties"]
        )
    assert {"affinity", "hostNetwork", "schedulingGates", "tolerations", "volumes"} <= set(NODES[POD]["properties"])
    assert {"backoffLimit", "podFailurePolicy", "successPolicy"} <= set(
        NODES["spec.replicatedJobs[].template.spec"]["properties"]
    )
    assert NODES[f"{POD}.containers[].resources.limits{{}}"]["pattern"].startswith(r"^(\+|-)?")


def test_no_value_list_of_one_kubernetes_release_inside_the_templates():
    assert [p for p, n in NODES.items() if "enum" in n and p not in OWN] == []


def test_small_enough_for_client_side_apply():
    assert len(json.dumps(crd())) < 200_000  # the annotation that it writes may have 262,144 bytes
