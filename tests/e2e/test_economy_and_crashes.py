"""How little is asked of the API server, counted in its audit log, and that a crash at any moment changes nothing."""

import time

import pytest

from controllers.jobset.unscheduled_pods import FIRST_CHECK
from dev.cluster import audit
from manifests import NAMESPACE
from tests.support.cluster.jobs import JOBSETS, group, manifest
from tests.support.cluster.manager import USER
from tests.support.cluster.requests import request, wait_for


def created(sets) -> int:
    return len(sets.jobs())


def some_of_attempt(sets, number: int) -> bool:
    """Whether ten Jobs of an attempt are there; cheap enough to be asked while the others are being created."""
    selector = f"jobset.sigs.k8s.io/restart-attempt={number}"
    path = f"/apis/batch/v1/namespaces/{sets.namespace}/jobs?limit=10&labelSelector={selector}"
    return len(request(sets.cluster, "GET", path)[1]["items"]) == 10


@pytest.mark.timeout(240)
@pytest.mark.parametrize("number", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_jobs_are_created_with_one_call_each_and_deleted_thirty_at_a_time(sets, manager, number):
    start = audit.log_size(sets.cluster.audit_log)
    sets.apply(manifest(group(replicas=number), failurePolicy={"maxRestarts": 1}))
    sets.wait_ready(number, timeout=100)
    calls = manager.calls(start, namespace=sets.namespace)
    assert calls["create", "jobs", 201] == number
    assert calls["create", "services", 201] == 1
    asked = manager.calls(start, dry_run=True, namespace=sets.namespace)
    assert asked == {("create", "jobs", 201): 1, ("create", "services", 201): 1}, "one of each kind, at admission"
    assert 1 <= calls["patch", "jobsets/status", 200] <= 20
    assert {key for key in calls if key[2] >= 400} == set(), "nothing refused, nothing in conflict"
    assert sum(n for (verb, *_), n in calls.items() if verb in {"get", "list"}) == 0, "caches answer all reads"

    start, begun = audit.log_size(sets.cluster.audit_log), time.monotonic()
    sets.end(sets.pods()[0], 1)
    wait_for(lambda: sets.status()["restarts"] == 1, timeout=60)
    sets.wait_ready(number, timeout=150)
    looks = (time.monotonic() - begun) // FIRST_CHECK
    calls = manager.calls(start, namespace=sets.namespace)
    assert calls["create", "jobs", 201] == number
    assert calls["deletecollection", "jobs", 200] == number / 30
    assert calls["delete", "jobs", 200] == 0
    assert 2 <= calls["patch", "jobsets/status", 200] <= 20
    lists = calls["list", "pods", 200]
    assert 1 <= lists <= 1 + looks, "one about the failed Job's pods, others about pods that find no node for long"
    assert {key for key in calls if key[2] >= 400} == set()


@pytest.mark.manager(suspend={"createJobs": "OnResume"})
def test_a_queued_set_costs_nothing_before_it_is_admitted(sets, manager):
    start = audit.log_size(sets.cluster.audit_log)
    sets.apply(manifest(group(replicas=20), suspend=True))
    wait_for(lambda: sets.condition("Suspended"), what="the set is known to be suspended")
    calls = manager.calls(start, namespace=sets.namespace)
    assert {call: n for call, n in calls.items() if call[1] != "events"} == {("patch", "jobsets/status", 200): 1}
    sets.patch({"suspend": False})
    sets.wait_ready(20)
    calls = manager.calls(start, namespace=sets.namespace)
    assert calls["create", "jobs", 201] == 20
    assert not calls["patch", "jobs", 200], "Jobs that are created running need not be resumed"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_5000_jobs_do_not_hold_up_a_single_one(sets):
    sets.apply(manifest(group(replicas=5000), suspend=True))
    wait_for(lambda: some_of_attempt(sets, 0), what="the first Jobs of the big set")
    sets.apply(manifest(group(), name="beside"))
    wait_for(lambda: sets.jobs("beside"), what="the Job of the small set")
    assert created(sets) < 2500, "the small set came before half of the big one"


def test_a_settled_set_and_a_new_manager_write_nothing(sets, manager):
    sets.apply(manifest(group(replicas=5)))
    sets.wait_ready(5)
    manager.stop()
    start = audit.log_size(sets.cluster.audit_log)
    manager.start()
    sets.apply(manifest(group(), name="probe"))
    sets.wait_ready(1, "probe")
    writes = [
        call
        for call in audit.calls(sets.cluster.audit_log, start, sets.namespace)
        if call.agent.startswith("jobset/")
        and call.namespace == sets.namespace
        and call.verb not in {"get", "list", "watch"}
        and not call.dry_run
        and not call.name.startswith("probe")
    ]
    assert [(w.verb, w.resource, w.name) for w in writes] == []


def test_a_set_can_be_deleted_with_its_children_while_the_manager_is_down(sets, manager):
    sets.apply(manifest(group(replicas=2)))
    sets.wait_ready(2)
    manager.stop()
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
    path = JOBSETS.format(sets.namespace) + "/js"
    assert request(sets.cluster, "DELETE", path, body)[0] == 200
    wait_for(lambda: sets.get() is None and sets.jobs() == [], what="the set and its Jobs are gone")


def test_the_managers_rights_are_enough(sets, manager):
    manager.stop()
    start = audit.log_size(sets.cluster.audit_log)
    manager.start()
    sets.apply(manifest(group(replicas=2), failurePolicy={"maxRestarts": 1}, ttlSecondsAfterFinished=1))
    sets.wait_ready(2)
    sets.end(sets.pods()[0], 1)
    wait_for(lambda: sets.status().get("restarts") == 1 and sets.counts()["ready"] == 2, timeout=60)
    for pod in sets.pods():
        sets.end(pod)
    wait_for(lambda: sets.get() is None)
    calls = [call for call in audit.calls(sets.cluster.audit_log, start, USER) if call.user == USER]
    where = {sets.namespace, NAMESPACE, ""}
    assert any(call.namespace == sets.namespace for call in calls)
    refused = [call for call in calls if call.code == 403 and call.namespace in where]
    assert refused == [], "in namespaces that are not being deleted"
