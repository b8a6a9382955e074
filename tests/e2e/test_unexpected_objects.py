"""Objects that are not as they should be: somebody else's, in deletion for ever, mislabelled, of the same name."""

from collections import Counter
from typing import Any

import pytest

from dev.cluster import audit
from tests.support.cluster.jobs import JOBSETS, group, manifest
from tests.support.cluster.manager import USER
from tests.support.cluster.requests import MERGE, kubectl, request, wait_for

PREFIX = "jobset.sigs.k8s.io/"
RETRY = 10
"""Seconds after which a name that is taken is looked at again (`Limits.name_conflict_retry_seconds`)."""


def url(sets, name: str, kind: str = "jobs") -> str:
    root = {"jobs": "/apis/batch/v1"}.get(kind, "/api/v1")
    return f"{root}/namespaces/{sets.namespace}/{kind}/{name}"


def patch(sets, name: str, meta: dict[str, Any]) -> None:
    code, answer = request(sets.cluster, "PATCH", url(sets, name), {"metadata": meta}, MERGE)
    assert code == 200, answer


def delete(sets, name: str, kind: str = "jobs", propagation: str = "Background") -> None:
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    assert request(sets.cluster, "DELETE", url(sets, name, kind), body)[0] in {200, 202}


def event_note(sets, reason: str, name: str = "js") -> str:
    """The note of the first event of that reason, as soon as there is one."""
    return wait_for(lambda: [e[2] for e in sets.events(name) if e[1] == reason], what=reason)[0]


def landlord(sets) -> dict[str, Any]:
    """A reference to an owner that exists, so that the garbage collector leaves what it owns alone."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "landlord"}}
    code, answer = request(sets.cluster, "POST", f"/api/v1/namespaces/{sets.namespace}/configmaps", body)
    assert code == 201, answer
    uid = answer["metadata"]["uid"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "landlord", "uid": uid, "controller": True}


def foreign_job(sets, name: str, **meta: Any) -> None:
    spec = {**group()["template"]["spec"], "suspend": True}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, **meta}, "spec": spec}
    code, answer = request(sets.cluster, "POST", url(sets, "").rstrip("/"), body)
    assert code == 201, answer


def writes(sets, start: int) -> Counter[tuple[str, str, int]]:
    """What the manager wrote, or tried to, in this namespace since then; dry runs are admission's."""
    return Counter(
        (call.verb, call.resource, call.code)
        for call in audit.calls(sets.cluster.audit_log, start, sets.namespace)
        if call.user == USER
        and call.namespace == sets.namespace
        and call.verb not in {"get", "list", "watch"}
        and not call.dry_run
    )


def test_unreadable_labels_on_one_job_spoil_that_job_only(sets):
    sets.apply(manifest(group(replicas=3)))
    sets.wait_ready(3)
    patch(sets, "js-workers-1", {"labels": {f"{PREFIX}restart-attempt": "x"}})
    assert "'js-workers-1'" in event_note(sets, "StrayJob")
    wait_for(lambda: sets.counts()["ready"] == 2)
    sets.patch({"suspend": True})
    wait_for(lambda: sets.counts()["suspended"] == 2 and len(sets.pods()) == 1)
    sets.patch({"suspend": False})
    wait_for(lambda: sets.counts()["ready"] == 2)
    delete(sets, "js-workers-1")
    sets.wait_ready(3)


def test_a_job_that_stays_in_deletion_holds_up_only_its_own_successor(sets):
    sets.apply(manifest(group(replicas=3), failurePolicy={"maxRestarts": 1}))
    sets.wait_ready(3)
    patch(sets, "js-workers-0", {"finalizers": ["example.com/hold"]})
    delete(sets, "js-workers-0")
    wait_for(lambda: len(sets.jobs()) == 2)
    [pod] = sets.pods(f"{PREFIX}job-index=1")
    start = audit.log_size(sets.cluster.audit_log)
    sets.end(pod, 1)
    wait_for(lambda: sets.status()["restarts"] == 1)
    wait_for(lambda: sets.counts()["ready"] == 2, what="the others of the new attempt")
    before = writes(sets, start)
    assert before["create", "jobs", 201] == 2
    assert before["create", "jobs", 409] == 0, "its name is not tried"
    assert sets.condition("RestartingJobSet")["status"] == "True"
    patch(sets, "js-workers-0", {"finalizers": None})
    sets.wait_ready(3)
    wait_for(lambda: sets.condition("RestartingJobSet")["status"] == "False")
    assert writes(sets, start)["create", "jobs", 201] == 3


def test_a_foreign_job_is_reported_with_its_owner_and_replaced_when_it_goes(sets):
    foreign_job(sets, "js-workers-1", ownerReferences=[landlord(sets)], labels={f"{PREFIX}jobset-name": "js"})
    sets.apply(manifest(group(replicas=3)))
    note = event_note(sets, "JobCreationFailed")
    assert "js-workers-1" in note
    assert "ConfigMap" in note
    assert "landlord" in note
    assert "delete or rename it" in note
    wait_for(lambda: sets.counts().get("ready") == 2, what="the others run, and are counted")
    foreign = request(sets.cluster, "GET", url(sets, "js-workers-1"))[1]
    assert foreign["metadata"]["ownerReferences"][0]["name"] == "landlord"
    assert foreign["metadata"]["generation"] == 1, "it is not touched"
    delete(sets, "js-workers-1")
    sets.wait_ready(3, timeout=RETRY + 20)


