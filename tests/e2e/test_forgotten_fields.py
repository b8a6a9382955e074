"""What each way of writing does with fields that the client does not know, on a real API server.

See docs/reference/validation.md#fields-that-a-client-leaves-out and #copies-in-worker-clusters.
"""

import copy
import json

import pytest

from api.keys import MULTIKUEUE, OWN_FIELDS_COPY, QUEUE_NAME, REMOVED_FIELDS
from tests.support.cluster.client_calls import update
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import MERGE, kubectl_apply, request
from tests.support.corpus.go_crd import worker_copy
from tests.support.objects.jobsets import JSON

pytestmark = pytest.mark.manager(featureGates={"JobSetActiveDeadlineSeconds": True})
APPLY, JSON_PATCH = "application/apply-patch+yaml", "application/json-patch+json"


def with_our_fields(name: str = "js", **spec: object) -> JSON:
    """A suspended JobSet with fields that a typed client forgets, one of which may be removed at any time."""
    pod = {"volumes": [{"name": "v", "emptyDir": {"mode": 0o755}}]}
    workers = group(pod=pod, exitCodePolicy={"permanent": [3]})
    return manifest(workers, name=name, suspend=True, activeDeadlineSeconds=600, **spec)


def forget(js: JSON) -> JSON:
    """The object as a client writes it back that has read it with the types of the Go JobSet."""
    known = copy.deepcopy(js)
    for rjob in known["spec"]["replicatedJobs"]:
        del rjob["exitCodePolicy"]
    del known["spec"]["activeDeadlineSeconds"]
    return known


def created(sets: Sets) -> tuple[str, JSON]:
    """The path of a JobSet with those fields, and the object as it is stored."""
    place = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{sets.namespace}/jobsets"
    status, stored = request(sets.cluster, "POST", place, with_our_fields())
    assert status == 201, f"{stored}"
    return f"{place}/js", stored


@pytest.mark.parametrize("write", ["PUT", "PATCH"])
def test_a_client_of_gos_types_resumes_a_set_by_a_put_or_a_merge_patch(sets: Sets, write: str):
    place, stored = created(sets)
    spec = {**forget(stored)["spec"], "suspend": False}
    if write == "PUT":
        status, answer = update(sets, lambda found: {**found, "spec": spec})
    else:
        status, answer = request(sets.cluster, write, place, {"spec": spec}, MERGE)
    assert status == 200, f"{answer}"
    assert answer["spec"] == {**stored["spec"], "suspend": False}
    assert answer["metadata"]["generation"] == stored["metadata"]["generation"] + 1
    sets.wait_ready(1)


