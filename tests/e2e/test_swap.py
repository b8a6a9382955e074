"""This program takes over what a Go manager left, and leaves what a Go manager can take over."""

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from api.keys import EXCLUSIVE_TOPOLOGY, PLACEMENT_GATE
from cli.main import main
from dev import local
from dev.cluster import audit
from dev.cluster.cluster import Cluster
from tests.support.cluster.go_manager import GoManager, condition, counts
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.manager import USER, ManagerProcess
from tests.support.cluster.requests import listed, replace_object, request, uids, wait_for
from tests.support.corpus.go_crd import go_crd

JSON = dict[str, Any]
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/jobset-{}-webhook-configuration"
READY = condition("RestartingJobSet", "JobsReady", "all jobs are ready", true=False)
SIZE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
MANY = 10
"""Jobs of a set so large that a restart deletes its Jobs in batches, by labels that old Jobs do not have."""


@pytest.fixture
def go(full_cluster: Cluster, namespace: str, manager_process: ManagerProcess) -> Iterator[GoManager]:
    """A cluster with the Go JobSet's CRD and no manager; afterwards with our objects again."""
    manager_process.stop()
    for kind in ("mutating", "validating"):
        assert request(full_cluster, "DELETE", WEBHOOKS.format(kind, kind))[0] == 200
    assert replace_object(partial(request, full_cluster), DEFINITION, lambda _: go_crd())[0] == 200
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets?dryRun=All&fieldValidation=Strict"
    probe = manifest(group(), executionPolicy={"executionPolicyOrder": "InOrder"})
    wait_for(lambda: request(full_cluster, "POST", path, probe)[0] == 400, what="the Go JobSet's CRD")
    yield GoManager(full_cluster, namespace)
    local.install(full_cluster, webhook_port=manager_process.port)


def leave_sets(go: GoManager) -> None:
    """Sets in every state, with the status that the Go manager wrote last; lists in other orders than ours."""
    running = go.create(manifest(group(replicas=2, pods_per_job=2), name="running", failurePolicy={"maxRestarts": 2}))
    old = manifest(group(replicas=MANY), name="old", failurePolicy={"maxRestarts": 3})
    old = go.create(old, attempt=1, old=True)
    order = {"startupPolicyOrder": "InOrder"}
    ordered = go.create(manifest(group("driver"), group("workers"), name="ordered", startupPolicy=order))
    partly = go.create(manifest(group("a"), group("b"), name="partly"))
    held = go.create(manifest(group(replicas=2), name="held", suspend=True))
    begun = go.create(manifest(group(replicas=2), name="begun", failurePolicy={"maxRestarts": 1}))
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    claims = [{"templates": [{"metadata": {"name": "data"}, "spec": SIZE}]}]
    pod = {"containers": [{"name": "main", "image": "busybox", **mount}]}
    claiming = go.create(manifest(group(pod=pod), name="claiming", volumeClaimPolicies=claims))
    ended = {name: go.create(manifest(group(), name=name)) for name in ("completed", "completed-old", "failed")}
    theirs = go.create(manifest(group(), name="theirs", managedBy="example.com/other"))

    for name, jobs, pods in (("running", 2, 2), ("old", MANY, 1), ("ordered", 2, 1), ("partly", 2, 1), ("begun", 2, 1)):
        go.wait_jobs(name, jobs, ready=pods)
    sets = Sets(go.cluster, go.namespace)
    for name in ended:
        go.wait_jobs(name, 1, ready=1)
        sets.end(sets.pods("", name)[0], int(name == "failed"))
    sets.end(sets.pods("jobset.sigs.k8s.io/replicatedjob-name=a", "partly")[0])
    sets.end(sets.pods("jobset.sigs.k8s.io/job-index=0", "begun")[0], 1)
    for name in ("partly", "completed", "completed-old"):
        go.wait_jobs(name, 1, succeeded=1)
    for name in ("begun", "failed"):
        go.wait_jobs(name, 1, failed=1)

    go.status(running, [counts("workers", ready=2, active=2)])
    go.status(old, [counts("workers", ready=MANY, active=MANY)], READY, restarts=1)
    in_progress = condition(
        "StartupPolicyInProgress",
        "InOrderStartupPolicyInProgress",
        "in order startup policy is in progress",
        true=False,
    )
    started = condition(
        "StartupPolicyCompleted", "InOrderStartupPolicyCompleted", "in order startup policy has completed"
    )
    both = {"ready": 1, "active": 1}
    go.status(ordered, [counts("driver", **both), counts("workers", **both)], started, in_progress)
    go.status(partly, [counts("a", succeeded=1), counts("b", **both)])
    go.status(held, [counts("workers", suspended=2)], condition("Suspended", "SuspendedJobs", "jobset is suspended"))
    said = "applying RestartJobSet failure policy action (first failed job: begun-workers-0)"
    restarting = condition("RestartingJobSet", "DefaultFailurePolicy", said)
    go.status(begun, [counts("workers", ready=1, failed=1, active=1)], restarting, restarts=1)
    go.status(claiming, [counts("workers", active=1)])
    done = condition("Completed", "AllJobsCompleted", "jobset completed successfully")
    go.status(ended["completed"], [counts("workers", succeeded=1)], done, state="Completed")
    # Before version 0.6 there was no terminalState.
    go.status(ended["completed-old"], [counts("workers", succeeded=1)], done)
    why = condition("Failed", "FailedJobs", "jobset failed due to one or more job failures")
    go.status(ended["failed"], [counts("workers", failed=1)], why, state="Failed")
    go.status(theirs, [counts("workers", ready=1, active=1)])