@pytest.mark.slow
def test_a_foreign_service_is_reported_with_its_owner_and_replaced_when_it_goes(sets):
    ports = {"clusterIP": "None", "selector": {"app": "web"}}
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "js", "ownerReferences": [landlord(sets)]},
        "spec": ports,
    }
    services = url(sets, "", "services").rstrip("/")
    assert request(sets.cluster, "POST", services, body)[0] == 201
    sets.apply(manifest(group(replicas=2)))
    note = event_note(sets, "HeadlessServiceCreationFailed")
    assert "Service js exists already and belongs to ConfigMap landlord" in note
    sets.wait_ready(2)
    delete(sets, "js", "services")

    def ours() -> bool:
        spec = request(sets.cluster, "GET", f"{services}/js")[1].get("spec", {})
        return spec.get("selector") == {f"{PREFIX}jobset-name": "js"}

    wait_for(ours, timeout=RETRY + 10, what="our Service")


def test_a_subdomain_that_two_sets_share_passes_to_the_second_when_the_first_goes(sets):
    network = {"subdomain": "shared"}
    sets.apply(manifest(group(), name="first", network=network))
    sets.wait_ready(1, "first")
    sets.apply(manifest(group(), name="second", network=network))
    assert "belongs to JobSet first" in event_note(sets, "HeadlessServiceCreationFailed", "second")
    sets.wait_ready(1, "second")
    old = service(sets, "shared")["metadata"]["uid"]
    kubectl(sets.cluster, "delete", "jobset", "first", namespace=sets.namespace)
    wait_until_collected(sets, "shared", old)
    selector = {f"{PREFIX}jobset-name": "second"}
    wait_for(lambda: service(sets, "shared").get("spec", {}).get("selector") == selector, what="a Service of its own")


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_namespace_in_deletion_is_left_in_peace(sets, manager):
    sets.apply(manifest(group(replicas=20), failurePolicy={"maxRestarts": 5}))
    sets.wait_ready(20)
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    held_url = url(sets, "held", "configmaps")
    assert request(sets.cluster, "POST", held_url.removesuffix("/held"), held)[0] == 201
    start = audit.log_size(sets.cluster.audit_log)
    kubectl(sets.cluster, "delete", "namespace", sets.namespace, "--wait=false")
    wait_for(lambda: sets.get() is None and sets.jobs() == [] and sets.pods() == [], what="all but what is held")
    at_rest = writes(sets, start)
    refused = sum(count for (_, _, code), count in at_rest.items() if code == 403)
    assert refused <= 5 * 20 + 10, "not more than a few for each Job, and some events"
    start = audit.log_size(sets.cluster.audit_log)
    code = request(sets.cluster, "PATCH", held_url, {"metadata": {"finalizers": None}}, MERGE)[0]
    assert code == 200
    wait_for(lambda: request(sets.cluster, "GET", f"/api/v1/namespaces/{sets.namespace}")[0] == 404, what="its end")
    assert sum(writes(sets, start).values()) == 0, "nothing is asked of a namespace that is empty"


def test_a_new_set_of_the_same_name_starts_from_zero(sets):
    body = manifest(group(replicas=3), failurePolicy={"maxRestarts": 1})
    sets.apply(body)
    sets.wait_ready(3)
    sets.end(sets.pods()[0], 1)
    wait_for(lambda: sets.status()["restarts"] == 1 and sets.counts()["ready"] == 3, timeout=60)
    old, pods = sets.get()["metadata"]["uid"], {p["metadata"]["uid"] for p in sets.pods()}
    service_uid = service(sets, "js")["metadata"]["uid"]
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    path = JOBSETS.format(sets.namespace)
    assert request(sets.cluster, "DELETE", f"{path}/js", options)[0] == 200
    wait_for(lambda: request(sets.cluster, "POST", path, body)[0] == 201, what="the name is free")
    sets.wait_ready(3, timeout=60)
    new = sets.get()
    assert new["metadata"]["uid"] != old
    assert new["status"]["restarts"] == 0
    owners = {job["metadata"]["ownerReferences"][0]["uid"] for job in sets.jobs()}
    assert owners == {new["metadata"]["uid"]}
    assert pods.isdisjoint(p["metadata"]["uid"] for p in sets.pods())
    wait_until_collected(sets, "js", service_uid)
    wait_for(lambda: owner_of_service(sets) == new["metadata"]["uid"], what="a Service of its own")
    assert [note for kind, _, note in sets.events() if kind == "Warning" and "belongs to" in note] == []


def service(sets, name: str) -> dict[str, Any]:
    """The Service, or the answer that there is none."""
    return request(sets.cluster, "GET", url(sets, name, "services"))[1]


def wait_until_collected(sets, name: str, uid: str) -> None:
    """The garbage collector deletes what belonged to the old set. While it learns of new types, it stands still."""
    wait_for(lambda: service(sets, name)["metadata"].get("uid") != uid, timeout=90, what="garbage collection")


def owner_of_service(sets) -> str:
    return next((ref["uid"] for ref in service(sets, "js")["metadata"].get("ownerReferences", [])), "")
