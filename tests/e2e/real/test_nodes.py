"""Containers run on real nodes, find each other, and end with what a kubelet writes when the node breaks."""

import subprocess
import sys
from typing import Any

import pytest

from dev.cluster.cluster import Cluster
from dev.cluster.node_faults import UNREACHABLE
from tests.support.cluster.real import create_pod, logs, phase, pod
from tests.support.cluster.requests import listed, request, wait_for


def break_node(cluster: Cluster, node: str, fault: str) -> str:
    """Run `jobset cluster node`; returns what it prints."""
    command = [sys.executable, "-m", "cli", "cluster", "node", f"--name={cluster.name}"]
    command += [f"--state-dir={cluster.plan.layout.root.parent}", node, fault]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=90).stdout  # noqa: S603


@pytest.fixture
def whole(real_cluster):
    """The cluster, whose node real-1 is brought back at the end."""
    yield real_cluster
    break_node(real_cluster, "real-1", "--back")


def node_of(cluster: Cluster, name: str) -> dict[str, Any]:
    return next(node for node in listed(cluster, "/api/v1/nodes") if node["metadata"]["name"] == name)


def taints(cluster: Cluster, name: str) -> set[str]:
    return {taint["key"] for taint in node_of(cluster, name)["spec"].get("taints", ())}


def test_pods_reach_each_other_by_service_name_on_both_nodes(real_cluster, namespace):
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    assert request(real_cluster, "POST", f"/api/v1/namespaces/{namespace}/services", service)[0] == 201
    create_pod(real_cluster, namespace, "web", "echo hello > index.html; httpd -f -p 80", nodeName="real-0")
    ask = "until wget -q -O - http://web; do sleep 0.2; done"
    for node in ("real-0", "real-1"):
        create_pod(real_cluster, namespace, node, ask, nodeName=node, restartPolicy="Never")
    for node in ("real-0", "real-1"):
        wait_for(lambda node=node: phase(real_cluster, namespace, node) == "Succeeded", what=f"the answer on {node}")
        assert logs(real_cluster, namespace, node).splitlines()[-1] == "hello"


def test_after_a_power_cut_the_node_says_that_it_was_rebooted(whole, namespace):
    create_pod(whole, namespace, "worker", "sleep 1000", nodeName="real-1", restartPolicy="Never")
    wait_for(lambda: phase(whole, namespace, "worker") == "Running", what="the worker runs")
    boot = node_of(whole, "real-1")["status"]["nodeInfo"]["bootID"]
    assert break_node(whole, "real-1", "--kill") == "Node real-1 is off.\n"
    assert not (whole.plan.layout.root / "real/real-1/pid").exists()
    assert break_node(whole, "real-1", "--back") == "Node real-1 is back.\n"
    wait_for(lambda: node_of(whole, "real-1")["status"]["nodeInfo"]["bootID"] != boot, what="another boot")
    wait_for(lambda: phase(whole, namespace, "worker") == "Failed", what="the worker counts as failed")
    ended = pod(whole, namespace, "worker")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (255, "Unknown")


@pytest.mark.slow
def test_pods_are_evicted_from_a_node_with_a_full_disk(whole, namespace):
    create_pod(whole, namespace, "writer", "sleep 1000", nodeName="real-1")
    wait_for(lambda: phase(whole, namespace, "writer") == "Running", what="the writer runs")
    break_node(whole, "real-1", "--disk-full")
    wait_for(lambda: phase(whole, namespace, "writer") == "Failed", timeout=60, what="the eviction")
    assert pod(whole, namespace, "writer")["status"]["reason"] == "Evicted"
    assert "node.kubernetes.io/disk-pressure" in taints(whole, "real-1")
    break_node(whole, "real-1", "--back")
    assert not taints(whole, "real-1")


@pytest.mark.slow
def test_a_drained_node_takes_pods_again_once_it_is_back(whole, namespace):
    create_pod(whole, namespace, "worker", "sleep 1000", nodeName="real-1")
    wait_for(lambda: phase(whole, namespace, "worker") == "Running", what="the worker runs")
    break_node(whole, "real-1", "--drain")
    assert phase(whole, namespace, "worker") == "gone"
    assert node_of(whole, "real-1")["spec"]["unschedulable"]
    break_node(whole, "real-1", "--back")
    assert not taints(whole, "real-1")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["--silent", "--partition"])
def test_a_node_out_of_reach_is_tainted_and_its_containers_run_on(whole, namespace, fault):
    create_pod(whole, namespace, "worker", "sleep 1000", nodeName="real-1")
    wait_for(lambda: phase(whole, namespace, "worker") == "Running", what="the worker runs")
    started = pod(whole, namespace, "worker")["status"]["containerStatuses"][0]["containerID"]
    break_node(whole, "real-1", fault)
    wait_for(lambda: UNREACHABLE in taints(whole, "real-1"), timeout=90, what="the taint")
    break_node(whole, "real-1", "--back")
    assert not taints(whole, "real-1")
    assert pod(whole, namespace, "worker")["status"]["containerStatuses"][0]["containerID"] == started