def everything(go: GoManager) -> dict[str, list[JSON]]:
    here = f"namespaces/{go.namespace}"
    paths = {
        "jobsets": f"/apis/jobset.x-k8s.io/v1alpha2/{here}/jobsets",
        "jobs": f"/apis/batch/v1/{here}/jobs",
        "pods": f"/api/v1/{here}/pods",
        "services": f"/api/v1/{here}/services",
        "claims": f"/api/v1/{here}/persistentvolumeclaims",
    }
    return {kind: listed(go.cluster, path) for kind, path in paths.items()}


def of_set(objects: list[JSON], *but: str) -> list[JSON]:
    """Those of all sets but some."""
    label = "jobset.sigs.k8s.io/jobset-name"
    return [of for of in objects if of["metadata"].get("labels", {}).get(label, of["metadata"]["name"]) not in but]


def kept(old: Any, new: Any) -> bool:
    """Whether everything that was there is there; entries of lists go by their name or type."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(key in new and kept(value, new[key]) for key, value in old.items())
    if isinstance(old, list):
        by = {entry.get("name", entry.get("type")): entry for entry in new}
        return len(old) == len(new) and all(kept(entry, by.get(entry.get("name", entry.get("type")))) for entry in old)
    return bool(old == new)


@pytest.mark.timeout(240)
def test_sets_of_a_go_manager_are_taken_over_as_they_are_and_end_well(go, manager_process):
    leave_sets(go)
    before = everything(go)
    [field] = {f["manager"] for f in before["services"][0]["metadata"]["managedFields"]}
    assert field == "jobset"
    start = audit.log_size(go.cluster.audit_log)
    local.install(go.cluster, webhook_port=manager_process.port)
    manager_process.start()
    sets = Sets(go.cluster, go.namespace)
    sets.wait_ready(2, "begun")
    partly = "status of a completed Job"
    wait_for(lambda: any(e.get("completedIndexes") for e in sets.status("partly")["replicatedJobsStatus"]), what=partly)

    # Of all but the set whose restart had begun: nothing new, nothing gone, nothing else in what was there.
    now = everything(go)
    for kind in ("jobs", "pods", "services", "claims"):
        assert uids(of_set(now[kind], "begun")) == uids(of_set(before[kind], "begun")), kind
    was = {js["metadata"]["name"]: js for js in before["jobsets"]}
    for js in of_set(now["jobsets"], "begun"):
        had = was[js["metadata"]["name"]]
        assert (js["spec"], js["metadata"]["generation"]) == (had["spec"], 1)
        assert kept(had["status"], js["status"]), (had["status"], js["status"])
    assert sets.status("begun")["restarts"] == 1, "its restart counts once"
    assert uids(sets.jobs("begun")).isdisjoint(uids(before["jobs"]))

    # They go on: two restart, one is resumed.
    for name in ("running", "old"):
        sets.end(sets.pods("", name)[0], 1)
    sets.patch({"suspend": False}, "held")
    wait_for(lambda: sets.status("running")["restarts"] == 1 and sets.status("old")["restarts"] == 2, what="restarts")
    for name, ready in {"running": 2, "old": MANY, "held": 2, "ordered": 2}.items():
        sets.wait_ready(ready, name)
    for job in [*sets.jobs("running"), *sets.jobs("old")]:
        assert job["metadata"]["labels"]["jobset.sigs.k8s.io/group-name"] == "default"
    unfinished = ("running", "old", "held", "ordered", "partly", "begun")
    for name in unfinished:
        for pod in sets.pods("", name):
            sets.end(pod)
    for name in unfinished:
        sets.wait_state("Completed", name)
    after = everything(go)
    for name in ("held", "ordered", "partly"):
        assert uids(sets.jobs(name)) == uids(of_set(before["jobs"], *(was.keys() - {name}))), name

    # Over all that time it wrote this, and nothing to what had ended or is of another controller.
    calls = manager_process.calls(start, namespace=go.namespace)
    writes = {call: number for call, number in calls.items() if call[0] not in {"get", "list", "watch"}}
    assert {key[1] for key in writes} <= {"jobsets/status", "jobs", "events"}
    assert calls["create", "jobs", 201] == 2 + MANY + 2
    assert calls["patch", "jobs", 200] == 2, "those of the set that was suspended"
    assert {key for key in writes if key[2] >= 400} == set()
    for name in ("completed", "completed-old", "failed", "theirs", "claiming"):
        [js] = of_set(after["jobsets"], *(was.keys() - {name}))
        assert kept(was[name]["status"], js["status"]), name
        assert js["metadata"]["generation"] == 1
    assert names_written(go, start).isdisjoint({"theirs"})


def names_written(go: GoManager, start: int) -> set[str]:
    """Objects that the manager wrote to, or tried to."""
    found = audit.calls(go.cluster.audit_log, start, go.namespace)
    return {call.name for call in found if call.user == USER and call.verb not in {"get", "list", "watch"}}


def gated(sets: Sets) -> Counter[str]:
    """Followers at our gate, by set."""
    return Counter(
        pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"]
        for pod in listed(sets.cluster, f"/api/v1/namespaces/{sets.namespace}/pods")
        if PLACEMENT_GATE in [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]
    )


@pytest.mark.slow
def test_released_followers_get_nodes_while_no_manager_runs(sets, manager, capsys):
    for name, jobs, pods in (("holds", 2, 1), ("waits", 1, 3)):
        body = manifest(group(replicas=jobs, pods_per_job=pods), name=name)
        body["metadata"]["annotations"] = {EXCLUSIVE_TOPOLOGY: "rack"}
        sets.apply(body)
        if name == "holds":
            sets.wait_ready(2, "holds")
    wait_for(lambda: gated(sets) == {"waits": 2}, what="followers at the gate")
    manager.stop()

    def placed() -> set[str]:
        return {pod["metadata"]["name"] for pod in sets.pods("", "waits") if pod["spec"].get("nodeName")}

    sets.end(sets.pods("", "holds")[0])
    wait_for(lambda: len(placed()) == 1, what="a rack for the leader")
    assert gated(sets) == {"waits": 2}, "nobody lifts the gates"

    def check(*flags: str) -> tuple[int, list[tuple[str, str]]]:
        flags = (f"--kubeconfig={sets.cluster.kubeconfig}", "-n", sets.namespace, "-o", "json", *flags)
        code = main(["rollback-check", *flags])
        return code, [(each["kind"], each["name"]) for each in json.loads(capsys.readouterr().out)["concerned"]]

    code, found = check()
    assert (code, {kind for kind, _ in found}) == (1, {"Pod"})
    followers = {pod["metadata"]["name"] for pod in sets.pods("", "waits") if pod["spec"].get("schedulingGates")}
    assert {name for _, name in found} == followers
    assert check("--release") == (0, [])
    assert check() == (0, [])

    wait_for(lambda: followers < placed(), what="followers with nodes", last=placed)
