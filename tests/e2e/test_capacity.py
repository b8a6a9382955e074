"""A node goes and none is free: the set continues with fewer Jobs (docs/concepts/elastic.md)."""

import json
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from api.keys import EXCLUSIVE_TOPOLOGY, PLACEHOLDER
from dev.cluster.cluster import Cluster
from dev.cluster.node_faults import uncordon
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import kubectl, more_capacity, uids, wait_for

GATES = {"ElasticJobSet": True, "JobSetElasticReplicas": True, "JobSetNodeFailure": True}
pytestmark = [pytest.mark.manager(featureGates=GATES), pytest.mark.slow]
SLOT = "example.com/slot"
NODES = [f"node-{index:04d}" for index in range(3)]
REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"
BACK_WITHIN = 15
"""Seconds from a node that is back to a set with all its Jobs."""
CONTAINER = {"name": "main", "image": "busybox", "resources": {"limits": {SLOT: "1"}}}


def running(sets: Sets, jobs: int, but: Collection[str] = (), *, pods_per_job: int = 1) -> bool:
    """Whether the pods of so many Jobs run, each of which was told that number."""
    pods = [pod for pod in sets.pods() if pod["status"]["phase"] == "Running"]
    told = {pod["metadata"]["labels"][REPLICAS] for pod in pods}
    return len(pods) == jobs * pods_per_job and told == {str(jobs)} and uids(pods).isdisjoint(but)


POLICY = {
    "maxRestarts": 1,
    "nodeFailure": {"afterSeconds": 5, "whenNoCapacity": {"shrinkAfterSeconds": 3}},
}


@contextmanager
def lost_node(cluster: Cluster, sets: Sets) -> Iterator[Callable[[], None]]:
    """A set of three Jobs has lost one of three nodes, and runs with two. The call has the node back."""

    def give_back() -> None:
        with cluster.connect() as connection:
            uncordon(connection, node)

    workers = group(replicas=3, elastic={"min": 1, "max": 3}, pod={"containers": [CONTAINER]})
    with more_capacity(cluster, NODES, SLOT, "1"):
        sets.apply(manifest(workers, failurePolicy=POLICY))
        wait_for(lambda: running(sets, 3), what="the first attempt")
        before = sets.pods()
        node = before[0]["spec"]["nodeName"]
        kubectl(cluster, "cordon", node)
        try:
            sets.end(before[0], code=1)
            wait_for(lambda: running(sets, 2, uids(before)), what="two Jobs")
            yield give_back
        finally:
            give_back()


def placeholders(sets: Sets) -> list[dict[str, Any]]:
    return [pod for pod in sets.pods() if PLACEHOLDER in pod["metadata"]["labels"]]


def test_a_set_without_room_continues_with_fewer_jobs_and_grows_back(full_cluster, sets):
    with lost_node(full_cluster, sets) as give_back:
        status = sets.status()
        assert [(entry["name"], entry["replicas"]) for entry in status["reducedReplicas"]] == [("workers", 2)]
        assert (status["restarts"], status["restartsCountTowardsMax"]) == (2, 1)
        assert len(status["attemptHistory"]) == 1, "the failure alone"
        assert sets.get()["spec"]["replicatedJobs"][0]["replicas"] == 3
        assert [kind for kind, reason, _ in sets.events() if reason == "ReplicasReduced"] == ["Normal"]
        wait_for(lambda: placeholders(sets), what="the placeholder")
        assert "ReplicatedJob workers runs with 2 of 3 Jobs" in sets.explain()
        two = sets.pods()
        give_back()
        since = time.monotonic()
        wait_for(lambda: running(sets, 3, uids(two)), what="all Jobs")
        assert time.monotonic() - since <= BACK_WITHIN
        wait_for(lambda: "reducedReplicas" not in sets.status(), what="the status")
        status = sets.status()
        assert (status["restarts"], status["restartsCountTowardsMax"]) == (3, 1)
        assert len(status["attemptHistory"]) == 1, "a planned restart is no failure"
        assert not placeholders(sets)


def test_a_suspension_ends_placeholders_and_a_resume_begins_with_all_jobs(full_cluster, sets):
    with lost_node(full_cluster, sets) as give_back:
        wait_for(lambda: placeholders(sets), what="the placeholder")
        sets.patch({"suspend": True})
        wait_for(lambda: not sets.pods(), what="the end of the pods")
        assert "reducedReplicas" not in sets.status()
        give_back()
        sets.patch({"suspend": False})
        wait_for(lambda: running(sets, 3), what="all Jobs")


def test_workers_learn_a_number_that_a_person_changes(full_cluster, sets):
    def workers(replicas: int) -> dict[str, Any]:
        return group(replicas=replicas, elastic={"min": 1, "max": 4}, pod={"containers": [CONTAINER]})

    with more_capacity(full_cluster, NODES, SLOT, "1"):
        sets.apply(manifest(workers(3), failurePolicy=POLICY))
        wait_for(lambda: running(sets, 3), what="the first attempt")
        sets.patch({"replicatedJobs": [workers(2)]})
        wait_for(lambda: running(sets, 2), what="two Jobs")
        two = sets.pods()
        sets.patch({"replicatedJobs": [workers(4)]})
        wait_for(lambda: len(placeholders(sets)) == 2, what="placeholders for two more")
        assert uids(two) <= uids(sets.pods()), "the set goes on"
        wait_for(lambda: running(sets, 3, uids(two)), what="the one that there is room for")
        status = sets.status()
        assert (status["restarts"], status.get("restartsCountTowardsMax", 0)) == (2, 0)
        assert "attemptHistory" not in status


def test_in_exclusive_placement_a_placeholder_waits_for_a_whole_domain(full_cluster, sets):
    workers = group(replicas=2, pods_per_job=2, elastic={"min": 1, "max": 2})
    workers["template"]["metadata"] = {"annotations": {EXCLUSIVE_TOPOLOGY: "rack"}}
    sets.apply(manifest(workers, failurePolicy=POLICY))
    wait_for(lambda: running(sets, 2, pods_per_job=2), what="the first attempt")
    before = sets.pods()
    node = json.loads(kubectl(full_cluster, "get", "node", before[0]["spec"]["nodeName"], "-o", "json"))
    rack = f"rack={node['metadata']['labels']['rack']}"
    kubectl(full_cluster, "cordon", "-l", rack)
    try:
        sets.end(before[0], code=1)
        wait_for(lambda: running(sets, 1, uids(before), pods_per_job=2), what="one Job")
        wait_for(lambda: placeholders(sets), what="the placeholder")
        one = sets.pods()
    finally:
        kubectl(full_cluster, "uncordon", "-l", rack)
    wait_for(lambda: running(sets, 2, uids(one), pods_per_job=2), what="both Jobs")
    assert not placeholders(sets)
