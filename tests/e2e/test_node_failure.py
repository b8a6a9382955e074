"""A node falls silent, and a set with `nodeFailure` goes on, on the full control plane (docs/concepts/recovery.md)."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from controllers.planning.node_failure import OUT_OF_SERVICE
from devcluster.node_faults import UNREACHABLE, come_back, fall_silent
from tests.support.cluster import request, uids, wait_for
from tests.support.jobs import group, manifest

pytestmark = pytest.mark.manager(featureGates={"JobSetNodeFailure": True})
SECONDS = 2
SOON = 30
"""Seconds until all pods run again, on a busy machine: far less than the five minutes of Kubernetes."""


@pytest.fixture
def silent(full_cluster, sets):
    """Makes the node of the first pod silent; gives its name. It works again at the end."""
    with full_cluster.connect() as connection:
        names = []

        def make() -> str:
            names.append(sets.pods()[0]["spec"]["nodeName"])
            fall_silent(connection, names[0])
            return names[0]

        yield make
        for name in names:
            come_back(connection, name)


def policy(**wanted) -> dict:
    return {"maxRestarts": 0, "nodeFailure": {"afterSeconds": SECONDS, **wanted}}


def running(sets, before=frozenset()) -> bool:
    pods = sets.pods()
    return len(pods) == 2 and uids(pods).isdisjoint(before) and all(pod["status"]["phase"] == "Running" for pod in pods)


def added(cluster, node: str) -> datetime:
    _, answer = request(cluster, "GET", f"/api/v1/nodes/{node}")
    return min(datetime.fromisoformat(one["timeAdded"]) for one in answer["spec"]["taints"] if "timeAdded" in one)


def test_a_silent_node_restarts_the_set_and_its_pods_are_not_waited_for(full_cluster, sets, silent):
    free = {"action": "RestartJobSetAndIgnoreMaxRestarts", "forceDeletePods": True}
    sets.apply(manifest(group("w", replicas=2), failurePolicy=policy(**free)))
    wait_for(lambda: running(sets), what="the first attempt")
    before = uids(sets.pods())
    node = silent()
    wait_for(lambda: running(sets, before), what="the second attempt")
    status = sets.status()
    [attempt] = status["attemptHistory"]
    assert (status["restarts"], attempt["node"]) == (1, node)
    assert attempt["message"].startswith("NodeFailure: pod ")
    assert f"which has the taint {UNREACHABLE} since" in attempt["message"]
    started = max(datetime.fromisoformat(pod["status"]["startTime"]) for pod in sets.pods())
    assert SECONDS <= (started - added(full_cluster, node)).total_seconds() <= SOON


def test_without_force_a_warning_says_what_the_restart_waits_for(sets, silent):
    free = {"action": "RestartJobSetAndIgnoreMaxRestarts"}
    sets.apply(manifest(group("w", replicas=2), failurePolicy=policy(**free)))
    wait_for(lambda: running(sets), what="the first attempt")
    node = silent()

    def said() -> list[str]:
        return [note for _, reason, note in sets.events() if reason == "RestartWaitsForNode"]

    [note] = wait_for(said, what="the warning")
    assert f"on node {node}, which has the taint {UNREACHABLE}" in note
    assert "--grace-period=0" in note
    assert sets.status()["restarts"] == 1
    explained = sets.explain()
    assert re.search(rf"pod \S+ is being deleted on node {node}, which has the taint {UNREACHABLE} \(since ", explained)
    assert f"kubectl taint nodes {node} {OUT_OF_SERVICE}=nodeshutdown:NoExecute; or kubectl delete pod -n" in explained
