"""Sets on three real nodes: exclusive Jobs, gangs, volumes with data, and two managers."""

from collections.abc import Iterator
from typing import Any

import pytest

from dev import local
from dev.cluster.cluster import Cluster
from dev.cluster.kubectl import run_kubectl
from dev.cluster.real import faults
from dev.cluster.real.layout import find_node
from dev.cluster.real.load import load_image
from dev.cluster.real.preflight import real_nodes_missing
from dev.cluster.spec import ClusterSpec, FakeNodes
from dev.hack.node_images import locate_images
from tests.e2e.real.test_life import managers
from tests.support.cluster import real
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.racks import condition
from tests.support.cluster.requests import OwnCluster, create_volume, kubectl, listed, new_namespace, request, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
NODES = ["real-0", "real-1", "real-2"]
GATES = ("JobSetNodeFailure", "JobSetWorkloadAwareSchedulingAPI")
TRAP = ["python3", "-c", "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(1)); signal.pause()"]
GANG = {"schedulingPolicy": {"gang": {}}}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/jobset-system/leases"
COUNTS = """
from pathlib import Path
file = Path("/data/starts")
starts = int(file.read_text()) + 1 if file.exists() else 1
file.write_text(str(starts))
print("start", starts, flush=True)
raise SystemExit(starts < 2)
"""


@pytest.fixture(scope="module")
def three_nodes(own_cluster: OwnCluster) -> Iterator[Cluster]:
    """Three real nodes, each a rack of its own, and manifests/install.yaml with feature gates: half a minute."""
    if missing := real_nodes_missing():
        pytest.skip(missing)
    with own_cluster(ClusterSpec(name="three", real_nodes=3, nodes=FakeNodes(label_every={"rack": 1}))) as cluster:
        for name, layout in locate_images().items():
            load_image(cluster.plan, layout, name)
        local.install_in_pods(cluster, gates=GATES)
        yield cluster


@pytest.fixture
def sets(three_nodes: Cluster) -> Iterator[Sets]:
    found = Sets(three_nodes, new_namespace(three_nodes))
    yield found
    found.close()


def nodes_of(sets: Sets, selector: str = "", name: str = "js") -> list[str]:
    """The nodes of the set's pods that have one."""
    return sorted(filter(None, (pod["spec"].get("nodeName", "") for pod in sets.pods(selector, name))))


def refusal(pod: dict[str, Any]) -> str:
    """Why the scheduler has not placed the pod."""
    return str(condition(pod, "PodScheduled").get("reason", ""))


def one_for_each_node(cluster: Cluster) -> dict[str, dict[str, str]]:
    """Resources of which a node has enough for one pod."""
    nodes = listed(cluster, "/api/v1/nodes")
    memory = min(int(node["status"]["allocatable"]["memory"].removesuffix("Ki")) for node in nodes)
    return {"requests": {"memory": f"{memory * 6 // 10}Ki"}}


