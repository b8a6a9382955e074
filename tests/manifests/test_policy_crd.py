"""The CRD of policies stands in a file of its own, which nothing else installs."""

import yaml

from manifests.definition import exception_crd, policy_crd
from manifests.files import ROOT

FILE = ROOT / "policy" / "jobsetpolicies.policy.jobset.x-k8s.io.yaml"


def test_exceptions_are_of_a_namespace_and_in_a_file_beside_it():
    definition = yaml.safe_load((FILE.parent / "jobsetpolicyexceptions.policy.jobset.x-k8s.io.yaml").read_text())
    assert definition == exception_crd()
    assert (definition["spec"]["scope"], definition["spec"]["group"]) == ("Namespaced", "policy.jobset.x-k8s.io")


def test_it_is_of_the_whole_cluster_and_in_a_file_of_its_own():
    definition = yaml.safe_load(FILE.read_text())
    assert definition == policy_crd()
    assert definition["spec"]["scope"] == "Cluster"
    assert definition["spec"]["group"] == "policy.jobset.x-k8s.io"


def test_nothing_else_installs_it():
    others = [path for path in ROOT.rglob("*.yaml") if path.parent != FILE.parent]
    assert len(others) > 5
    assert [path for path in others if "jobsetpolic" in path.read_text()] == []


def test_every_list_and_text_is_bounded():
    """So that the work for one JobSet is bounded, whatever the policy."""

    def unbounded(node: dict, path: str) -> list[str]:
        kind = node.get("type")
        missing = [path] if kind == "array" and "maxItems" not in node else []
        if kind == "string" and not {"maxLength", "enum"} & node.keys():
            missing.append(path)
        for name, child in {**node.get("properties", {}), "[]": node.get("items")}.items():
            missing += unbounded(child, f"{path}.{name}") if child else []
        return missing

    for definition in (policy_crd(), exception_crd()):
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        assert unbounded(schema["properties"]["spec"], "spec") == []
