"""What would behave otherwise under the Go JobSet."""

import re
from pathlib import Path

import pytest
import yaml

from api.keys import PLACEMENT_GATE
from app.rollback.concerns import DROPPED, of_jobset, of_pod

CRD = Path(__file__).parents[2] / "manifests" / "crd"


def concerned(spec, **status):
    js = {"metadata": {"namespace": "ns", "name": "train"}, "spec": spec, "status": status}
    return [(concern.path, concern.happens) for concern in of_jobset(js)]


CASES = [
    ({"executionPolicy": {"executionPolicyOrder": "InOrder"}}, "spec.executionPolicy"),
    ({"scheduling": {}}, "spec.scheduling"),
    ({"successPolicy": {"operator": "All", "minSucceeded": "80%"}}, "spec.successPolicy.minSucceeded"),
    ({"successPolicy": {"operator": "All", "unit": "Pod"}}, "spec.successPolicy.unit"),
    ({"failurePolicy": {"failOn": "FailureTarget"}}, "spec.failurePolicy.failOn"),
    ({"failurePolicy": {"rules": [{}, {"onExitCodes": {}}]}}, "spec.failurePolicy.rules[1].onExitCodes"),
    ({"failurePolicy": {"rules": [{"maxRestarts": 0}]}}, "spec.failurePolicy.rules[0].maxRestarts"),
    ({"failurePolicy": {"rules": [{"action": "RestartReplicatedJob"}]}}, "spec.failurePolicy.rules[0].action"),
    ({"replicatedJobs": [{"exitCodePolicy": {}}]}, "spec.replicatedJobs[0].exitCodePolicy"),
]


@pytest.mark.parametrize(("spec", "path"), CASES)
def test_each_field_that_go_drops_is_named_where_it_stands(spec, path):
    assert [found for found, _ in concerned(spec)] == [path]


@pytest.mark.parametrize(("spec", "path"), CASES)
def test_sets_that_have_finished_or_are_not_ours_are_not_concerned(spec, path):
    assert concerned(spec, terminalState="Completed") == []
    assert concerned({**spec, "managedBy": "kueue.x-k8s.io/multikueue"}) == []
    assert [found for found, _ in concerned({**spec, "managedBy": "jobset.sigs.k8s.io/jobset-controller"})] == [path]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"executionPolicy": {"executionPolicyOrder": "AnyOrder"}, "successPolicy": {"operator": "All", "unit": "Job"}},
        {"failurePolicy": {"failOn": "JobFailed", "rules": [{"action": "RestartJob"}]}, "scheduling": None},
        {"replicatedJobs": [{"name": "a", "replicas": 2}], "failurePolicy": None},
    ],
)
def test_what_go_does_alike_is_not_named(spec):
    assert concerned(spec) == []


def test_a_pod_that_only_we_release_is_named():
    meta = {"namespace": "ns", "name": "p"}
    pod = {"metadata": meta, "spec": {"schedulingGates": [{"name": "other"}, {"name": PLACEMENT_GATE}]}}
    assert [(concern.kind, concern.path) for concern in of_pod(pod)] == [("Pod", "spec.schedulingGates[1]")]
    assert list(of_pod({"metadata": meta, "spec": {"schedulingGates": [{"name": "other"}]}})) == []


def extensions(schema, path=()):
    """Paths of the fields that the CRD says the Go JobSet does not have, the outermost of each."""
    if re.search(r"Not in the\s+Go JobSet", schema.get("description", "")) and path:
        yield path
        return
    for name, inner in schema.get("properties", {}).items():
        yield from extensions(inner, (*path, name))
    if isinstance(schema.get("items"), dict):
        yield from extensions(schema["items"], (*path, "*"))


def test_every_field_of_the_crd_that_go_has_not_is_known():
    crds = [yaml.safe_load(file.read_text()) for file in CRD.rglob("*.yaml")]
    crd = next(each for each in crds if each.get("kind") == "CustomResourceDefinition")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert set(extensions(schema)) == set(DROPPED)