def test_a_queue_of_an_older_kubernetes_resumes_a_set_with_newer_fields_of_pods(sets: Sets):
    place, stored = created(sets)
    groups = forget(stored)["spec"]["replicatedJobs"]
    pod = groups[0]["template"]["spec"]["template"]
    del pod["spec"]["volumes"][0]["emptyDir"]["mode"]
    pod["spec"]["nodeSelector"] = {"kubernetes.io/os": "linux"}
    patch = {"suspend": False, "replicatedJobs": groups}
    status, answer = request(sets.cluster, "PATCH", place, {"spec": patch}, MERGE)
    assert status == 200, f"{answer}"
    [found] = answer["spec"]["replicatedJobs"]
    assert found["exitCodePolicy"] == {"permanent": [3]}
    assert found["template"]["spec"]["template"]["spec"]["volumes"] == [{"name": "v", "emptyDir": {"mode": 0o755}}]
    assert found["template"]["spec"]["template"]["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}


def test_what_a_json_patch_removes_is_put_back_unless_the_annotation_names_it(sets: Sets):
    place, _ = created(sets)
    remove = {"op": "remove", "path": "/spec/activeDeadlineSeconds"}
    status, answer = request(sets.cluster, "PATCH", place, [remove], JSON_PATCH)
    assert (status, answer["spec"].get("activeDeadlineSeconds")) == (200, 600), answer
    name = {"op": "add", "path": "/metadata/annotations", "value": {REMOVED_FIELDS: "activeDeadlineSeconds"}}
    status, answer = request(sets.cluster, "PATCH", place, [remove, name], JSON_PATCH)
    assert status == 200, f"{answer}"
    assert "activeDeadlineSeconds" not in answer["spec"]


@pytest.mark.parametrize("applier", ["flux", "other"])
def test_a_server_side_apply_removes_what_its_manager_owned_alone(sets: Sets, applier: str):
    place = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{sets.namespace}/jobsets/js?force=true&fieldManager="
    body = with_our_fields()
    status, stored = request(sets.cluster, "PATCH", f"{place}flux", body, APPLY)
    assert status == 201, f"{stored}"
    del body["spec"]["activeDeadlineSeconds"]
    status, answer = request(sets.cluster, "PATCH", f"{place}{applier}", body, APPLY)
    assert status == 200, f"{answer}"
    assert ("activeDeadlineSeconds" in answer["spec"]) == (applier == "other")


def test_kubectl_apply_of_a_manifest_without_the_field_removes_it(sets: Sets):
    body = with_our_fields()
    kubectl_apply(sets.cluster, sets.namespace, body)
    del body["spec"]["activeDeadlineSeconds"]
    assert "put back" not in kubectl_apply(sets.cluster, sets.namespace, body)
    assert "activeDeadlineSeconds" not in (sets.get() or {})["spec"]


def test_a_status_written_with_a_whole_typed_object_changes_nothing_of_the_spec(sets: Sets):
    place, stored = created(sets)
    body = {**forget(stored), "status": {"restarts": 0}}
    del body["metadata"]["resourceVersion"]
    status, answer = request(sets.cluster, "PATCH", f"{place}/status", body, MERGE)
    assert (status, answer["spec"]) == (200, stored["spec"])


def copies(sets: Sets) -> tuple[str, JSON, JSON]:
    """The path of JobSets, a set that MultiKueue copies, and what it creates of that; the copy has a name of its own."""
    place = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{sets.namespace}/jobsets"
    body = with_our_fields("hub", managedBy=MULTIKUEUE)
    body["metadata"]["labels"] = {QUEUE_NAME: "q"}
    status, hub = request(sets.cluster, "POST", place, body)
    assert status == 201, f"{hub}"
    sent = worker_copy(hub)
    sent["metadata"]["name"] = "js"
    return place, hub, sent


def test_a_copy_by_multikueue_is_restored_and_resumed_by_a_typed_merge_patch(sets: Sets):
    place, hub, sent = copies(sets)
    assert "activeDeadlineSeconds" not in sent["spec"]
    status, stored = request(sets.cluster, "POST", place, sent)
    assert status == 201, f"{stored}"
    assert {**stored["spec"], "managedBy": MULTIKUEUE} == hub["spec"]
    spec = {**forget(stored)["spec"], "suspend": False}
    status, answer = request(sets.cluster, "PATCH", f"{place}/js", {"spec": spec}, MERGE)
    assert (status, answer["spec"]) == (200, {**stored["spec"], "suspend": False}), f"{answer}"
    assert answer["metadata"]["annotations"] == stored["metadata"]["annotations"]
    sets.wait_ready(1)


def test_by_the_annotation_of_a_copy_nothing_is_stored_that_no_field_could_be(sets: Sets):
    place, _, sent = copies(sets)
    policy = {"permanent": [3], "other": [3]}
    sent["metadata"]["annotations"][OWN_FIELDS_COPY] = json.dumps({"replicatedJobs[workers].exitCodePolicy": policy})
    assert request(sets.cluster, "POST", place, sent)[0] == 201
    [found] = (sets.get() or {})["spec"]["replicatedJobs"]
    assert found["exitCodePolicy"] == {"permanent": [3]}
    sent["metadata"]["annotations"][OWN_FIELDS_COPY] = '{"suspend": false}'
    status, answer = request(
        sets.cluster, "POST", f"{place}?dryRun=All", {**sent, "metadata": {**sent["metadata"], "name": "other"}}
    )
    assert status == 422
    assert "does not say what the spec says: suspend" in answer["message"]
