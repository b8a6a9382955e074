"""JobSets whose containers run: from the first pod to the last line of a log, through restarts and a lost node."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from dev.cluster import node_faults
from dev.cluster.cluster import Cluster
from dev.cluster.kubectl import run_kubectl
from dev.cluster.real import faults
from dev.cluster.real.layout import find_node
from dev.cluster.rest import Connection
from kube.model.meta import JSON
from kube.peers import LIST_PERIOD
from manifests import IMAGE
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.racks import condition
from tests.support.cluster.real import running
from tests.support.cluster.requests import kubectl, listed, uids, wait_for
from tests.support.pages.files import ROOT

pytestmark = pytest.mark.timeout(300)
MANAGERS = "/api/v1/namespaces/jobset-system/pods"
MANAGER = "deployment/jobset-controller-manager"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
WORKER = ["sh", "-c", "echo $$$$ > /tmp/pid; exec sleep 3600"]  # a pod spec has $$ for $
ADDRESS = """
import socket, time
while True:
    try:
        raise SystemExit(print(socket.gethostbyname("js-workers-0-1.js")))
    except OSError:
        time.sleep(0.2)
"""


def managers(cluster: Cluster) -> list[JSON]:
    """The replicas of the manager, without pods that a node has evicted: these are listed until they are collected."""
    return [pod for pod in listed(cluster, MANAGERS) if pod["status"]["phase"] not in {"Failed", "Succeeded"}]


def unready_reasons(cluster: Cluster) -> set[str]:
    """Why replicas of the manager are not ready."""
    conditions = [each for pod in managers(cluster) for each in pod["status"].get("conditions", ())]
    return {each.get("reason", "") for each in conditions if each["type"] == "Ready" and each["status"] == "False"}


def places(cluster: Cluster) -> list[tuple[str, str]]:
    """The node of each replica of the manager, and whether it is ready."""
    return [(pod["spec"].get("nodeName", ""), str(condition(pod, "Ready"))) for pod in managers(cluster)]


def ready_images(cluster: Cluster) -> list[str]:
    """The images of the replicas of the manager that are ready."""
    ready = [pod for pod in managers(cluster) if condition(pod, "Ready").get("status") == "True"]
    return [pod["spec"]["containers"][0]["image"] for pod in ready]


def test_install_yaml_runs_the_manager_from_its_image(installed_in_pods, real_cluster):
    wait_for(lambda: ready_images(real_cluster) == [IMAGE] * 2, what="two replicas of the image")


def test_pods_find_each_other_by_name_and_the_set_completes(real_sets: Sets):
    real_sets.apply(manifest(group(pods_per_job=2, pod=running(["python3", "-c", ADDRESS]))))
    real_sets.wait_state("Completed")
    logs = kubectl(real_sets.cluster, "logs", "-l", "jobset.sigs.k8s.io/jobset-name=js", namespace=real_sets.namespace)
    first, second = logs.split()
    assert first == second


def test_a_killed_worker_restarts_all_workers_in_their_pods(real_sets: Sets):
    cluster, namespace = real_sets.cluster, real_sets.namespace
    *rights, example = yaml.safe_load_all((ROOT / "examples/in-place-restart-added.yaml").read_text())
    kubectl(cluster, "apply", "-f", "-", namespace=namespace, stdin=yaml.safe_dump_all(rights))
    agent = {**example["spec"]["failurePolicy"]["agent"], "mode": "MainContainer"}
    job = {"backoffLimit": 2147483647, "podReplacementPolicy": "Failed"}
    pod = running(WORKER, serviceAccountName=rights[0]["metadata"]["name"], restartPolicy="OnFailure")
    policy = {"maxRestarts": 3, "restartStrategy": "InPlaceRestart", "agent": agent}
    real_sets.apply(manifest(group(pods_per_job=2, pod=pod, job=job), failurePolicy=policy))
    real_sets.wait_attempt(0)
    before = real_sets.pods()
    killed = before[0]["metadata"]["name"]
    kubectl(
        cluster,
        "exec",
        killed,
        "--",
        "sh",
        "-c",
        "until kill -9 $(cat /tmp/pid); do sleep 0.1; done",
        namespace=namespace,
    )
    real_sets.wait_attempt(1)
    assert uids(real_sets.pods()) == uids(before)


def test_pods_of_a_lost_node_run_again_on_another_one(real_sets: Sets):
    cluster = real_sets.cluster
    kept, lost = dns_node_and_other(cluster)
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    spread["labelSelector"] = {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": "js"}}
    pod = running(WORKER, topologySpreadConstraints=[spread])
    policy = {"maxRestarts": 3, "nodeFailure": {"afterSeconds": 0, "forceDeletePods": True}}
    real_sets.apply(manifest(group(pods_per_job=2, pod=pod), failurePolicy=policy))
    real_sets.wait_ready(1)
    assert {pod["spec"]["nodeName"] for pod in real_sets.pods()} == {kept, lost}
    with without_power(cluster, lost) as connection:
        node_faults.add_taint(connection, lost, node_faults.Taint.parse(OUT_OF_SERVICE))
        wait_for(lambda: real_sets.status().get("restarts") == 1, timeout=60, what="the restart")
        real_sets.wait_ready(1)
        assert {pod["spec"]["nodeName"] for pod in real_sets.pods()} == {kept}


@pytest.mark.slow
def test_a_replica_on_a_lost_node_leaves_the_service_before_the_node_counts_as_lost(real_sets: Sets):
    cluster = real_sets.cluster
    kept, lost = dns_node_and_other(cluster)
    start_replicas(cluster, on=(kept, lost))
    started = time.monotonic()
    wait_for(lambda: time.monotonic() - started > 2 * LIST_PERIOD, what="the replicas know each other")
    with without_power(cluster, lost):
        what = f"the replica on another node than {lost} notices it"
        wait_for(lambda: "NoAnswer" in unready_reasons(cluster), what=what, last=lambda: places(cluster))
        real_sets.apply(manifest(group()))


def start_replicas(cluster: Cluster, *, on: tuple[str, str]) -> None:
    """Replace the replicas of the manager by one on each of two nodes. kube-scheduler only prefers that."""
    run_kubectl(cluster.plan, "scale", "--replicas=0", "--namespace=jobset-system", MANAGER)
    for count, closed in enumerate(on, start=1):
        run_kubectl(cluster.plan, "cordon", closed)
        try:
            run_kubectl(cluster.plan, "scale", f"--replicas={count}", "--namespace=jobset-system", MANAGER)
            run_kubectl(cluster.plan, "rollout", "status", "--namespace=jobset-system", "--timeout=60s", MANAGER)
        finally:
            run_kubectl(cluster.plan, "uncordon", closed)


def dns_node_and_other(cluster: Cluster) -> tuple[str, str]:
    """The node that the cluster's DNS runs on, once a rollout of it has ended, and the other one."""

    def hosts() -> set[str]:
        found = listed(cluster, "/api/v1/namespaces/kube-system/pods", "k8s-app=kube-dns")
        return {pod["spec"].get("nodeName", "") for pod in found}

    wait_for(lambda: len(hosts()) == 1, timeout=60, what="the DNS on one node", last=hosts)
    [dns] = hosts()
    [other] = {node["metadata"]["name"] for node in listed(cluster, "/api/v1/nodes")} - {dns}
    return dns, other


@contextmanager
def without_power(cluster: Cluster, name: str) -> Iterator[Connection]:
    """A node has no power for the length of the block. At its end it has no taint of ours, and the manager is whole."""
    node = find_node(cluster.plan.layout, name)
    with cluster.connect() as connection:
        faults.cut_power(node)
        try:
            yield connection
        finally:
            node_faults.remove_taint(connection, name, OUT_OF_SERVICE.partition("=")[0])
            faults.come_back(node, connection)
            run_kubectl(cluster.plan, "rollout", "status", "--namespace=jobset-system", "--timeout=60s", MANAGER)
