"""A set with `avoidNodes` keeps away from nodes that failed it, on the full control plane (docs/concepts/avoid-nodes.md)."""

import pytest

from dev.cluster.node_faults import come_back, fall_silent
from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import request, uids, wait_for

pytestmark = pytest.mark.manager(featureGates={"JobSetNodeFailure": True, "JobSetAvoidNodes": True})
HOSTNAME = "kubernetes.io/hostname"


def policy(**wanted) -> dict:
    failed = {"afterSeconds": 1, "action": "RestartJobSetAndIgnoreMaxRestarts", "forceDeletePods": True}
    return {"maxRestarts": 0, "nodeFailure": failed, "avoidNodes": wanted}


def running(sets, before=frozenset()) -> list[str]:
    """The nodes of the two pods once both run; none before."""
    pods = sets.pods()
    run = len(pods) == 2 and uids(pods).isdisjoint(before) and all(pod["status"]["phase"] == "Running" for pod in pods)
    return [pod["spec"]["nodeName"] for pod in pods] if run else []


@pytest.fixture
def fail(full_cluster, sets):
    """Makes a node silent until the pods on it are gone; then it works again."""
    with full_cluster.connect() as connection:
        silent = []

        def make(node: str) -> None:
            before = uids(sets.pods())
            silent.append(node)
            fall_silent(connection, node)
            wait_for(lambda: uids(sets.pods()).isdisjoint(before), what="the end of the attempt")
            come_back(connection, silent.pop())

        yield make
        for node in silent:
            come_back(connection, node)


def test_pods_of_the_next_attempt_keep_away_from_a_node_that_works_again(sets, fail):
    sets.apply(manifest(group("w", replicas=2), failurePolicy=policy(forSeconds=600)))
    first = wait_for(lambda: running(sets), what="the first attempt")
    fail(first[0])
    assert first[0] not in wait_for(lambda: running(sets), what="the second attempt")
    [node] = sets.status()["failedNodes"]
    assert (node["name"], node["failures"]) == (first[0], 1)
    assert node["reason"].startswith("NodeFailure: pod ")
    assert [reason for _, reason, _ in sets.events() if reason == "AvoidsNode"] == ["AvoidsNode"]


def test_where_nothing_else_fits_the_node_is_used_again(full_cluster, sets, fail):
    _, nodes = request(full_cluster, "GET", "/api/v1/nodes")
    only = nodes["items"][0]["metadata"]
    tied = group("w", replicas=2, pod={"nodeSelector": {HOSTNAME: only["labels"][HOSTNAME]}})
    sets.apply(manifest(tied, failurePolicy=policy(dropAfterSeconds=2)))
    wait_for(lambda: running(sets), what="the first attempt")
    fail(only["name"])
    assert wait_for(lambda: running(sets), what="the second attempt") == [only["name"]] * 2
    assert "failedNodes" not in sets.status()
    [note] = [note for _, reason, note in sets.events() if reason == "AvoidedNodeDropped"]
    assert note.startswith(f"node {only['name']} is not avoided any more: pod ")
    assert sets.status()["restarts"] == 1
