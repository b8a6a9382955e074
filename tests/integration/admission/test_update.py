"""JobSets that are changed on a real API server with our webhooks: what may change, when, and what is refused."""

import copy
from pathlib import Path

import pytest
import yaml

from api.keys import QUEUE_NAME
from dev.cluster.cluster import Cluster
from tests.support.cluster.admission_calls import create, manifest, path
from tests.support.cluster.requests import MERGE, request, wait_for
from tests.support.corpus.go_crd import without_our_fields
from tests.support.objects.jobsets import JSON, rjob

FINE_TUNING = Path(__file__).parents[3] / "examples" / "fine-tuning" / "jobset.yaml"


def merge(server: Cluster, ns: str, patch: JSON, name: str = "train") -> tuple[int, JSON]:
    return request(server, "PATCH", path(ns, name), patch, MERGE)


SCHEDULING = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "nodeSelector": {"zone": "z"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "schedulingGates": [{"name": "example.com/gate"}],
    },
}


def with_scheduling(js: JSON) -> JSON:
    pod = js["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    pod.setdefault("metadata", {}).update(copy.deepcopy(SCHEDULING["metadata"]))
    pod["spec"].update(copy.deepcopy(SCHEDULING["spec"]))
    return js


def test_a_queue_may_change_five_fields_on_resume_and_restore_them_on_suspension(server, ns):
    original = create(server, ns, manifest(ns, suspend=True))
    started = with_scheduling(copy.deepcopy(original))
    started["spec"]["suspend"] = False
    status, body = request(server, "PUT", path(ns, "train"), started)
    assert status == 200, body
    back = {**body, "spec": original["spec"]}
    status, body = request(server, "PUT", path(ns, "train"), back)
    assert status == 200, body
    assert "nodeSelector" not in body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    "spec",
    [
        {"managedBy": "acme.io/foo"},
        {"failurePolicy": {"maxRestarts": 9}},
        {"failurePolicy": None},
        {"replicatedJobs": []},
        {"volumeClaimPolicies": [{"templates": []}]},
        {"executionPolicy": {"executionPolicyOrder": "InOrder"}},
    ],
)
def test_what_is_immutable_can_be_neither_added_nor_changed_nor_removed(server, ns, spec):
    create(
        server,
        ns,
        manifest(
            ns,
            **({"failurePolicy": {"maxRestarts": 1}} if "failurePolicy" in spec and not spec["failurePolicy"] else {}),
        ),
    )
    status, body = merge(server, ns, {"spec": spec})
    assert status == 422, body
    assert body["details"]["causes"][0]["field"].startswith(f"spec.{next(iter(spec))}")
    assert "field is immutable" in body["message"] or "Value is immutable" in body["message"]


def test_removing_a_default_is_no_change_and_changing_it_is_refused_by_the_schema(server, ns):
    create(server, ns, manifest(ns))
    status, body = merge(server, ns, {"spec": {"successPolicy": None, "network": None, "startupPolicy": None}})
    assert status == 200, body
    assert body["metadata"]["generation"] == 1
    status, body = merge(server, ns, {"spec": {"successPolicy": {"operator": "Any"}}})
    assert status == 422
    assert "Value is immutable" in body["message"]


def test_what_was_stored_without_the_webhook_may_stay_and_be_labelled(server, ns):
    """Stored before the rules existed, by an older manager, or while no webhook answered."""
    bad = manifest(ns, rjob("a", exitCodePolicy={}), successPolicy={"minSucceeded": 99, "operator": "All"})
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    [name] = [item["metadata"]["name"] for item in request(server, "GET", hooks)[1]["items"]]
    saved = request(server, "GET", f"{hooks}/{name}")[1]
    try:
        assert request(server, "DELETE", f"{hooks}/{name}")[0] == 200
        wait_for(lambda: request(server, "POST", path(ns), bad)[0] in {201, 409}, what="nobody to refuse it")
    finally:
        metadata = {
            key: saved["metadata"][key] for key in ("name", "labels", "annotations") if key in saved["metadata"]
        }
        assert request(server, "POST", hooks, saved | {"metadata": metadata})[0] == 201
        wait_for(lambda: request(server, "POST", path(ns, query="?dryRun=All"), bad | {"metadata": {"name": "b"}})[0] == 422,
                 what="the webhook")  # fmt: skip
    assert merge(server, ns, {"metadata": {"labels": {"a": "b"}}})[0] == 200
    assert merge(server, ns, {"spec": {"suspend": True}})[0] == 200
    status, body = merge(server, ns, {"spec": {"successPolicy": {"minSucceeded": 98}}})
    assert (status, "Value is immutable" in body["message"]) == (422, True)


