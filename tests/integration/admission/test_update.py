"""JobSets that are changed on a real API server with our webhooks: what may change, and what stays.

What is refused is in the corpus (test_corpus_server.py); the five fields of queues are in e2e/test_client_contract.py.
"""

from dev.cluster.cluster import Cluster
from tests.support.cluster.admission_calls import create, manifest, path
from tests.support.cluster.requests import MERGE, request, wait_for
from tests.support.objects.jobsets import JSON, rjob


def merge(server: Cluster, ns: str, patch: JSON, name: str = "train") -> tuple[int, JSON]:
    return request(server, "PATCH", path(ns, name), patch, MERGE)


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


def test_the_resources_of_a_suspended_set_may_change(server, ns):
    js = create(server, ns, manifest(ns, suspend=True))
    small, large = ({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}} for cpu in ("1", "8"))
    for resources, suspend in ((small, True), (large, False), (small, True)):
        js["spec"]["suspend"] = suspend
        js["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] = (
            resources
        )
        status, stored = request(server, "PUT", path(ns, "train"), js)
        assert (status, stored["spec"]) == (200, js["spec"])
        js = stored


def test_finalizers_can_be_taken_off_an_object_that_is_being_deleted(server, ns):
    js = manifest(ns)
    js["metadata"]["finalizers"] = ["example.com/hold"]
    create(server, ns, js)
    assert request(server, "DELETE", path(ns, "train"))[0] == 200
    assert merge(server, ns, {"metadata": {"finalizers": None}})[0] == 200
    wait_for(lambda: request(server, "GET", path(ns, "train"))[0] == 404, what="the JobSet to go")
