"""A node is cordoned, or a pod evicted: sets with `maintenance` move as planned (docs/concepts/node-maintenance.md)."""

import pytest

from tests.e2e.test_in_place import WORKER, Kubelet, attempts, jobset
from tests.e2e.test_in_place import running as workers_running
from tests.support.cluster import agents
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import kubectl, request, uids, wait_for

GATES = {"JobSetNodeMaintenance": True, "InPlaceRestart": True}
pytestmark = [pytest.mark.manager(featureGates=GATES), pytest.mark.slow]
CORDON = "node.kubernetes.io/unschedulable"
CHECKPOINTS = f"trap 'touch \"$JOBSET_ACKNOWLEDGEMENT_FILE\"' USR1\n{WORKER}"
PLANNED = "this restart is planned, and does not count towards maxRestarts"


def cordon(sets: Sets, nodes: list[str]) -> str:
    """Cordon the node of the first pod, and give its name."""
    node: str = sets.pods()[0]["spec"]["nodeName"]
    nodes.append(node)
    kubectl(sets.cluster, "cordon", node)
    return node


def evict(sets: Sets, *, grace: int = 0) -> str:
    """Evict the first pod as `kubectl drain` does, and give the name of its node. It ends `grace` seconds later."""
    pod = sets.pods()[0]
    kubectl(
        sets.cluster,
        *("annotate", "pod", pod["metadata"]["name"], f"kwok.jobset.dev/grace-seconds={grace}", "-n", sets.namespace),
    )
    meta = {"name": pod["metadata"]["name"], "namespace": sets.namespace}
    path = f"/api/v1/namespaces/{sets.namespace}/pods/{meta['name']}/eviction"
    status, answer = request(
        sets.cluster, "POST", path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    )
    assert status == 201, answer
    node: str = pod["spec"]["nodeName"]
    return node


def notes(sets: Sets, reason: str) -> list[tuple[str, str]]:
    return [(kind, note) for kind, found, note in sets.events() if found == reason]


def running(sets: Sets, but: set[str] = frozenset()) -> bool:
    pods = sets.pods()
    return len(pods) == 2 and uids(pods).isdisjoint(but) and all(pod["status"]["phase"] == "Running" for pod in pods)


def test_a_set_leaves_a_cordoned_node_by_a_restart_that_does_not_count(sets, cordoned):
    wanted = {"taintKeys": [CORDON], "notice": {"waitSeconds": 3}}
    sets.apply(manifest(group("w", replicas=2), failurePolicy={"maxRestarts": 0, "maintenance": wanted}))
    wait_for(lambda: running(sets), what="the first attempt")
    before = uids(sets.pods())
    node = cordon(sets, cordoned)
    wait_for(lambda: sets.status().get("maintenance", {}).get("moveTime"), what="the notice")
    assert "it leaves 1 node at " in sets.explain()
    wait_for(lambda: running(sets, before), what="the second attempt")
    assert node not in {pod["spec"]["nodeName"] for pod in sets.pods()}
    status = sets.status()
    assert (status["restarts"], status.get("restartsCountTowardsMax", 0), status.get("terminalState")) == (1, 0, None)
    assert "attemptHistory" not in status
    assert status["lastRestart"]["reason"] == "NodeMaintenance"
    assert notes(sets, "NodeMaintenance") == [("Normal", f"node {node} has the taint {CORDON}: {PLANNED}")]


def test_in_place_all_workers_acknowledge_and_only_the_pods_there_are_replaced(sets, agent_file, tmp_path, cordoned):
    kubelet = Kubelet(sets, agent_file, tmp_path)
    try:
        wanted = {"taintKeys": [CORDON], "notice": {"signal": "SIGUSR1", "waitSeconds": 600}}
        agent = {"image": "agent", "mode": "MainContainer"}
        sets.apply(jobset(max_restarts=0, agent=agent, policy={"maintenance": wanted}, worker=CHECKPOINTS))
        first = workers_running(kubelet, attempt=0)
        jobs, pods = uids(sets.jobs()), {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in sets.pods()}
        node = cordon(sets, cordoned)
        second = workers_running(kubelet, attempt=1, but=first.values())
        there = {uid for uid, name in pods.items() if name == node}
        assert first.keys() & second.keys() == pods.keys() - there, "pods on other nodes are the same objects"
        assert node not in {pod["spec"]["nodeName"] for pod in sets.pods()}
        assert uids(sets.jobs()) == jobs, "no Job is created again"
        assert not any(agents.alive(pid) for pid in first.values())
        status = sets.status()
        assert (attempts(sets), status["restarts"], status.get("terminalState")) == ((0, 1), 0, None)
        assert all(job["status"].get("failed", 0) == 0 for job in sets.jobs()), "no pod has failed"
        assert "attemptHistory" not in status
        [(kind, note)] = notes(sets, "NodeMaintenance")
        assert (kind, note.endswith(f"its pods there are replaced, and all restart in place; {PLANNED}")) == (
            "Normal",
            True,
        )
    finally:
        kubelet.close()


def test_a_set_of_which_a_pod_is_evicted_moves_by_a_restart_that_does_not_count(sets):
    sets.apply(
        manifest(group("w", replicas=2), failurePolicy={"maxRestarts": 0, "maintenance": {"taintKeys": [CORDON]}})
    )
    wait_for(lambda: running(sets), what="the first attempt")
    before = uids(sets.pods())
    node = evict(sets)
    wait_for(lambda: running(sets, before), what="the second attempt")
    status = sets.status()
    assert (status["restarts"], status.get("restartsCountTowardsMax", 0), status.get("terminalState")) == (1, 0, None)
    assert "attemptHistory" not in status
    assert notes(sets, "NodeMaintenance") == [("Normal", f"pods on node {node} are evicted: {PLANNED}")]
    wait_for(lambda: "maintenance" not in sets.status(), what="the node is forgotten, since it has no taint")


def test_in_place_workers_acknowledge_while_the_evicted_pod_has_its_grace_period(sets, agent_file, tmp_path):
    kubelet = Kubelet(sets, agent_file, tmp_path)
    kubelet.in_grace = True
    try:
        wanted = {"taintKeys": [CORDON], "notice": {"signal": "SIGUSR1", "waitSeconds": 600}}
        agent = {"image": "agent", "mode": "MainContainer"}
        sets.apply(jobset(max_restarts=0, agent=agent, policy={"maintenance": wanted}, worker=CHECKPOINTS))
        first = workers_running(kubelet, attempt=0)
        pods = uids(sets.pods())
        node = evict(sets, grace=10)
        kubelet.until(lambda: notes(sets, "NodeMaintenance"), "the move, after all workers have acknowledged")
        evicted = [pod for pod in sets.pods(ending=True) if "deletionTimestamp" in pod["metadata"]]
        assert [pod["status"]["phase"] for pod in evicted] == ["Running"], "it has not ended yet"
        second = workers_running(kubelet, attempt=1, but=first.values())
        assert len(first.keys() & second.keys()) == len(pods) - 1, "all other pods are the same objects"
        status = sets.status()
        assert (attempts(sets), status["restarts"], status.get("terminalState")) == ((0, 1), 0, None)
        assert "attemptHistory" not in status
        [(_, note)] = notes(sets, "NodeMaintenanceNotice")
        assert note.startswith(f"pods on node {node} are evicted: the set moves at ")
    finally:
        kubelet.close()
