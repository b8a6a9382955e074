"""Stuck situations on a real control plane: the cause in one line, as `jobset explain` without a name shows it."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from dev.cluster.cluster import Cluster
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import (
    MERGE,
    apply,
    create_class,
    kubectl,
    kubectl_apply,
    more_capacity,
    request,
    wait_for,
)

JSON = dict[str, Any]
pytestmark = pytest.mark.slow

NODE = {"nodeSelector": {"kubernetes.io/hostname": "node-0000"}}
ON_EXIT = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
ALL_AGAIN = {"name": "main", "image": "busybox", "restartPolicy": "Never", "restartPolicyRules": [ON_EXIT]}
LOW, HIGH = "stuck-low", "stuck-high"


def needing(resources: JSON, **pod: Any) -> JSON:
    """A ReplicatedJob of one pod that requests this."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": resources, "limits": resources}}
    return group(pod={"containers": [container], **pod})


def claiming(claim: str) -> JSON:
    return group(pod={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]})


def preferring(operator: str, *values: str) -> JSON:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/arch", "operator": operator, "values": list(values)}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return group(pod={"affinity": {"nodeAffinity": required}})


@pytest.fixture
def classes(full_cluster: Cluster) -> Iterator[None]:
    """Two priority classes."""
    for name, value in ((LOW, 1), (HIGH, 1000)):
        create_class(full_cluster, name, value)
    yield
    for name in (LOW, HIGH):
        request(full_cluster, "DELETE", f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")


def wait_cause(sets: Sets, name: str, *says: str) -> None:
    """Until the cause of a set has all these words."""
    wait_for(
        lambda: all(words in sets.causes().get(name, "") for words in says),
        timeout=90,
        what=f"{name}: {says}",
        last=lambda: sets.causes().get(name),
    )


SIMPLE: dict[str, tuple[JSON, str]] = {
    "too-large": (needing({"cpu": "1k"}), "is not scheduled: it needs 1k cpu, the largest node has 32 (node-"),
    "selector": (
        group(pod={"nodeSelector": {"kubernetes.io/arch": "arm64"}}),
        "no node has the label kubernetes.io/arch=arm64 of its nodeSelector; nodes have kubernetes.io/arch=amd64",
    ),
    "label": (
        group(pod={"nodeSelector": {"kubernetes.io/oss": "linux"}}),
        "no node has a label kubernetes.io/oss at all: did you mean kubernetes.io/os?",
    ),
    "affinity": (
        preferring("NotIn", "amd64"),
        "no node meets its required node affinity (kubernetes.io/arch NotIn [amd64])",
    ),
    "feature": (
        group(pod={"containers": [ALL_AGAIN]}),
        "no node declares the feature RestartAllContainersOnContainerExits, which it needs for restartPolicyRules",
    ),
    "no-claim": (claiming("nothing"), "is not scheduled: there is no PersistentVolumeClaim nothing"),
    "class": (claiming("data"), "claim data is Pending: there is no StorageClass fast; there is none at all"),
    "scheduler": (
        group(pod={"schedulerName": "volcano"}),
        "is not scheduled: no scheduler volcano looks at it",
    ),
    "gate": (
        group(pod={"schedulingGates": [{"name": "example.com/hold"}]}),
        "is held back by scheduling gate example.com/hold",
    ),
    "taken": (group(), "Job taken-workers-0: cannot be created, a Job of that name belongs to nobody"),
}


def test_each_cause_is_the_one_that_was_made(sets: Sets):
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim}
    kubectl_apply(sets.cluster, sets.namespace, body)
    pod = {"restartPolicy": "Never", "schedulerName": "none", "containers": [{"name": "main", "image": "busybox"}]}
    taken = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "taken-workers-0"}}
    apply(
        sets.cluster,
        f"/apis/batch/v1/namespaces/{sets.namespace}/jobs",
        {**taken, "spec": {"suspend": True, "template": {"spec": pod}}},
    )
    for name, (rjob, _) in SIMPLE.items():
        sets.apply(manifest(rjob, name=name))
    sets.apply(manifest(group(), name="held", suspend=True))
    sets.apply(manifest(group(), name="elsewhere", managedBy="example.com/other"))
    stages = group("driver", pod={"schedulerName": "none"}), group(dependsOn=[{"name": "driver", "status": "Ready"}])
    sets.apply(manifest(*stages, name="stages"))

    for name, (_, says) in SIMPLE.items():
        wait_cause(sets, name, says)
    wait_cause(sets, "held", "spec.suspend is true: its Jobs run no pods")
    wait_cause(sets, "elsewhere", "spec.managedBy is example.com/other: that controller creates its Jobs")
    assert "ReplicatedJob workers (1 Job): waits for driver to be ready (0 of 1)" in sets.explain("stages")

    def warned() -> list[str]:
        return [note for _, reason, note in sets.events("too-large") if reason == "PodsUnschedulable"]

    [note] = wait_for(warned, timeout=60, what="the event after 30 s")
    assert re.fullmatch(
        r"pod too-large-workers-0-0-\w+ is not scheduled: 0/20 nodes are available: .*Insufficient cpu", note
    )
    assert sets.events("scheduler") == [], "nobody has said anything about its pods"
    assert "PodsUnschedulable" not in sets.explain("too-large"), "the cause is there already"


