"""How little is asked of the API server, counted in its audit log, and that a crash at any moment changes nothing."""

from __future__ import annotations

import pytest

from devcluster import audit
from tests.support.cluster import request, wait_for
from tests.support.jobs import group, manifest

BIG = 300


def created(sets) -> int:
    return len(sets.jobs())


@pytest.mark.timeout(240)
def test_300_jobs_are_created_and_restarted_with_one_call_each(sets, manager):
    start = audit.size(sets.cluster.audit_log)
    sets.apply(manifest(group(replicas=BIG), failurePolicy={"maxRestarts": 1}))
    sets.wait_ready(BIG, timeout=100)
    calls = manager.calls(start, namespace=sets.namespace)
    assert calls["create", "jobs", 201] == BIG
    assert calls["create", "services", 201] == 1
    assert 1 <= calls["patch", "jobsets/status", 200] <= 30
    assert {key for key in calls if key[2] >= 400} == set(), "nothing refused, nothing in conflict"
    assert sum(n for (verb, *_), n in calls.items() if verb in {"get", "list"}) == 0, "caches answer all reads"

    start = audit.size(sets.cluster.audit_log)
    sets.end(sets.pods()[0], 1)
    wait_for(lambda: sets.status()["restarts"] == 1, timeout=60)
    sets.wait_ready(BIG, timeout=150)
    calls = manager.calls(start, namespace=sets.namespace)
    assert calls["create", "jobs", 201] == BIG
    assert calls["delete", "jobs", 200] == BIG
    assert calls["patch", "jobsets/status", 200] <= 30
    assert {key for key in calls if key[2] >= 400} == set()


def test_a_set_at_rest_and_a_new_manager_write_nothing(sets, manager):
    sets.apply(manifest(group(replicas=5)))
    sets.wait_ready(5)
    manager.stop()
    start = audit.size(sets.cluster.audit_log)
    manager.start()
    sets.apply(manifest(group(), name="probe"))
    sets.wait_ready(1, "probe")
    writes = [
        call
        for call in audit.calls(sets.cluster.audit_log, start)
        if call.agent.startswith("jobset/")
        and call.namespace == sets.namespace
        and call.verb not in {"get", "list", "watch"}
        and not call.name.startswith("probe")
    ]
    assert [(w.verb, w.resource, w.name) for w in writes if w.resource not in {"jobs", "services"}] == []
    assert sum(w.verb == "create" and w.resource == "jobs" for w in writes) == 1, "only the probe's"


@pytest.mark.timeout(200)
def test_killed_in_the_middle_of_creation(sets, manager):
    start = audit.size(sets.cluster.audit_log)
    sets.apply(manifest(group(replicas=BIG)))
    wait_for(lambda: created(sets) >= 20)
    manager.kill()
    before = created(sets)
    assert before < BIG, "killed too late to tell anything"
    manager.start()
    sets.wait_ready(BIG, timeout=100)
    calls = manager.calls(start, namespace=sets.namespace)
    assert calls["create", "jobs", 201] == BIG, "none was created twice"
    assert sets.status()["restarts"] == 0
    assert {s["name"]: s["ready"] for s in sets.status()["replicatedJobsStatus"]} == {"workers": BIG}


@pytest.mark.timeout(240)
def test_killed_in_the_middle_of_a_restart(sets, manager):
    sets.apply(manifest(group(replicas=BIG), failurePolicy={"maxRestarts": 3}))
    sets.wait_ready(BIG, timeout=100)
    old = {job["metadata"]["uid"] for job in sets.jobs()}
    sets.end(sets.pods()[0], 1)

    def left() -> int:
        return sum(job["metadata"]["uid"] in old for job in sets.jobs())

    wait_for(lambda: left() < BIG - 5, timeout=60)
    manager.kill()
    assert left() > 0, "killed too late to tell anything"
    manager.start()
    wait_for(lambda: left() == 0, timeout=100)
    sets.wait_ready(BIG, timeout=150)
    status = sets.status()
    assert (status["restarts"], status["restartsCountTowardsMax"]) == (1, 1), "the failure is counted once"
    attempts = {job["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] for job in sets.jobs()}
    assert attempts == {"1"}
    assert created(sets) == BIG


def test_sigterm_drains_and_hands_over_the_lease(sets, manager):
    sets.apply(manifest(group(replicas=3)))
    sets.wait_ready(3)
    code, seconds = manager.stop()
    assert code == 0, manager.log()
    assert seconds < 10
    lease = "/apis/coordination.k8s.io/v1/namespaces/jobset-system/leases/6d4f6a47.jobset.x-k8s.io"
    assert not request(sets.cluster, "GET", lease)[1]["spec"].get("holderIdentity"), "nobody has to wait for it"


def test_plain_jobs_start_while_the_manager_is_down(sets, manager):
    manager.stop()
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "plain"}, "spec": group()["template"]["spec"]}
    path = f"/apis/batch/v1/namespaces/{sets.namespace}/jobs"
    assert request(sets.cluster, "POST", path, job)[0] == 201
    wait_for(lambda: request(sets.cluster, "GET", f"{path}/plain")[1].get("status", {}).get("ready") == 1)


def test_the_managers_rights_are_enough_and_all_that_it_asks_for(sets, manager):
    """Runs last by chance only: whatever was done before by this manager counts, too."""
    sets.apply(manifest(group(replicas=2), failurePolicy={"maxRestarts": 1}, ttlSecondsAfterFinished=1))
    sets.wait_ready(2)
    sets.end(sets.pods()[0], 1)
    wait_for(lambda: sets.status().get("restarts") == 1 and sets.counts()["ready"] == 2, timeout=60)
    for pod in sets.pods():
        sets.end(pod)
    wait_for(lambda: sets.get() is None)
    assert [key for key in manager.calls(0) if key[2] == 403] == []
