"""Pods that are refused, find no node or do not become ready, on a real control plane: the cause in one line."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.cluster.cluster import Cluster
from tests.e2e.test_stuck import claiming, needing, wait_cause
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import MERGE, kubectl, kubectl_apply, more_capacity, request, wait_for
from tests.support.pages.reader import Reader

JSON = dict[str, Any]
pytestmark = pytest.mark.slow
GATHERED = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def annotated(key: str, value: str, **pod: Any) -> JSON:
    """A ReplicatedJob whose pods kwok plays in another way."""
    return group(annotations={f"kwok.jobset.dev/{key}": value}, pod=pod)


def on(node: str) -> JSON:
    return group(pod={"nodeSelector": {"kubernetes.io/hostname": node}})


@contextlib.contextmanager
def changed(cluster: Cluster, change: tuple[str, ...], back: tuple[str, ...]) -> Iterator[None]:
    """While a node, or the cluster, is changed by kubectl."""
    kubectl(cluster, *change)
    try:
        yield
    finally:
        kubectl(cluster, *back)


SAYS: dict[str, tuple[JSON, str]] = {
    "priority": (
        group(pod={"priorityClassName": "high"}),
        'pods "priority-workers-0-0-" is forbidden: no PriorityClass with name high was found',
    ),
    "runtime": (group(pod={"runtimeClassName": "gvisor"}), 'pod rejected: RuntimeClass "gvisor" not found'),
    "no-default": (
        claiming("plain"),
        "claim plain is Pending: it names no StorageClass, and the cluster has none",
    ),
    "no-class": (
        claiming("bound"),
        "claim bound is Pending: it asks for no StorageClass, and no volume without one is free and large enough",
    ),
    "unready": (annotated("ready", "false"), "is running, not ready"),
    "no-template": (
        group(pod={"resourceClaims": [{"name": "rdma", "resourceClaimTemplateName": "rdma"}]}),
        "is not scheduled: there is no ResourceClaimTemplate rdma",
    ),
    "no-device": (
        group(pod={"resourceClaims": [{"name": "rdma", "resourceClaimName": "rdma"}]}),
        "is not scheduled: there is no ResourceClaim rdma",
    ),
}


def test_pods_that_are_refused_wait_for_claims_or_are_not_ready(sets: Sets):
    for name, spec in (("plain", GATHERED), ("bound", {**GATHERED, "storageClassName": ""})):
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
        kubectl_apply(sets.cluster, sets.namespace, body)
    for name, (rjob, _) in SAYS.items():
        sets.apply(manifest(rjob, name=name))
    queued = manifest(group(), name="queued", suspend=True)
    sets.apply({**queued, "metadata": {**queued["metadata"], "labels": {"kueue.x-k8s.io/queue-name": "gpus"}}})
    stages = (group("first"), group("second"))
    sets.apply(manifest(*stages, name="staged", executionPolicy={"executionPolicyOrder": "InOrder"}))
    apart = manifest(group(), name="apart")
    apart["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "example.com/none"}
    sets.apply(apart)

    for name, (_, says) in SAYS.items():
        wait_cause(sets, name, says)
    wait_cause(sets, "queued", "spec.suspend is true: its Jobs run no pods; it is in the Kueue queue gpus")
    wait_cause(sets, "staged", "ReplicatedJob second (1 Job): waits for first to have succeeded (0 of 1)")
    wait_cause(sets, "apart", "none of 20 nodes has the label example.com/none")


def test_more_than_all_nodes_have_together(sets: Sets):
    with more_capacity(sets.cluster, ["node-0000"], "nvidia.com/gpu", "8"):
        sets.apply(manifest({**needing({"nvidia.com/gpu": "8"}), "replicas": 3}))
        wait_cause(sets, "js", "the pods of its JobSet need 24 nvidia.com/gpu in all, the nodes offer 8")


def test_nodes_that_take_no_pods(sets: Sets):
    taint = ("taint", "nodes", "node-0002")
    with (
        changed(sets.cluster, ("cordon", "node-0001"), ("uncordon", "node-0001")),
        changed(sets.cluster, (*taint, "gpu=only:NoSchedule"), (*taint, "gpu-")),
    ):
        sets.apply(manifest(on("node-0001"), name="cordoned"))
        sets.apply(manifest(on("node-0002"), name="tainted"))
        says = "it does not tolerate the taints of 1 node that could hold it:"
        wait_cause(sets, "cordoned", f"{says} cordoned (1)")
        wait_cause(sets, "tainted", f"{says} gpu=only:NoSchedule (1)")


def test_a_pod_that_a_taint_evicts(sets: Sets):
    sets.apply(manifest(on("node-0003"), failurePolicy={"maxRestarts": 3}))
    sets.wait_ready(1)
    taint = ("taint", "nodes", "node-0003")
    with changed(sets.cluster, (*taint, "broken=yes:NoExecute"), (*taint, "broken-")):
        sets.wait_explained("was evicted, because its node got a taint with the effect NoExecute")


@contextlib.contextmanager
def storage_class(sets: Sets, name: str, provisioner: str) -> Iterator[None]:
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    kubectl_apply(sets.cluster, sets.namespace, {**body, "provisioner": provisioner})
    try:
        yield
    finally:
        kubectl(sets.cluster, "delete", "storageclass", name)


def test_a_class_whose_provisioner_makes_no_volume(sets: Sets):
    with storage_class(sets, "idle", "example.com/disk"):
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
        kubectl_apply(sets.cluster, sets.namespace, {**claim, "spec": {**GATHERED, "storageClassName": "idle"}})
        sets.apply(manifest(claiming("data")))
        wait_cause(sets, "js", "StorageClass idle has not made a volume; that is done by example.com/disk")


def test_a_misspelt_class_of_a_claim_that_the_set_makes(sets: Sets, tmp_path: Path):
    """What explain says to run gives the claim the class that was meant, which makes no volumes."""
    container = {"name": "main", "image": "busybox", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    template = {"metadata": {"name": "data"}, "spec": {**GATHERED, "storageClassName": "manuals"}}
    with storage_class(sets, "manual", "kubernetes.io/no-provisioner"):
        policies = [{"templates": [template]}]
        sets.apply(manifest(group(pod={"containers": [container]}), volumeClaimPolicies=policies))
        wait_cause(sets, "js", "claim data-js is Pending: there is no StorageClass manuals", "did you mean manual?")
        [fix] = [found for line in sets.explain().splitlines() if (found := line.partition("to fix: ")[2])]
        code, said = Reader(sets.cluster, sets.namespace, tmp_path).run(fix.partition("; or have")[0])
        assert code == 0, said
        wait_cause(sets, "js", "no PersistentVolume of StorageClass manual is free and fits (ReadWriteOnce, 1Gi)")
        kubectl(sets.cluster, "delete", "jobset", "js", "-n", sets.namespace)


def test_jobs_and_pods_that_the_namespace_refuses(sets: Sets):
    enforced = "pod-security.kubernetes.io/enforce=restricted"
    kubectl(sets.cluster, "label", "namespace", sets.namespace, enforced)
    sets.apply(manifest(group(), name="unsafe"))
    wait_cause(sets, "unsafe", 'pods "unsafe-workers-0-0-', 'is forbidden: violates PodSecurity "restricted:latest"')
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "jobs"}}
    kubectl_apply(sets.cluster, sets.namespace, {**quota, "spec": {"hard": {"count/jobs.batch": "1"}}})
    wait_for(lambda: "count/jobs.batch" in str(used(sets, "jobs")), what="the quota to be counted")
    sets.apply(manifest(group(), name="late"))
    wait_cause(sets, "late", "each needs 1 count/jobs.batch, quota jobs has 0 left of 1")


def used(sets: Sets, quota: str) -> Any:
    path = f"/api/v1/namespaces/{sets.namespace}/resourcequotas/{quota}"
    return request(sets.cluster, "GET", path)[1].get("status", {}).get("used")


def container(name: str, state: JSON, restarts: int = 0, **more: Any) -> JSON:
    """What a kubelet reports of a container."""
    return {
        "name": name,
        "image": "busybox",
        "imageID": "",
        "ready": False,
        "restartCount": restarts,
        "state": state,
        **more,
    }


def waiting(reason: str, message: str = "") -> JSON:
    return {"waiting": {"reason": reason, "message": message}}


ENDED = {"terminated": {"exitCode": 2, "reason": "Error"}}
REPORTED: dict[str, tuple[JSON, str]] = {
    "pull": (
        {"containerStatuses": [container("main", waiting("ImagePullBackOff", "Back-off pulling image"))]},
        "is not ready: container main: ImagePullBackOff: Back-off pulling image",
    ),
    "image": (
        {"containerStatuses": [container("main", waiting("InvalidImageName", "Failed"))]},
        "is not ready: container main: InvalidImageName: Failed",
    ),
    "secret": (
        {"containerStatuses": [container("main", waiting("CreateContainerConfigError", 'secret "t" not found'))]},
        'is not ready: container main: CreateContainerConfigError: secret "t" not found',
    ),
    "crash": (
        {"containerStatuses": [container("main", waiting("CrashLoopBackOff", "back-off 5m0s"), 7, lastState=ENDED)]},
        "container main: CrashLoopBackOff, restarted 7 times, it ended with exit code 2 (Error)",
    ),
    "init-fails": (
        {"initContainerStatuses": [container("download", waiting("CrashLoopBackOff"), 3, lastState=ENDED)]},
        "container download: CrashLoopBackOff, restarted 3 times, it ended with exit code 2 (Error)",
    ),
    "init-runs": (
        {"initContainerStatuses": [container("download", {"running": {"startedAt": "2026-01-01T00:00:00Z"}})]},
        ": init container download runs",
    ),
}


def test_what_a_kubelet_reports_of_containers(sets: Sets):
    first = [{"name": "download", "image": "busybox"}]
    for name in REPORTED:
        more = {"initContainers": first} if name.startswith("init-") else {}
        sets.apply(manifest(annotated("silent", "true", **more), name=name))
    for name, (status, says) in REPORTED.items():
        [pod] = wait_for(lambda name=name: bound(sets, name), what=f"{name} to have a node")
        path = f"/api/v1/namespaces/{sets.namespace}/pods/{pod['metadata']['name']}/status"
        code, body = request(sets.cluster, "PATCH", path, {"status": status}, MERGE)
        assert code == 200, body
        wait_cause(sets, name, says)


def bound(sets: Sets, name: str) -> list[JSON]:
    return [pod for pod in sets.pods(name=name) if pod["spec"].get("nodeName")]


REFUSED = {
    "phase": "Failed",
    "reason": "UnexpectedAdmissionError",
    "message": "Allocate failed due to requested number of devices unavailable",
    "containerStatuses": None,
    "conditions": None,
}


def test_a_pod_that_its_kubelet_refuses_is_named_and_a_rule_decides_about_it(sets: Sets):
    rule = {"action": "RestartJobSetAndIgnoreMaxRestarts", "onPodReasons": ["UnexpectedAdmissionError"]}
    workers = group(pods_per_job=2, job={"backoffLimit": 0})
    sets.apply(manifest(workers, failurePolicy={"maxRestarts": 1, "rules": [{"name": "refused", **rule}]}))
    sets.wait_ready(1)
    [pod] = sets.pods("batch.kubernetes.io/job-completion-index=1")
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    path = f"/api/v1/namespaces/{sets.namespace}/pods/{name}/status"
    assert request(sets.cluster, "PATCH", path, {"status": REFUSED}, MERGE)[0] == 200
    wait_for(lambda: sets.status().get("restarts") == 1, what="the restart")
    assert sets.status().get("restartsCountTowardsMax", 0) == 0
    [attempt] = sets.status()["attemptHistory"]
    assert (attempt["pod"], attempt["node"]) == (name, node)
    assert attempt["podReason"] == f"{REFUSED['reason']}: {REFUSED['message']}"
    sets.wait_explained(f"pod {name} on node {node} (UnexpectedAdmissionError: Allocate failed", "by rule refused (")


def test_a_restart_that_waits_for_a_pod_that_does_not_end(sets: Sets):
    workers = group(replicas=2, pod={"terminationGracePeriodSeconds": 1})
    sets.apply(manifest(workers, failurePolicy={"maxRestarts": 3}))
    sets.wait_ready(2)
    [first] = sets.pods("jobset.sigs.k8s.io/job-index=0")
    [second] = sets.pods("jobset.sigs.k8s.io/job-index=1")
    name, node, where = second["metadata"]["name"], second["spec"]["nodeName"], ("-n", sets.namespace)
    kubectl(sets.cluster, "annotate", "pod", name, *where, "kwok.jobset.dev/grace-seconds=900")
    try:
        sets.end(first, code=1)
        wait_cause(sets, "js", f"pod {name} on node {node} is being deleted, overdue by", "grace period of 1 s is over")
    finally:
        kubectl(sets.cluster, "delete", "pod", name, *where, "--grace-period=0", "--force")
    sets.wait_ready(2)
