"""Sets that are suspended, preempted, drained and placed on real nodes."""

from collections.abc import Iterator

import pytest

from dev.cluster import node_faults
from dev.cluster.kubectl import run_kubectl
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.real import running
from tests.support.cluster.requests import create_class, listed, request, uids, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
TRAP = ["python3", "-c", "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(1)); signal.pause()"]
HIGH = "real-high"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
def high_priority(real_sets: Sets) -> Iterator[str]:
    create_class(real_sets.cluster, HIGH, 1000)
    yield HIGH
    request(real_sets.cluster, "DELETE", f"{CLASSES}/{HIGH}")


def nodes_of(sets: Sets, selector: str = "", name: str = "js") -> set[str]:
    return {pod["spec"].get("nodeName", "") for pod in sets.pods(selector, name)}


def test_a_queue_suspends_a_set_and_resumes_it_on_the_nodes_of_its_choice(real_sets: Sets):
    real_sets.apply(manifest(group(pods_per_job=2, pod=running(TRAP)), suspend=True))
    wait_for(lambda: real_sets.condition("Suspended"), what="suspended")
    assert real_sets.pods() == []
    workers = group(pods_per_job=2, pod=running(TRAP, nodeSelector={"kubernetes.io/hostname": "real-1"}))
    real_sets.apply(manifest(workers, suspend=False))
    real_sets.wait_ready(1)
    assert nodes_of(real_sets) == {"real-1"}
    real_sets.patch({"suspend": True})
    wait_for(lambda: not real_sets.pods(ending=True), what="the end of its pods")
    real_sets.patch({"suspend": False})
    real_sets.wait_ready(1)
    assert real_sets.status().get("restarts", 0) == 0


def test_a_set_of_higher_priority_takes_the_place_of_another_one(real_sets: Sets, high_priority: str):
    nodes = listed(real_sets.cluster, "/api/v1/nodes")
    memory = min(int(node["status"]["allocatable"]["memory"].removesuffix("Ki")) for node in nodes)
    most = {"requests": {"memory": f"{memory * 6 // 10}Ki"}}
    low = group(pods_per_job=2, pod=running(TRAP, resources=most))
    real_sets.apply(manifest(low, name="low", failurePolicy={"maxRestarts": 10}))
    real_sets.wait_ready(1, "low")
    high = group(pod=running(TRAP, resources=most, priorityClassName=high_priority))
    real_sets.apply(manifest(high, name="high"))
    real_sets.wait_ready(1, "high", timeout=90)
    wait_for(lambda: real_sets.status("low").get("restarts"), what="the restart of the other set")


def test_each_exclusive_job_has_a_node_of_its_own(real_sets: Sets):
    body = manifest(group(replicas=2, pods_per_job=2, pod=running(TRAP)))
    body["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    real_sets.apply(body)
    real_sets.wait_ready(2)
    places = [nodes_of(real_sets, f"jobset.sigs.k8s.io/job-index={index}") for index in (0, 1)]
    assert sorted(map(sorted, places)) == [["real-0"], ["real-1"]]


def test_a_drained_node_loses_its_pods_and_the_set_runs_on_the_other(real_sets: Sets):
    cluster = real_sets.cluster
    body = manifest(group(pods_per_job=2, pod=running(TRAP)), failurePolicy={"maxRestarts": 3})
    real_sets.apply(body)
    real_sets.wait_ready(1)
    before = uids(real_sets.pods())
    drained = max(nodes_of(real_sets))
    with cluster.connect() as connection:
        try:
            run_kubectl(cluster.plan, "drain", drained, "--ignore-daemonsets", "--delete-emptydir-data", "--force")
            wait_for(lambda: real_sets.pods() and drained not in nodes_of(real_sets), timeout=60, what="no pod there")
            real_sets.wait_ready(1)
            assert uids(real_sets.pods()).isdisjoint(before), "the set was restarted as a whole"
        finally:
            node_faults.uncordon(connection, drained)
