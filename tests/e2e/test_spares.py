"""The place of a spare goes to a pod that finds no node, and to no other (docs/concepts/spares.md)."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dev.cluster.cluster import Cluster
from dev.cluster.node_faults import come_back, fall_silent
from kube.model.meta import MAX_INT32
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import kubectl, pods, request, uids, wait_for

GATES = {"JobSetSpares": True, "JobSetNodeFailure": True, "InPlaceRestart": True}
pytestmark = [pytest.mark.manager(featureGates=GATES), pytest.mark.slow]
NAME = "jobset.sigs.k8s.io/replicatedjob-name"
BIG = {"containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "20"}}}]}
JOB = "batch.kubernetes.io/job-name"
NODES = 20


def of(sets: Sets, name: str) -> list[dict[str, Any]]:
    """The running pods of a ReplicatedJob."""
    return [pod for pod in sets.pods(f"{NAME}={name}") if pod["status"]["phase"] == "Running"]


def spares(sets: Sets) -> tuple[int, int, int]:
    """How many spares are ready and missing, and how many places were given; the status leaves zeros out."""
    [entry] = sets.status().get("spares") or [{"name": "spare"}]
    assert entry["name"] == "spare"
    return entry.get("ready", 0), entry.get("missing", 0), entry.get("used", 0)


def competitor(sets: Sets) -> None:
    """Twice as many pods as there are nodes, each as large as a worker and of the same priority."""
    template = {"metadata": {"labels": {"app": "greedy"}}, "spec": {"restartPolicy": "Never", **BIG}}
    spec = {"parallelism": 2 * NODES, "completions": 2 * NODES, "template": template}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "greedy"}, "spec": spec}
    code, answer = request(sets.cluster, "POST", f"/apis/batch/v1/namespaces/{sets.namespace}/jobs", body)
    assert code == 201, json.dumps(answer)


def taken(sets: Sets) -> set[str]:
    found = pods(sets.cluster, sets.namespace, "app=greedy")
    return {pod["spec"]["nodeName"] for pod in found if pod["status"]["phase"] == "Running"}


@pytest.fixture
def silent(full_cluster: Cluster) -> Iterator[Callable[[str], None]]:
    """Makes a node silent. It works again at the end."""
    with full_cluster.connect() as connection:
        nodes: list[str] = []

        def make(node: str) -> None:
            nodes.append(node)
            fall_silent(connection, node)

        yield make
        for node in nodes:
            come_back(connection, node)


def held(sets: Sets) -> list[Any]:
    """What is known of the pods, for the words of a failure."""
    return [
        (pod["metadata"]["name"], pod["spec"].get("nodeName"), pod["spec"].get("schedulingGates"), pod["status"])
        for pod in sets.pods()
    ]


IN_PLACE = {"maxRestarts": 5, "restartStrategy": "InPlaceRestart"}


@pytest.mark.parametrize(
    ("policy", "losses"), [({"maxRestarts": 5}, (1, 1)), (IN_PLACE, (1, 2))], ids=["created again", "in place"]
)
def test_with_free_nodes_lost_workers_go_to_the_places_of_spares(sets: Sets, silent, policy, losses):
    """One, then one again, in place two at almost the same time, although more than ten other nodes are free."""
    job = {"completions": 1, "parallelism": 1, "backoffLimit": MAX_INT32, "podReplacementPolicy": "Failed"}
    spare = {"name": "spare", "replicas": 2, "spareFor": "w", "template": {}}
    nodes = {"nodeFailure": {"afterSeconds": 0, "forceDeletePods": True}}
    sets.apply(manifest(group("w", replicas=3, pod=BIG, job=job), spare, failurePolicy=policy | nodes))
    used = 0
    for lost in losses:
        wait_for(lambda used=used: spares(sets) == (2, 0, used) and len(of(sets, "spare")) == 2, what="the spares")
        before, places = of(sets, "w"), {pod["spec"]["nodeName"] for pod in of(sets, "spare")}
        gone = {pod["metadata"]["labels"][JOB]: pod["metadata"]["uid"] for pod in before[:lost]}
        for pod in before[:lost]:
            silent(pod["spec"]["nodeName"])

        def new(gone: dict[str, str] = gone) -> list[dict[str, Any]]:
            """The pods in their place, once all workers run."""
            running = of(sets, "w")
            found = [pod for pod in running if pod["metadata"]["labels"][JOB] in gone]
            return found if len(running) == 3 and uids(found).isdisjoint(gone.values()) else []

        found = wait_for(new, what="all workers run again", last=lambda: held(sets))
        assert len(found) == lost
        assert {pod["spec"]["nodeName"] for pod in found} <= places
        used += lost
    events = [note for _, reason, note in sets.events() if reason == "SpareUsed"]
    assert len(events) == used, "no other pod of a restart takes a place"
    assert all("comes in the place of one that lost its node" in note for note in events)
    wait_for(lambda: spares(sets) == (2, 0, used), what="new spares")
    assert "promisedTo" not in sets.status()["spares"][0]


def test_a_place_goes_to_the_worker_however_many_wait_for_a_node(sets: Sets, cordoned):
    workers = group("w", replicas=3, pod=BIG, job={"backoffLimit": 6})
    sets.apply(manifest(workers, {"name": "spare", "replicas": 2, "spareFor": "w", "template": {}}))
    wait_for(lambda: spares(sets) == (2, 0, 0), what="the spares")
    competitor(sets)
    wait_for(lambda: len(taken(sets)) == NODES - 5, what="every free node is taken")
    for lost in range(2):
        before, places = of(sets, "w"), {pod["spec"]["nodeName"] for pod in of(sets, "spare")}
        node = before[0]["spec"]["nodeName"]
        cordoned.append(node)
        kubectl(sets.cluster, "cordon", node)
        kubectl(sets.cluster, "delete", "pod", before[0]["metadata"]["name"], "-n", sets.namespace, "--force")
        wait_for(lambda: len(of(sets, "w")) == 3, what="all workers run again")
        [new] = [pod for pod in of(sets, "w") if pod["metadata"]["uid"] not in uids(before)]
        assert new["spec"]["nodeName"] in places
        assert len(taken(sets)) == NODES - 5, "no other pod has got a node"
        wait_for(lambda lost=lost: spares(sets) == (1 - lost, 1 + lost, 1 + lost), what="a spare is missing")
    assert "/js: runs, 3 of 3 Jobs ready or done" in sets.explain()
    assert "0 of 2 spares of ReplicatedJob spare for w are ready" in sets.explain()
    assert [reason for _, reason, _ in sets.events() if reason == "SpareUsed"] == ["SpareUsed"] * 2
    assert sets.status()["restarts"] == 0
    kubectl(sets.cluster, "delete", "job", "greedy", "-n", sets.namespace)
    wait_for(lambda: spares(sets) == (2, 0, 2), what="new spares")
    for pod in of(sets, "w"):
        sets.end(pod)
    sets.wait_state("Completed")
    wait_for(lambda: not sets.pods(), what="the spares end with the set")
