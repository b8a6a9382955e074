"""A node goes and none is free: the set continues with fewer Jobs (docs/concepts/elastic.md)."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from dev.cluster.node_faults import uncordon
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import kubectl, more_capacity, uids, wait_for

GATES = {"JobSetElasticReplicas": True, "JobSetNodeFailure": True}
pytestmark = [pytest.mark.manager(featureGates=GATES), pytest.mark.slow]
SLOT = "example.com/slot"
NODES = [f"node-{index:04d}" for index in range(3)]
REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"
CONTAINER = {"name": "main", "image": "busybox", "resources": {"limits": {SLOT: "1"}}}


def running(sets: Sets, jobs: int, but: Collection[str] = ()) -> bool:
    """Whether so many pods run, each of which was told that number."""
    pods = [pod for pod in sets.pods() if pod["status"]["phase"] == "Running"]
    told = {pod["metadata"]["labels"][REPLICAS] for pod in pods}
    return len(pods) == jobs and told == {str(jobs)} and uids(pods).isdisjoint(but)


def test_a_set_without_room_continues_with_fewer_jobs_and_resumes_with_all(full_cluster, sets):
    policy = {
        "maxRestarts": 1,
        "nodeFailure": {"afterSeconds": 5, "whenNoCapacity": {"shrinkAfterSeconds": 3}},
    }
    workers = group(replicas=3, elastic={"min": 1, "max": 3}, pod={"containers": [CONTAINER]})
    with more_capacity(full_cluster, NODES, SLOT, "1"):
        sets.apply(manifest(workers, failurePolicy=policy))
        wait_for(lambda: running(sets, 3), what="the first attempt")
        before = sets.pods()
        node = before[0]["spec"]["nodeName"]
        kubectl(full_cluster, "cordon", node)
        try:
            sets.end(before[0], code=1)
            wait_for(lambda: running(sets, 2, uids(before)), what="two Jobs")
            status = sets.status()
            assert [(entry["name"], entry["replicas"]) for entry in status["reducedReplicas"]] == [("workers", 2)]
            assert (status["restarts"], status["restartsCountTowardsMax"]) == (2, 1)
            assert len(status["attemptHistory"]) == 1, "the failure alone"
            assert sets.get()["spec"]["replicatedJobs"][0]["replicas"] == 3
            assert [kind for kind, reason, _ in sets.events() if reason == "ReplicasReduced"] == ["Normal"]
            assert "ReplicatedJob workers runs with 2 of 3 Jobs" in sets.explain()
        finally:
            with full_cluster.connect() as connection:
                uncordon(connection, node)
        sets.patch({"suspend": True})
        wait_for(lambda: not sets.pods(), what="the end of the pods")
        assert "reducedReplicas" not in sets.status()
        sets.patch({"suspend": False})
        wait_for(lambda: running(sets, 3), what="all Jobs")
