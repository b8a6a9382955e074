"""A fake node falls silent, comes back, and gets taints: by the functions, and by `jobset cluster node`."""

import subprocess
import sys
from typing import Any

import pytest

from cli.main import main
from dev.cluster.cluster import Cluster
from dev.cluster.errors import UsageError
from dev.cluster.node_faults import UNREACHABLE, Taint, come_back, fall_silent
from tests.support.cluster.requests import request, wait_for


def get(cluster: Cluster, path: str) -> dict[str, Any] | None:
    status, answer = request(cluster, "GET", path)
    return answer if status == 200 else None


def create_pod(cluster: Cluster, namespace: str) -> str:
    """A pod that runs; returns its path."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"containers": [{"name": "main", "image": "example.com/train:1"}], "restartPolicy": "Never"}
    status, answer = request(cluster, "POST", path, {"metadata": {"name": "pod"}, "spec": spec})
    assert status == 201, answer
    wait_for(lambda: get(cluster, f"{path}/pod")["status"]["phase"] == "Running", what="the pod runs")
    return f"{path}/pod"


def taints(cluster: Cluster, node: str) -> list[dict[str, Any]]:
    return get(cluster, f"/api/v1/nodes/{node}")["spec"].get("taints", [])


def ready(found: dict[str, Any]) -> str:
    return next(each["status"] for each in found["status"]["conditions"] if each["type"] == "Ready")


@pytest.fixture
def lost_pod(full_cluster, namespace):
    """(path of a pod that runs, name of its node, which is silent); the node is back at the end."""
    pod = create_pod(full_cluster, namespace)
    node = get(full_cluster, pod)["spec"]["nodeName"]
    with full_cluster.connect() as connection:
        fall_silent(connection, node)
        yield pod, node
        come_back(connection, node)
    wait_for(lambda: not taints(full_cluster, node), what="the node has no taint")


@pytest.mark.e2e
def test_pods_of_a_silent_node_stay_terminating_until_it_is_back(full_cluster, lost_pod):
    pod, node = lost_pod
    assert UNREACHABLE in {each["key"] for each in taints(full_cluster, node)}
    assert ready(get(full_cluster, f"/api/v1/nodes/{node}")) == "Unknown"
    assert ready(get(full_cluster, pod)) == "False"
    request(full_cluster, "DELETE", f"{pod}?gracePeriodSeconds=1")
    # kwok ends a pod of a working node within some milliseconds.
    with pytest.raises(AssertionError):
        wait_for(lambda: get(full_cluster, pod) is None, timeout=2)
    with full_cluster.connect() as connection:
        come_back(connection, node)
    wait_for(lambda: get(full_cluster, pod) is None, what="the pod is gone")


@pytest.mark.e2e
def test_pods_that_were_kept_are_ready_again_once_the_node_is_back(full_cluster, lost_pod):
    pod, node = lost_pod
    with full_cluster.connect() as connection:
        come_back(connection, node)
    wait_for(lambda: ready(get(full_cluster, pod)) == "True", what="the pod is ready")


@pytest.mark.e2e
def test_the_command_adds_replaces_and_removes_taints(full_cluster, capsys):
    node = "node-0000"
    place = ["--name", full_cluster.name, "--state-dir", str(full_cluster.plan.layout.root.parent)]
    before = taints(full_cluster, node)
    for value in ("a", "b"):
        assert main(["cluster", "node", node, *place, "--taint", f"example.com/bad={value}:NoSchedule"]) == 0
    added = [each for each in taints(full_cluster, node) if each["key"] == "example.com/bad"]
    assert added == [{"key": "example.com/bad", "value": "b", "effect": "NoSchedule"}]
    assert main(["cluster", "node", node, *place, "--untaint", "example.com/bad"]) == 0
    assert taints(full_cluster, node) == before
    assert capsys.readouterr().out.splitlines()[-1] == f"Node {node} has no taint example.com/bad."


@pytest.mark.e2e
def test_the_command_lets_a_node_fall_silent_and_come_back(full_cluster, namespace):
    """By the command line, as a process of its own."""
    pod = create_pod(full_cluster, namespace)
    node = get(full_cluster, pod)["spec"]["nodeName"]
    place = ["--name", full_cluster.name, "--state-dir", str(full_cluster.plan.layout.root.parent)]

    def run_command(*change: str) -> str:
        command = [sys.executable, "-m", "cli", "cluster", "node", node, *place, *change]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
        return done.stdout

    try:
        assert run_command("--silent") == f"Node {node} is silent and has the taint {UNREACHABLE}.\n"
        assert UNREACHABLE in {each["key"] for each in taints(full_cluster, node)}
        assert ready(get(full_cluster, pod)) == "False"
    finally:
        assert run_command("--back") == f"Node {node} is back.\n"
    assert UNREACHABLE not in {each["key"] for each in taints(full_cluster, node)}
    wait_for(lambda: ready(get(full_cluster, pod)) == "True", what="the pod is ready")
    assert (
        run_command("--taint", "example.com/bad=x:NoSchedule")
        == f"Node {node} has the taint example.com/bad=x:NoSchedule.\n"
    )
    assert {each["key"] for each in taints(full_cluster, node)} == {"example.com/bad"}
    assert run_command("--untaint", "example.com/bad") == f"Node {node} has no taint example.com/bad.\n"
    wait_for(lambda: not taints(full_cluster, node), what="the node has no taint")


@pytest.mark.e2e
@pytest.mark.parametrize("change", [["--silent"], ["--back"], ["--taint", "a:NoSchedule"], ["--untaint", "a"]])
def test_a_node_that_does_not_exist_is_an_error(full_cluster, capsys, change):
    place = ["--name", full_cluster.name, "--state-dir", str(full_cluster.plan.layout.root.parent)]
    assert main(["cluster", "node", "node-9999", *place, *change]) == 1
    assert "the cluster has no node 'node-9999'" in capsys.readouterr().err


def test_taints_have_the_form_of_kubectl():
    assert Taint.parse("example.com/bad:NoSchedule") == Taint("example.com/bad", "", "NoSchedule")
    assert Taint.parse("key=a:NoExecute") == Taint("key", "a", "NoExecute")
    for text in ("key", "key=a", ":NoSchedule", "key:Never", "=a:NoSchedule"):
        with pytest.raises(UsageError, match="KEY"):
            Taint.parse(text)


def test_a_malformed_taint_is_wrong_usage(capsys):
    assert main(["cluster", "node", "node-0000", "--taint", "key"]) == 2
    assert "KEY[=VALUE]:EFFECT" in capsys.readouterr().err


@pytest.mark.e2e
@pytest.mark.parametrize("fault", ["--kill", "--partition", "--disk-full"])
def test_a_fake_node_has_nothing_that_could_break_so(full_cluster, capsys, fault):
    place = [f"--name={full_cluster.name}", f"--state-dir={full_cluster.plan.layout.root.parent}"]
    assert main(["cluster", "node", *place, "node-0003", fault]) == 2
    assert "node node-0003 is fake: it has no power, cable or disk" in capsys.readouterr().err