def test_each_exclusive_job_has_one_of_three_nodes_and_the_fourth_waits(sets: Sets):
    body = manifest(group(replicas=4, pods_per_job=2, pod=real.running(TRAP)))
    body["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    sets.apply(body)
    sets.wait_ready(3)
    jobs = [nodes_of(sets, f"jobset.sigs.k8s.io/job-index={index}") for index in range(4)]
    assert sorted(jobs) == [[], *([node] * 2 for node in NODES)]


def test_a_gang_runs_whole_or_none_of_its_pods_has_a_node(sets: Sets):
    pod = real.running(TRAP, resources=one_for_each_node(sets.cluster))
    sets.apply(manifest(group(pods_per_job=2, pod=pod), name="first", scheduling=GANG))
    sets.wait_ready(1, "first")
    assert len(set(nodes_of(sets, name="first"))) == 2
    sets.apply(manifest(group(pods_per_job=2, pod=pod), name="second", scheduling=GANG))
    wait_for(lambda: [refusal(pod) for pod in sets.pods(name="second")] == ["Unschedulable"] * 2, what="the refusal")
    assert nodes_of(sets, name="second") == []
    sets.apply(manifest(group(pods_per_job=1, pod=pod), name="alone"))
    sets.wait_ready(1, "alone")
    request(sets.cluster, "DELETE", f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{sets.namespace}/jobsets/first")
    sets.wait_ready(1, "second")
    assert len(set(nodes_of(sets, name="second"))) == 2


def test_data_of_a_claim_survive_a_restart_and_with_retain_the_set(sets: Sets):
    cluster, namespace = sets.cluster, sets.namespace
    for claim in ("data-js", "scratch-js"):
        create_volume(
            cluster, namespace, claim, "1Gi", "ReadWriteOnce", path=f"/srv/{namespace}/{claim}", node="real-2"
        )
    claims = [
        {
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        for name in ("data", "scratch")
    ]
    policies = [{"templates": claims[:1], "retentionPolicy": {"whenDeleted": "Retain"}}, {"templates": claims[1:]}]
    pod = real.running(["python3", "-c", COUNTS])
    pod["containers"][0]["volumeMounts"] = [{"name": name, "mountPath": f"/{name}"} for name in ("data", "scratch")]
    body = manifest(group(pod=pod), volumeClaimPolicies=policies, failurePolicy={"maxRestarts": 3})
    sets.apply(body)
    sets.wait_state("Completed", timeout=90)
    assert sets.status()["restarts"] == 1

    def said() -> str:
        return kubectl(cluster, "logs", "-l", "jobset.sigs.k8s.io/jobset-name=js", namespace=namespace)

    assert said() == "start 2\n"
    [ran] = kubectl(cluster, "get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}", namespace=namespace).split()
    assert ran == "real-2", "pods run where the volume is"
    kubectl(cluster, "delete", "jobset", "js", "--cascade=foreground", namespace=namespace)

    def left() -> list[str]:
        return kubectl(cluster, "get", "pvc", "-o", "name", namespace=namespace).split()

    wait_for(lambda: left() == ["persistentvolumeclaim/data-js"], what="only the claim with Retain")
    sets.apply(body)
    wait_for(lambda: sets.counts()["failed"] or sets.pods(), what="pods that wait for the other claim")
    kubectl(cluster, "delete", "pv", f"{namespace}-scratch-js")
    create_volume(cluster, namespace, "scratch-js", "1Gi", "ReadWriteOnce", path=f"/srv/{namespace}/b", node="real-2")
    sets.wait_state("Completed", timeout=90)
    assert said() == "start 3\n"


def leader(cluster: Cluster) -> str:
    """The pod of the manager that holds the lease."""
    [lease] = listed(cluster, LEASES)
    return str(lease["spec"].get("holderIdentity", "")).partition("_")[0]


def test_the_manager_of_another_node_goes_on_when_the_leaders_node_has_no_power(sets: Sets):
    cluster = sets.cluster
    places = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in managers(cluster)}
    assert len(places) == len(set(places.values())) == 2, places
    first = leader(cluster)
    lost = places[first]
    other = next(node for node in NODES if node != lost)
    pod = real.running(TRAP, nodeSelector={"kubernetes.io/hostname": other})
    sets.apply(manifest(group(pod=pod), failurePolicy={"maxRestarts": 3}))
    sets.wait_ready(1)
    [worker] = sets.pods()
    node = find_node(cluster.plan.layout, lost)
    with cluster.connect() as connection:
        faults.cut_power(node)
        try:
            kubectl(
                cluster,
                "exec",
                worker["metadata"]["name"],
                "--",
                "python3",
                "-c",
                "import os; os.kill(1, 15)",
                namespace=sets.namespace,
                check=False,
            )
            wait_for(lambda: sets.status().get("restarts") == 1, timeout=90, what="the restart by the other manager")
            assert leader(cluster) != first
            sets.wait_ready(1)
        finally:
            faults.come_back(node, connection)
            run_kubectl(
                cluster.plan,
                "rollout",
                "status",
                "--namespace=jobset-system",
                "--timeout=90s",
                "deployment/jobset-controller-manager",
            )
