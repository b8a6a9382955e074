"""A JobSet from creation to its end, on the full control plane, as users and clients see it."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import kubectl, kubectl_apply, request, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "training.yaml"


def test_training_example_survives_a_failure_and_completes(sets):
    sets.apply(yaml.safe_load(EXAMPLE.read_text()))
    sets.wait_ready(3, "training")
    workers = sets.pods("jobset.sigs.k8s.io/replicatedjob-name=workers", "training")
    assert len(workers) == 8
    sets.end(workers[3], 1)
    wait_for(lambda: sets.status("training").get("restarts") == 1, what="the restart")
    sets.wait_ready(3, "training")
    assert {p["metadata"]["uid"] for p in workers}.isdisjoint(
        p["metadata"]["uid"] for p in sets.pods("", "training")
    ), "no pod of the old attempt lives"
    for pod in sets.pods("", "training"):
        sets.end(pod)
    sets.wait_state("Completed", "training")
    reasons = [
        "DefaultFailurePolicy",
        "RestartJobSetFailurePolicyAction",
        "JobsReady",
        "AllJobsCompleted",
        "JobSetCompleted",
    ]
    wait_for(lambda: [reason for _, reason, _ in sets.events("training")] == reasons, what="these events and no others")


def test_pods_find_each_other_by_the_names_that_clients_expect(sets):
    sets.apply(manifest(group("driver"), group("workers", 2, 2), coordinator={"replicatedJob": "driver"}))
    sets.wait_ready(3)
    names = {(p["spec"]["hostname"], p["spec"]["subdomain"]) for p in sets.pods()}
    assert names == {
        ("js-driver-0-0", "js"),
        ("js-workers-0-0", "js"),
        ("js-workers-0-1", "js"),
        ("js-workers-1-0", "js"),
        ("js-workers-1-1", "js"),
    }
    service = json.loads(kubectl(sets.cluster, "get", "service", "js", "-o", "json", namespace=sets.namespace))
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"jobset.sigs.k8s.io/jobset-name": "js"}
    for pod in sets.pods():
        for where in ("labels", "annotations"):
            assert pod["metadata"][where]["jobset.sigs.k8s.io/coordinator"] == "js-driver-0-0.js"


def test_a_deleted_service_is_created_again(sets):
    sets.apply(manifest(group()))
    sets.wait_ready(1)
    path = f"/api/v1/namespaces/{sets.namespace}/services/js"
    first = request(sets.cluster, "GET", path)[1]["metadata"]["uid"]
    kubectl(sets.cluster, "delete", "service", "js", namespace=sets.namespace)
    wait_for(lambda: request(sets.cluster, "GET", path)[1]["metadata"].get("uid") not in {None, first})


def test_deleting_the_set_deletes_everything_it_made(sets):
    sets.apply(manifest(group(replicas=3)))
    sets.wait_ready(3)
    kubectl(sets.cluster, "delete", "jobset", "js", "--cascade=foreground", namespace=sets.namespace)
    left = kubectl(sets.cluster, "get", "jobs,pods,services", "-o", "name", namespace=sets.namespace)
    assert left == ""


def test_volume_claims_are_mounted_and_go_with_the_set_unless_retained(sets):
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    policies = [
        {"templates": [{"metadata": {"name": "scratch"}, "spec": size}]},
        {
            "templates": [{"metadata": {"name": "model"}, "spec": size}],
            "retentionPolicy": {"whenDeleted": "Retain"},
        },
    ]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("scratch", "model")]
    container = {"name": "main", "image": "busybox", "volumeMounts": mounts}
    sets.apply(manifest(group(pod={"containers": [container]}), volumeClaimPolicies=policies))
    pod = wait_for(sets.pods)[0]
    claims = {v["persistentVolumeClaim"]["claimName"] for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v}
    assert claims == {"scratch-js", "model-js"}
    kubectl(sets.cluster, "delete", "jobset", "js", "--cascade=foreground", namespace=sets.namespace)

    def left() -> list[str]:
        found = kubectl(sets.cluster, "get", "pvc", "-o", "json", namespace=sets.namespace)
        items = json.loads(found)["items"]
        return [item["metadata"]["name"] for item in items if "deletionTimestamp" not in item["metadata"]]

    wait_for(lambda: left() == ["model-js"], what="only the retained claim is left")


def test_failures_beyond_the_maximum_end_the_set(sets):
    sets.apply(manifest(group(replicas=2), failurePolicy={"maxRestarts": 1}))
    for restarts in range(2):
        wait_for(lambda n=restarts: sets.status().get("restarts") == n and sets.counts()["ready"] == 2, timeout=60)
        sets.end(sets.pods()[0], 1)
    sets.wait_state("Failed")
    assert sets.condition("Failed")["reason"] == "ReachedMaxRestarts"
    wait_for(lambda: len(sets.jobs()) == 1, what="only the failed Job is kept")


def test_the_first_success_ends_a_set_with_operator_any(sets):
    policy = {"operator": "Any", "targetReplicatedJobs": ["driver"]}
    sets.apply(manifest(group("driver"), group("workers", 3), successPolicy=policy))
    sets.wait_ready(4)
    sets.end(sets.pods("jobset.sigs.k8s.io/replicatedjob-name=driver")[0])
    sets.wait_state("Completed")
    wait_for(lambda: sets.pods() == [], what="the workers' pods are gone")


def test_ttl_deletes_the_finished_set(sets):
    sets.apply(manifest(group(), ttlSecondsAfterFinished=2))
    sets.wait_ready(1)
    sets.end(sets.pods()[0])
    wait_for(lambda: sets.get() is None, what="the JobSet is gone")


def test_depends_on_holds_jobs_back(sets):
    data = group("data")
    train = group("train", 2, dependsOn=[{"name": "data", "status": "Complete"}])
    sets.apply(manifest(data, train))
    sets.wait_ready(1)
    assert [job["metadata"]["name"] for job in sets.jobs()] == ["js-data-0"]
    sets.end(sets.pods()[0])
    wait_for(lambda: len(sets.jobs()) == 3, what="the Jobs of train")


def test_a_set_of_another_manager_is_left_alone(sets):
    sets.apply(manifest(group(), name="theirs", managedBy="example.com/other"))
    sets.apply(manifest(group(), name="ours"))
    sets.wait_ready(1, "ours")
    assert sets.jobs("theirs") == []
    assert sets.status("theirs") == {}


def test_a_foreign_job_of_our_name_is_named_in_an_event(sets):
    foreign = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "js-workers-0"},
        "spec": group()["template"]["spec"],
    }
    kubectl_apply(sets.cluster, sets.namespace, foreign)
    sets.apply(manifest(group(replicas=2)))
    found = wait_for(lambda: [e for e in sets.events() if e[1] == "JobCreationFailed"])
    assert found[0][0] == "Warning"
    assert 'job "js-workers-0" creation failed' in found[0][2]
    assert "exists already and belongs to nobody" in found[0][2]
    wait_for(lambda: sets.counts().get("ready") == 1, what="the other Job runs all the same, and is counted")


def test_a_template_that_cannot_work_is_refused_before_it_is_stored(sets):
    broken = group(replicas=12, pod={"restartPolicy": "Always"})
    text = kubectl_apply(sets.cluster, sets.namespace, manifest(broken), check=False)
    assert 'spec.replicatedJobs[0].template.spec.template.spec.restartPolicy: Required value: valid values: "On' in text
    assert sets.get() is None


def test_jobs_that_the_server_refuses_are_explained_and_counted(sets):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"count/jobs.batch": "0"}},
    }
    kubectl_apply(sets.cluster, sets.namespace, quota)
    args = ("get", "resourcequota", "none", "-o", "jsonpath={.status.hard}")
    wait_for(lambda: kubectl(sets.cluster, *args, namespace=sets.namespace), what="the quota")
    sets.apply(manifest(group(replicas=12)))
    note = wait_for(lambda: [e[2] for e in sets.events() if e[1] == "JobCreationFailed"])[0]
    assert 'job "js-workers-0" creation failed with error' in note
    assert "exceeded quota: none" in note
    assert note.endswith(("more", "…"))
    wait_for(lambda: sets.counts() == dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0))
