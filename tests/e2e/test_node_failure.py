"""A node falls silent, and a set with `nodeFailure` goes on, on the full control plane (docs/concepts/node-failure.md)."""

import re
from datetime import datetime

import pytest

from controllers.planning.node_failure import OUT_OF_SERVICE
from dev.cluster.node_faults import UNREACHABLE, Taint, add_taint, come_back, fall_silent, remove_taint
from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import request, uids, wait_for

BROKEN = "example.com/gpu-broken"
pytestmark = pytest.mark.manager(featureGates={"JobSetNodeFailure": True}, nodeFailure={"taints": [BROKEN]})
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


@pytest.fixture
def tainted(full_cluster):
    """Gives a node a taint, which is removed at the end."""
    with full_cluster.connect() as connection:
        added = []

        def make(node: str, key: str, effect: str) -> None:
            added.append((node, key))
            add_taint(connection, node, Taint(key, "nodeshutdown", effect))

        yield make
        for node, key in added:
            remove_taint(connection, node, key)


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
    pods = r"pod \S+ (is|and 1 more are)"
    words = rf"{pods} being deleted on node {node}, which has the taint {UNREACHABLE} \(since "
    wait_for(lambda: re.search(words, sets.explain()), what=words, last=sets.explain)
    explained = sets.explain()
    assert f"kubectl taint nodes {node} {OUT_OF_SERVICE}=nodeshutdown:NoExecute; or kubectl delete pod -n" in explained


def test_a_taint_that_only_the_configuration_names_restarts_the_set(sets, tainted):
    """The kubelet works, so without that nothing would happen."""
    sets.apply(manifest(group("w", replicas=2), failurePolicy=policy(action="RestartJobSetAndIgnoreMaxRestarts")))
    wait_for(lambda: running(sets), what="the first attempt")
    before = uids(sets.pods())
    node = sets.pods()[0]["spec"]["nodeName"]
    tainted(node, BROKEN, "NoSchedule")
    wait_for(lambda: running(sets, before), what="the second attempt")
    status = sets.status()
    [attempt] = status["attemptHistory"]
    assert (status["restarts"], attempt["node"]) == (1, node)
    said = rf"NodeFailure: pod \S+ is on node {node}, which has the taint {BROKEN} since \S+"
    assert re.fullmatch(said, attempt["message"])
