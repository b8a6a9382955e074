"""Nodes that are lost, that restart and that fail their pods, in the life of a JobSet, with the words of a kubelet."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
import yaml

from dev.cluster.cluster import Cluster
from dev.cluster.node_faults import UNREACHABLE
from dev.cluster.real import faults
from dev.cluster.real.layout import find_node
from dev.hack.node_images import AGENT
from kube.client import PatchType
from tests.e2e.real.test_life import MANAGERS, dns_node_and_other, managers, without_power
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.racks import condition
from tests.support.cluster.real import running
from tests.support.cluster.requests import kubectl, listed, request, uids, wait_for
from tests.support.pages.files import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
JSON = dict[str, Any]
ENDS_AT_SIGTERM = [
    "python3",
    "-c",
    "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(143)); signal.pause()",
]
FAILS = ["sh", "-c", "sleep 2; test $JOB_COMPLETION_INDEX = 1 || exec sleep 3600; echo no route to rank 0; exit 3"]
WRITES = ["sh", "-c", "dd if=/dev/urandom of=/tmp/x bs=1M count=30; exec sleep 3600"]
AFTER_SECONDS = 5
IN_PLACE = {"backoffLimit": 2147483647, "podReplacementPolicy": "Failed"}


def account(sets: Sets) -> str:
    """The ServiceAccount of agents, with its rights."""
    *rights, _ = yaml.safe_load_all((ROOT / "examples/in-place-restart-added.yaml").read_text())
    kubectl(sets.cluster, "apply", "-f", "-", namespace=sets.namespace, stdin=yaml.safe_dump_all(rights))
    name: str = rights[0]["metadata"]["name"]
    return name


def spread(command: list[str], **more: Any) -> JSON:
    """A pod spec whose pods go to both nodes in equal numbers."""
    constraint = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    constraint["labelSelector"] = {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": "js"}}
    return running(command, topologySpreadConstraints=[constraint], terminationGracePeriodSeconds=30, **more)


@contextmanager
def full_disk(cluster: Cluster, name: str) -> Iterator[None]:
    """The file system of a node's kubelet is full for the length of the block."""
    node = find_node(cluster.plan.layout, name)
    faults.fill_disk(node)
    try:
        yield
    finally:
        with cluster.connect() as connection:
            faults.come_back(node, connection)


def tainted_at(cluster: Cluster, name: str) -> float:
    """When the node got the first taint of a silent node, in whole seconds; 0 if it has none."""
    [node] = [node for node in listed(cluster, "/api/v1/nodes") if node["metadata"]["name"] == name]
    times = [taint.get("timeAdded", "") for taint in node["spec"].get("taints", ()) if taint["key"] == UNREACHABLE]
    return min((datetime.fromisoformat(text).timestamp() for text in times if text), default=0)


@pytest.mark.parametrize("how", ["created again", "in place", "in place, image volume"])
def test_twelve_pods_run_again_after_the_power_of_a_node_was_cut(real_sets: Sets, how: str, record_property):
    cluster = real_sets.cluster
    kept, lost = dns_node_and_other(cluster)
    policy: JSON = {"maxRestarts": 3, "nodeFailure": {"afterSeconds": AFTER_SECONDS, "forceDeletePods": True}}
    workers = group(replicas=12, pod=spread(ENDS_AT_SIGTERM))
    in_place = how != "created again"
    if in_place:
        pod = spread(ENDS_AT_SIGTERM, serviceAccountName=account(real_sets), restartPolicy="OnFailure")
        workers = group(pods_per_job=12, pod=pod, job=IN_PLACE)
        agent = {"image": AGENT, "mode": "MainContainer", "imageVolume": how.endswith("image volume")}
        policy |= {"restartStrategy": "InPlaceRestart", "agent": agent}
    real_sets.apply(manifest(workers, failurePolicy=policy))
    real_sets.wait_ready(workers["replicas"], timeout=120)
    if in_place:
        real_sets.wait_attempt(0)  # else it is the first attempt that is delayed, and nothing restarts
    before = uids(stayed := [pod for pod in real_sets.pods() if pod["spec"]["nodeName"] == kept])
    assert len(stayed) == 6

    def all_run_again() -> bool:
        pods = [pod for pod in real_sets.pods() if condition(pod, "Ready").get("status") == "True"]
        status = real_sets.status()
        restarts = status.get("currentInPlaceRestartAttempt") if in_place else status.get("restarts")
        return restarts == 1 and [pod["spec"]["nodeName"] for pod in pods] == [kept] * 12

    with without_power(cluster, lost):
        since = wait_for(lambda: tainted_at(cluster, lost), timeout=90, what="the taint")
        # Six failed pods of one Job would have it wait for 320 s.
        wait_for(all_run_again, timeout=60, what="all pods", last=real_sets.explain)
        seconds = time.time() - since - AFTER_SECONDS
        record_property(f"ms beyond afterSeconds until 12 pods ran again, {how}", round(seconds * 1000))
        assert (before <= uids(real_sets.pods())) == in_place


