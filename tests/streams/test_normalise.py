"""What is kept of an audit log."""

import json
from typing import Any

from tests.streams import normalise

APPLY = "application/apply-patch+yaml"


def event(body: Any, verb: str = "patch", **more: Any) -> dict[str, Any]:
    return {
        "stage": "ResponseComplete",
        "verb": verb,
        "user": {"username": "trainer"},
        "userAgent": "trainer-controller-manager/v0.0.0 (linux/amd64)",
        "requestURI": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets/train?fieldManager=trainer&force=true&x=1",
        "objectRef": {"resource": "jobsets", "namespace": "ns", "name": "train"},
        "responseStatus": {"code": 200},
        "requestObject": body,
        "responseObject": {"spec": {"suspend": True}},
        **more,
    }


def writes(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return normalise.writes(events, ["trainer", "admin"], "ns")


def test_what_differs_from_run_to_run_becomes_a_variable():
    owner = {"kind": "TrainJob", "name": "train", "uid": "1234"}
    meta = {"namespace": "ns", "resourceVersion": "77", "ownerReferences": [owner], "managedFields": [{"a": 1}]}
    labels = {"workload": "trainjob-train-0a1b2"}
    [entry] = writes(event({"kind": "JobSet", "metadata": {**meta, "labels": labels}}))
    assert entry["request"] == {
        "client": "trainer",
        "userAgent": "trainer-controller-manager",
        "verb": "patch",
        "contentType": APPLY,
        "name": "train",
        "query": {"fieldManager": "trainer", "force": "true"},
        "body": {
            "kind": "JobSet",
            "metadata": {
                "namespace": "$namespace",
                "resourceVersion": "$resourceVersion",
                "ownerReferences": [{"kind": "TrainJob", "name": "train", "uid": "$uid"}],
                "labels": {"workload": "trainjob-train-00000"},
            },
        },
    }


def test_nulls_are_kept():
    body = {"kind": "JobSet", "metadata": {"creationTimestamp": None}}
    [entry] = writes(event(body))
    assert entry["request"]["body"] == body


def test_equal_requests_in_a_row_are_counted_and_refused_ones_left_out():
    merge, other = event({"spec": {"suspend": False}}), event({"spec": {"suspend": True}})
    refused = event({"spec": {}}, responseStatus={"code": 409})
    foreign = event({"spec": {}}, user={"username": "scheduler"})
    entries = writes(merge, merge, refused, foreign, other)
    assert [entry["times"] for entry in entries] == [2, 1]
    assert entries[0]["request"]["contentType"] == "application/merge-patch+json"


def test_a_set_that_a_webhook_has_suspended_is_marked():
    created = event({"metadata": {"name": "train"}, "spec": {}}, "create")
    asked = event({"metadata": {"name": "train"}, "spec": {"suspend": True}}, "create")
    assert ["suspendedByWebhook" in entry for entry in writes(created, asked)] == [True, False]


def test_only_answered_requests_are_read():
    lines = [json.dumps({**event({}), "stage": stage}).encode() for stage in ("ResponseStarted", "ResponseComplete")]
    assert len(list(normalise.events(lines))) == 1


def test_refusals_of_dry_runs_of_jobs_are_kept_once():
    status = {"code": 404, "reason": "NotFound", "message": 'admission webhook "mjob.kb.io" denied the request: x'}
    about = {"resource": "jobs", "namespace": "ns"}
    uri = "/apis/batch/v1/namespaces/ns/jobs?dryRun=All"
    asked = event(
        {"metadata": {"ownerReferences": [{}]}}, "create", objectRef=about, requestURI=uri, responseStatus=status
    )
    stored = {**asked, "requestURI": "/apis/batch/v1/namespaces/ns/jobs"}
    assert normalise.refusals([asked, asked, stored], "trainer", "ns") == [{"owners": 1, **status}]