def test_an_elastic_set_gets_more_jobs_and_fewer_but_keeps_those_that_are_needed(server, ns):
    after = [{"name": "lead", "status": "Ready"}]
    rjobs = rjob("lead"), rjob("extra", replicas=2), rjob("work", replicas=3, dependsOn=after)
    create(server, ns, manifest(ns, *rjobs, successPolicy={"operator": "All", "targetReplicatedJobs": ["work"]}))

    def scale(*replicas: int) -> tuple[int, JSON]:
        new = request(server, "GET", path(ns, "train"))[1]
        for entry, number in zip(new["spec"]["replicatedJobs"], replicas, strict=True):
            entry["replicas"] = number
        return request(server, "PUT", path(ns, "train"), new)

    for replicas in ((2, 2, 7), (1, 0, 1), (1, 4, 2)):
        status, body = scale(*replicas)
        assert status == 200, body
        assert [entry["replicas"] for entry in body["spec"]["replicatedJobs"]] == list(replicas)
    status, body = scale(0, 0, 0)
    assert (status, body["reason"]) == (422, "Invalid")
    causes = {cause["field"]: cause["message"] for cause in body["details"]["causes"]}
    assert set(causes) == {"spec.replicatedJobs[0].replicas", "spec.replicatedJobs[2].replicas"}
    assert "replicatedJob 'work' depends on replicatedJob 'lead'" in causes["spec.replicatedJobs[0].replicas"]
    assert "the success policy targets replicatedJob 'work'" in causes["spec.replicatedJobs[2].replicas"]

    ended = {"type": "Completed", "status": "True", "reason": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    stored = {"status": {"conditions": [{**ended, "message": ""}]}}
    assert request(server, "PATCH", path(ns, "train/status"), stored, MERGE)[0] == 200
    status, body = scale(1, 4, 3)
    assert (status, [cause["field"] for cause in body["details"]["causes"]]) == (
        422,
        ["spec.replicatedJobs[2].replicas"],
    )
    assert "Cannot mutate replicas when JobSet is in a terminal state" in body["message"]


def with_resources(js: JSON, resources: JSON, *, suspend: bool) -> JSON:
    new = copy.deepcopy(js)
    new["spec"]["suspend"] = suspend
    pod = new["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["resources"] = resources
    return new


def test_the_resources_of_a_suspended_set_may_change_to_such_as_a_pod_may_have(server, ns):
    js = create(server, ns, manifest(ns, suspend=True))
    small, large = ({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}} for cpu in ("1", "8"))
    for resources, suspend in ((small, True), (large, False), (small, True)):
        status, js = request(server, "PUT", path(ns, "train"), with_resources(js, resources, suspend=suspend))
        assert status == 200, js
        pod = js["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        assert pod["containers"][0]["resources"] == resources
    place = "spec.replicatedJobs[0].template.spec.template.spec.containers[0].resources"
    upside_down = {"requests": {"cpu": "4"}, "limits": {"cpu": "2"}}
    for resources, suspend, field, words in (
        (upside_down, True, f"{place}.requests", "must be less than or equal to cpu limit of 2; lower the request or"),
        (upside_down, False, f"{place}.requests", "must be less than or equal to cpu limit of 2; lower the request or"),
        ({"limits": {"cpu": "a lot"}}, True, f"{place}.limits.cpu", "is not a quantity"),
        ({"limits": {"bogus": "1"}}, True, f"{place}.limits.bogus", "must be a standard resource"),
    ):
        status, body = request(server, "PUT", path(ns, "train"), with_resources(js, resources, suspend=suspend))
        assert status == 422, body
        causes = {cause["field"]: cause["message"] for cause in body["details"]["causes"]}
        assert words in causes.get(field, ""), causes


def test_a_typed_merge_patch_resumes_and_stops_the_example_of_fine_tuning(server, ns):
    js = yaml.safe_load(FINE_TUNING.read_text(encoding="utf-8"))
    js["metadata"] |= {"name": "train", "namespace": ns, "labels": {QUEUE_NAME: "q"}}
    js["spec"]["suspend"] = True
    original = create(server, ns, js)
    assert any("exitCodePolicy" in each for each in original["spec"]["replicatedJobs"])
    for suspend in (False, True):
        groups = without_our_fields(original)["spec"]["replicatedJobs"]
        for each in () if suspend else groups:
            each["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"rack": "1"}
        status, body = merge(server, ns, {"spec": {"suspend": suspend, "replicatedJobs": groups}})
        assert status == 200, body
        policies = [each.get("exitCodePolicy") for each in body["spec"]["replicatedJobs"]]
        assert policies == [each.get("exitCodePolicy") for each in original["spec"]["replicatedJobs"]]
    assert body["spec"] == original["spec"]


def test_finalizers_can_be_taken_off_an_object_that_is_being_deleted(server, ns):
    js = manifest(ns)
    js["metadata"]["finalizers"] = ["example.com/hold"]
    create(server, ns, js)
    assert request(server, "DELETE", path(ns, "train"))[0] == 200
    assert merge(server, ns, {"metadata": {"finalizers": None}})[0] == 200
    wait_for(lambda: request(server, "GET", path(ns, "train"))[0] == 404, what="the JobSet to go")