def test_a_set_goes_on_without_the_node_that_was_rebooted(real_sets: Sets):
    cluster = real_sets.cluster
    kept, lost = dns_node_and_other(cluster)
    rule = {"name": "nodes", "action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["NodeFailure"]}
    policy = {"maxRestarts": 0, "rules": [rule], "nodeFailure": {"afterSeconds": 60}, "avoidNodes": {}}
    real_sets.apply(manifest(group(replicas=2, pod=spread(ENDS_AT_SIGTERM)), failurePolicy=policy))
    real_sets.wait_ready(2)
    [failed] = [pod["metadata"]["name"] for pod in real_sets.pods() if pod["spec"]["nodeName"] == lost]
    with without_power(cluster, lost):
        assert not tainted_at(cluster, lost)
    wait_for(lambda: real_sets.status().get("restarts") == 1, what="the restart")
    real_sets.wait_ready(2)
    status = real_sets.status()
    assert status.get("restartsCountTowardsMax", 0) == 0
    [entry] = status["attemptHistory"]
    assert (entry["pod"], entry["node"], entry["exitCode"]) == (failed, lost, 255)
    assert f"NodeFailure: pod {failed} was on node {lost}, which restarted" in entry["message"]
    assert [(node["name"], node["failures"]) for node in status["failedNodes"]] == [(lost, 1)]
    assert {pod["spec"]["nodeName"] for pod in real_sets.pods()} == {kept}, "it is not tainted, and has room"


def test_the_last_failure_of_a_sidecar_set_names_pod_and_exit_code(real_sets: Sets):
    policy = {"maxRestarts": 1, "restartStrategy": "InPlaceRestart", "agent": {"image": AGENT}}
    pod = running(FAILS, serviceAccountName=account(real_sets))
    real_sets.apply(manifest(group(pods_per_job=2, pod=pod, job=IN_PLACE), failurePolicy=policy))
    real_sets.wait_state("Failed", timeout=120)
    *_, last = real_sets.status()["attemptHistory"]
    assert (last["reason"], last["container"], last["exitCode"]) == ("ReachedMaxRestarts", "main", 3)
    assert last["pod"].startswith("js-workers-0-1-")
    assert last["node"]


def test_explain_names_what_the_node_of_an_evicted_pod_was_low_on(real_sets: Sets):
    _, node = dns_node_and_other(real_sets.cluster)
    pod = running(WRITES, nodeSelector={"kubernetes.io/hostname": node})
    real_sets.apply(manifest(group(pod=pod, job={"backoffLimit": 6}), failurePolicy={"maxRestarts": 1}))
    real_sets.wait_ready(1)
    words = "has failed: Evicted: The node was low on resource: ephemeral-storage. Threshold quantity: "
    with full_disk(real_sets.cluster, node):
        wait_for(lambda: words in real_sets.causes()["js"], timeout=90, what=words, last=real_sets.causes)


def test_a_kubelet_takes_back_the_mark_on_a_replica_that_lives(real_sets: Sets):
    """What a replica writes that cannot reach another one (`kube/peers.py`)."""
    cluster = real_sets.cluster
    name = managers(cluster)[0]["metadata"]["name"]
    mark = {"type": "Ready", "status": "False", "reason": "NoAnswer", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    body, how = {"status": {"conditions": [mark]}}, PatchType.STRATEGIC.value
    code, pod = request(cluster, "PATCH", f"{MANAGERS}/{name}/status", body, how)
    assert (code, condition(pod, "Ready")["status"]) == (200, "False")

    def is_ready() -> bool:
        return condition(request(cluster, "GET", f"{MANAGERS}/{name}")[1], "Ready")["status"] == "True"

    wait_for(is_ready, what="the kubelet's own word", last=lambda: json.dumps(managers(cluster)))
