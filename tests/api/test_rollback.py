"""What would behave otherwise under the Go JobSet."""

import re

import pytest

from api.keys import PLACEMENT_GATE
from api.own_fields import OWN_FIELDS
from api.rollback import UNREAD_ANNOTATIONS, completed_job_concerns, has_completed_jobs, pod_concerns, spec_concerns
from manifests import crd
from tests.support.corpus.go_crd import dropped


def stored(spec, meta=None, **status):
    return {"metadata": {"namespace": "ns", "name": "train", **(meta or {})}, "spec": spec, "status": status}


def concerned(spec, meta=None, **status):
    return [(concern.path, concern.happens) for concern in spec_concerns(stored(spec, meta, **status))]


CASES = [
    ({"executionPolicy": {"executionPolicyOrder": "InOrder"}}, "spec.executionPolicy"),
    ({"scheduling": {}}, "spec.scheduling"),
    ({"activeDeadlineSeconds": 60}, "spec.activeDeadlineSeconds"),
    ({"successPolicy": {"operator": "All", "minSucceeded": "80%"}}, "spec.successPolicy.minSucceeded"),
    ({"successPolicy": {"operator": "All", "unit": "Pod"}}, "spec.successPolicy.unit"),
    ({"failurePolicy": {"failOn": "FailureTarget"}}, "spec.failurePolicy.failOn"),
    ({"failurePolicy": {"inPlaceRestarts": 2}}, "spec.failurePolicy.inPlaceRestarts"),
    ({"failurePolicy": {"startTimeoutSeconds": 600}}, "spec.failurePolicy.startTimeoutSeconds"),
    ({"failurePolicy": {"nodeFailure": {"afterSeconds": 30}}}, "spec.failurePolicy.nodeFailure"),
    ({"failurePolicy": {"maintenance": {"taintKeys": ["drain"]}}}, "spec.failurePolicy.maintenance"),
    ({"failurePolicy": {"avoidNodes": {}}}, "spec.failurePolicy.avoidNodes"),
    ({"failurePolicy": {"rules": [{}, {"onExitCodes": {}}]}}, "spec.failurePolicy.rules[1].onExitCodes"),
    ({"failurePolicy": {"rules": [{"onPodReasons": ["Evicted"]}]}}, "spec.failurePolicy.rules[0].onPodReasons"),
    ({"failurePolicy": {"rules": [{"maxRestarts": 0}]}}, "spec.failurePolicy.rules[0].maxRestarts"),
    ({"failurePolicy": {"rules": [{"then": [{"afterRestarts": 1}]}]}}, "spec.failurePolicy.rules[0].then"),
    ({"failurePolicy": {"rules": [{"action": "RestartReplicatedJob"}]}}, "spec.failurePolicy.rules[0].action"),
    ({"replicatedJobs": [{"exitCodePolicy": {}}]}, "spec.replicatedJobs[0].exitCodePolicy"),
    ({"replicatedJobs": [{"elastic": {}}]}, "spec.replicatedJobs[0].elastic"),
    ({"replicatedJobs": [{"spareFor": "w"}]}, "spec.replicatedJobs[0].spareFor"),
]


@pytest.mark.parametrize(("spec", "path"), CASES)
def test_each_field_that_go_drops_is_named_where_it_stands(spec, path):
    assert [found for found, _ in concerned(spec)] == [path]


@pytest.mark.parametrize(("spec", "path"), CASES)
def test_sets_that_have_finished_or_end_or_are_not_ours_are_not_concerned(spec, path):
    assert concerned(spec, terminalState="Completed") == []
    assert concerned(spec, terminalState="Failed") == []
    assert concerned(spec, {"deletionTimestamp": "2026-01-01T00:00:00Z"}) == []
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
    assert [(concern.kind, concern.path) for concern in pod_concerns(pod)] == [("Pod", "spec.schedulingGates[1]")]
    assert list(pod_concerns({"metadata": meta, "spec": {"schedulingGates": [{"name": "other"}]}})) == []


def test_a_pod_in_deletion_needs_no_release():
    meta = {"namespace": "ns", "name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert list(pod_concerns({"metadata": meta, "spec": {"schedulingGates": [{"name": PLACEMENT_GATE}]}})) == []


COMPLETED = {
    "spec": {"replicatedJobs": [{"name": "a", "replicas": 4}, {"name": "b"}]},
    "replicatedJobsStatus": [{"name": "b", "completedIndexes": "0"}, {"name": "a", "completedIndexes": "0,2-9"}],
}


@pytest.mark.parametrize(
    ("jobs", "found"),
    [
        ({"train-a-0", "train-a-1", "train-a-2", "train-a-3", "train-b-0"}, []),
        (
            {"train-a-1", "train-a-2"},
            [
                ("status.replicatedJobsStatus[0].completedIndexes", "1, the first of them train-b-0"),
                ("status.replicatedJobsStatus[1].completedIndexes", "2, the first of them train-a-0"),
            ],
        ),
    ],
)
def test_completed_jobs_that_are_gone_are_named(jobs, found):
    js = stored(**COMPLETED)
    assert has_completed_jobs(js)
    concerns = list(completed_job_concerns(js, jobs))
    assert [(concern.path, concern.happens.rpartition(": ")[2]) for concern in concerns] == found
    assert {(concern.kind, concern.name) for concern in concerns} <= {("JobSet", "train")}


@pytest.mark.parametrize("key", UNREAD_ANNOTATIONS)
@pytest.mark.parametrize(("value", "acts"), [("true", True), ("false", False), ("", False)])
def test_annotations_that_go_does_not_read_are_named(key, value, acts):
    found = [path for path, _ in concerned({}, {"annotations": {key: value}})]
    assert found == ([f"metadata.annotations[{key}]"] if acts else [])


def test_jobs_are_only_needed_of_running_sets_with_completed_ones():
    assert not has_completed_jobs(stored(**COMPLETED, terminalState="Completed"))
    assert not has_completed_jobs(stored(COMPLETED["spec"]))
    none = [{"name": "a", "completedIndexes": ""}, {"name": "gone", "completedIndexes": "0"}]
    assert not has_completed_jobs(stored(COMPLETED["spec"], replicatedJobsStatus=none))


def test_every_field_that_the_go_crd_does_not_have_is_known():
    paths = {f"spec.{'.'.join(parts)}".replace(".*", "[]") for parts in OWN_FIELDS}
    assert paths == {path for path in dropped() if path.startswith("spec.")}, "api/own_fields.py has each"


def ours(schema, path=""):
    """Paths of the fields that the CRD says the Go JobSet does not have, the outermost of each."""
    if re.search(r"Not in the\s+Go JobSet", schema.get("description", "")) and path:
        yield path
        return
    for name, inner in schema.get("properties", {}).items():
        yield from ours(inner, f"{path}.{name}".lstrip("."))
    if isinstance(schema.get("items"), dict):
        yield from ours(schema["items"], f"{path}[]")


def test_what_the_crd_says_of_the_go_jobset_is_true():
    [version] = crd()["spec"]["versions"]
    assert set(ours(version["schema"]["openAPIV3Schema"])) <= dropped()
