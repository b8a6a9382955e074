"""A node falls silent, and a set with `nodeFailure` goes on, on the full control plane (docs/concepts/node-failure.md)."""

from __future__ import annotations

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


@pytest.fixture
def deleted(full_cluster):
    """Deletes a node, which is created again at the end."""
    removed = []

    def make(node: str) -> None:
        path = f"/api/v1/nodes/{node}"
        removed.append(request(full_cluster, "GET", path)[1])
        assert request(full_cluster, "DELETE", path)[0] == 200

    yield make
    for body in removed:
        meta = {key: body["metadata"][key] for key in ("name", "labels", "annotations")}
        status = {key: body["status"][key] for key in ("capacity", "allocatable", "addresses")}
        answer = request(full_cluster, "POST", "/api/v1/nodes", {"metadata": meta, "status": status})
        assert answer[0] == 201, answer


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
    pods = r"pod \S+ (is|and 1 more are)"
    assert re.search(rf"{pods} being deleted on node {node}, which has the taint {UNREACHABLE} \(since ", explained)
    assert f"kubectl taint nodes {node} {OUT_OF_SERVICE}=nodeshutdown:NoExecute; or kubectl delete pod -n" in explained


@pytest.mark.slow
def test_out_of_service_ends_the_wait_without_force(sets, silent, tainted):
    """What the Warning advises: Kubernetes deletes the pods of a node that is said to be off."""
    sets.apply(manifest(group("w", replicas=2), failurePolicy=policy(action="RestartJobSetAndIgnoreMaxRestarts")))
    wait_for(lambda: running(sets), what="the first attempt")
    before = uids(sets.pods())
    node = silent()
    sets.wait_explained(f"is being deleted on node {node}")
    tainted(node, OUT_OF_SERVICE, "NoExecute")
    wait_for(lambda: running(sets, before), what="the second attempt", timeout=120)
    assert sets.status()["restarts"] == 1


@pytest.mark.parametrize(
    "taint", [BROKEN, pytest.param(OUT_OF_SERVICE, marks=pytest.mark.slow), pytest.param("", marks=pytest.mark.slow)]
)
def test_a_taint_that_counts_or_a_node_that_is_gone_restarts_the_set(sets, tainted, deleted, taint):
    """Also a taint that only the manager's configuration names. The kubelet works, so without it nothing would happen."""
    sets.apply(manifest(group("w", replicas=2), failurePolicy=policy(action="RestartJobSetAndIgnoreMaxRestarts")))
    wait_for(lambda: running(sets), what="the first attempt")
    before = uids(sets.pods())
    node = sets.pods()[0]["spec"]["nodeName"]
    tainted(node, taint, "NoSchedule") if taint else deleted(node)
    wait_for(lambda: running(sets, before), what="the second attempt")
    status = sets.status()
    [attempt] = status["attemptHistory"]
    assert (status["restarts"], attempt["node"]) == (1, node)
    state = f"which has the taint {taint} since" if taint else "which does not exist since"
    assert re.fullmatch(rf"NodeFailure: pod \S+ is on node {node}, {state} \S+", attempt["message"])


@pytest.mark.slow
def test_a_new_set_says_which_node_holds_a_job_of_the_earlier_one(sets, silent):
    """The earlier one was restarting: its Jobs are deleted in the foreground, so they wait for their pods."""
    body = manifest(group("w", replicas=2), failurePolicy=policy(action="RestartJobSetAndIgnoreMaxRestarts"))
    sets.apply(body)
    wait_for(lambda: running(sets), what="the first set")
    node = silent()
    sets.wait_explained(f"is being deleted on node {node}")
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{sets.namespace}/jobsets/js"
    assert request(sets.cluster, "DELETE", path)[0] == 200
    wait_for(lambda: sets.get() is None, what="the end of the first set")
    sets.apply(body)
    text = sets.wait_explained("the Job of an earlier JobSet of this name is still there", f"on node {node}, which has")
    assert re.search(rf"pod js-w-\d-0-\w+ is being deleted on node {node}, which has the taint {UNREACHABLE}", text)
