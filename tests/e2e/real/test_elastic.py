"""A node is lost and no other has room: the set goes on with fewer Jobs, and with all of them when the node is back."""

import time
from datetime import datetime
from typing import Any

import pytest

from tests.e2e.real.test_life import dns_node_and_other, without_power
from tests.e2e.real.test_lost_nodes import ENDS_AT_SIGTERM, tainted_at
from tests.e2e.real.test_three_nodes import one_for_each_node
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.racks import condition
from tests.support.cluster.real import running
from tests.support.cluster.requests import kubectl, listed, uids, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
AFTER_SECONDS = 5
SHRINK_AFTER_SECONDS = 10
LATE = 5
"""Seconds beyond these two until the set goes on."""
BACK_WITHIN = 15
"""Seconds from a node that is ready to a set with all its Jobs."""
REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"


def run(sets: Sets, jobs: int) -> bool:
    """Whether so many pods are ready, each of which was told that number."""
    ready = [pod for pod in sets.pods() if condition(pod, "Ready").get("status") == "True"]
    return [pod["metadata"]["labels"][REPLICAS] for pod in ready] == [str(jobs)] * jobs


def numbers_read(sets: Sets) -> list[str]:
    """What the containers of the set's pods read in JOBSET_REPLICAS."""
    show = ("--", "sh", "-c", "echo $JOBSET_REPLICAS")
    names = [pod["metadata"]["name"] for pod in sets.pods() if condition(pod, "Ready").get("status") == "True"]
    return [kubectl(sets.cluster, "exec", name, *show, namespace=sets.namespace).strip() for name in names]


def ready_at(of: dict[str, Any]) -> float:
    """When a node or pod became ready."""
    return datetime.fromisoformat(condition(of, "Ready")["lastTransitionTime"]).timestamp()


def test_a_set_goes_on_without_a_node_and_with_it_when_it_is_back(real_sets: Sets, record_property):
    cluster = real_sets.cluster
    _, lost = dns_node_and_other(cluster)
    failure = {
        "afterSeconds": AFTER_SECONDS,
        "forceDeletePods": True,
        "whenNoCapacity": {"shrinkAfterSeconds": SHRINK_AFTER_SECONDS},
    }
    pod = running(ENDS_AT_SIGTERM, resources=one_for_each_node(cluster))
    workers = group(replicas=2, elastic={"min": 1, "max": 2}, pod=pod)
    real_sets.apply(manifest(workers, failurePolicy={"maxRestarts": 3, "nodeFailure": failure}))
    wait_for(lambda: run(real_sets, 2), timeout=120, what="both Jobs", last=real_sets.explain)
    with without_power(cluster, lost):
        since = wait_for(lambda: tainted_at(cluster, lost), timeout=90, what="the taint")
        wait_for(lambda: run(real_sets, 1), timeout=60, what="one Job", last=real_sets.explain)
        seconds = time.time() - since - AFTER_SECONDS - SHRINK_AFTER_SECONDS
        record_property("ms beyond shrinkAfterSeconds until a smaller set ran", round(seconds * 1000))
        assert seconds <= LATE
        assert numbers_read(real_sets) == ["1"]
        wait_for(lambda: len(real_sets.pods()) == 2, what="the placeholder")
        before = uids(real_sets.pods())
    wait_for(lambda: run(real_sets, 2), timeout=60, what="both Jobs", last=real_sets.explain)
    [node] = [node for node in listed(cluster, "/api/v1/nodes") if node["metadata"]["name"] == lost]
    seconds = max(map(ready_at, real_sets.pods())) - ready_at(node)
    record_property("seconds until all Jobs ran again after a node was back", round(seconds))
    assert seconds <= BACK_WITHIN
    assert numbers_read(real_sets) == ["2", "2"]
    assert before.isdisjoint(uids(real_sets.pods()))
    status = real_sets.status()
    assert "reducedReplicas" not in status
    assert (status["restarts"], status["restartsCountTowardsMax"]) == (3, 1)