def test_a_misspelt_resource(sets: Sets):
    with more_capacity(sets.cluster, ["node-0000"], "nvidia.com/gpu", "8"):
        sets.apply(manifest(needing({"nvidia.com/gpus": "1"})))
        wait_cause(sets, "js", "is not scheduled: no node offers nvidia.com/gpus; nodes offer nvidia.com/gpu")
        assert (
            "sed '/^  resourceVersion:/d; s#nvidia.com/gpus:#nvidia.com/gpu:#' | kubectl replace --force -f -"
            in sets.explain()
        )


def test_a_set_that_holds_the_nodes_itself(sets: Sets):
    with more_capacity(sets.cluster, ["node-0000", "node-0001"], "nvidia.com/gpu", "8"):
        sets.apply(manifest({**needing({"nvidia.com/gpu": "5"}), "replicas": 3}))
        fits = "of the 3 pods of its ReplicatedJob only 2 fit on the nodes at once (1 per node)"
        wait_cause(sets, "js", fits, "; 2 pods of its own hold them now")


def test_a_cordoned_node_beside_one_that_is_full(sets: Sets):
    with more_capacity(sets.cluster, ["node-0000", "node-0001"], "nvidia.com/gpu", "8"):
        kubectl(sets.cluster, "cordon", "node-0001")
        try:
            sets.apply(manifest({**needing({"nvidia.com/gpu": "5"}), "replicas": 2}))
            fits = "of the 2 pods of its ReplicatedJob only 1 fits on the nodes at once (1 per node)"
            wait_cause(sets, "js", fits, "; 1 more node could hold it but for taints: cordoned (1)")
            assert "to fix: kubectl uncordon node-0001; or add nodes" in sets.explain()
        finally:
            kubectl(sets.cluster, "uncordon", "node-0001")
        sets.wait_ready(2)


def test_a_quota_in_one_line_for_all_jobs(sets: Sets):
    hard = {"requests.cpu": "3"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "compute"}, "spec": {"hard": hard}}
    kubectl_apply(sets.cluster, sets.namespace, quota)
    body = needing({"cpu": "2"})
    never = "; its 3 pods need 6 cpu in all: they never run all at once"
    sets.apply(manifest({**body, "replicas": 3}))
    wait_cause(
        sets, "js", "2 Jobs (js-workers-", "): lack 2 of 2 pods: need 4 cpu, quota compute has 1 left of 3; ", never
    )


def test_a_set_that_is_preempted(sets: Sets, classes: None):
    sets.apply(manifest(needing({"cpu": "20"}, priorityClassName=LOW, **NODE), failurePolicy={"maxRestarts": 5}))
    sets.wait_ready(1)
    sets.apply(manifest(needing({"cpu": "20"}, priorityClassName=HIGH, **NODE), name="urgent"))
    sets.wait_ready(1, name="urgent")
    wait_cause(sets, "js", f"was preempted by pod {sets.namespace}/urgent-workers-0-0-")
    sets.wait_explained("1 of 20 nodes could take it, and too little is free there", f"{sets.namespace}/urgent (20)")


def restarted(sets: Sets, times: int) -> bool:
    return bool(sets.status("loop").get("restarts") == times)


def test_sets_that_have_ended_and_one_that_keeps_failing(sets: Sets):
    for name, restarts in (("done", 0), ("over", 0), ("loop", 9)):
        sets.apply(manifest(group(), name=name, failurePolicy={"maxRestarts": restarts}))
    for name in ("done", "over", "loop"):
        sets.wait_ready(1, name=name)
    sets.end(sets.pods(name="done")[0])
    sets.end(sets.pods(name="over")[0], code=3)
    for attempt in range(2):
        sets.end(sets.pods(name="loop")[0], code=3)
        wait_for(partial(restarted, sets, attempt + 1), what="a restart")
        sets.wait_ready(1, name="loop")
    wait_cause(sets, "done", "AllJobsCompleted: jobset completed successfully")
    wait_cause(sets, "over", "jobset failed")
    wait_cause(sets, "loop", "restarted 2 times, 7 of 9 restarts left; attempt 1: Job loop-workers-0", "exit code 3")


def test_a_deletion_that_a_finalizer_holds(sets: Sets):
    body = manifest(group(), suspend=True)
    sets.apply({**body, "metadata": {**body["metadata"], "finalizers": ["example.com/keep"]}})
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{sets.namespace}/jobsets/js"
    request(sets.cluster, "DELETE", path)
    try:
        wait_cause(sets, "js", "it has been deleted", "finalizer example.com/keep holds it")
    finally:
        request(sets.cluster, "PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
