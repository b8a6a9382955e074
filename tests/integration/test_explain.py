"""`jobset explain` as a process against a real API server: what it reads, as whom, and what it says without rights."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app import local
from devcluster.cluster import Cluster
from manifests import NAMESPACE
from tests.support.cluster import request
from tests.support.explained import RACK, exclusive, job_of, leader_of, walk
from tests.support.jobsets import jobset

JSON = dict[str, Any]
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
PODS = "/api/v1/namespaces/{}/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
MERGE = "application/merge-patch+json"
NO_NODE = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."


@pytest.fixture
def cluster(api_server: Cluster) -> Cluster:
    local.install(api_server, webhook_port=None)
    return api_server


def explain(kubeconfig: Path, *args: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    done = subprocess.run(  # noqa: S603 (ourselves)
        [sys.executable, "-m", "app", "explain", f"--kubeconfig={kubeconfig}", *args],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def report(kubeconfig: Path, *args: str) -> JSON:
    code, out, err = explain(kubeconfig, *args, "-o", "json")
    assert code == 0, err
    body: JSON = json.loads(out)
    return body


def post(cluster: Cluster, path: str, body: JSON) -> JSON:
    """Create it, status included."""
    status, stored = request(cluster, "POST", path, body)
    assert status == 201, stored
    if "status" in body:
        code, stored = request(
            cluster, "PATCH", f"{path}/{stored['metadata']['name']}/status", {"status": body["status"]}, MERGE
        )
        assert code == 200, stored
    return stored


class World:
    """A namespace with a JobSet whose Jobs and pods are made by hand: nobody else acts here."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def jobset(self, body: JSON, **status: Any) -> JSON:
        body["metadata"]["namespace"] = self.namespace
        return post(self.cluster, JOBSETS.format(self.namespace), {**body, **({"status": status} if status else {})})

    def job(self, js: JSON, index: int, **status: Any) -> JSON:
        return post(self.cluster, JOBS.format(self.namespace), {**job_of(js, index), "status": status})

    def leader(self, job: JSON, **pod: Any) -> JSON:
        return post(self.cluster, PODS.format(self.namespace), leader_of(job, **pod))


@pytest.fixture
def world(cluster: Cluster, namespace: str) -> World:
    return World(cluster, namespace)


@pytest.fixture
def racks(cluster: Cluster) -> Iterator[list[str]]:
    """Two nodes, each a rack of its own."""
    names = ["explained-0", "explained-1"]
    for number, name in enumerate(names):
        post(cluster, "/api/v1/nodes", {"metadata": {"name": name, "labels": {RACK: f"rack-{number}"}}})
    yield names
    for name in names:
        request(cluster, "DELETE", f"/api/v1/nodes/{name}")


@pytest.fixture
def waiting(world: World, racks: list[str]) -> World:
    """Two racks: one holds `other`, one holds a Job of `train` itself, whose second leader waits."""
    other = world.jobset(jobset(exclusive(), name="other"))
    train = world.jobset(jobset(exclusive(replicas=2)))
    world.leader(world.job(other, 0, active=1, ready=1), node=racks[0])
    world.leader(world.job(train, 0, active=1, ready=1), node=racks[1])
    world.leader(world.job(train, 1, active=1, ready=0), unscheduled=NO_NODE)
    return world


def test_a_leader_that_waits_for_a_rack(waiting: World):
    code, out, err = explain(waiting.cluster.kubeconfig, "train", "-n", waiting.namespace)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith(f"JobSet {waiting.namespace}/train: waits, 1 of 2 Jobs ready or done (since ")
    text = "\n".join(lines)
    assert "Job train-workers-1: waits for a rack of its own" in text
    assert f"leader pod train-workers-1-0: not scheduled: {NO_NODE}" in text
    names = f"{waiting.namespace}/other-workers-0, {waiting.namespace}/train-workers-0"
    assert f"2 of 2 racks hold Jobs of equal priority (0): {names}" in text
    assert "way out: wait until one ends" in text
    depth = {word: line.index(word) for line in lines for word in ("Job train", "leader pod", "2 of 2") if word in line}
    assert depth["Job train"] < depth["leader pod"] < depth["2 of 2"], "one below the other"


def test_json_and_yaml_say_the_same(waiting: World):
    body = report(waiting.cluster.kubeconfig, "train", "-n", waiting.namespace)
    assert (body["state"], body["level"]) == ("waits", "fault" if _manager_silent(body) else "waits")
    causes = [finding["cause"] for finding in walk(body)]
    assert [c for c in causes if "leader" in c or "equal" in c] == [
        "leader-waits",
        "leader-unscheduled",
        "equal-priority",
    ]
    assert body["notLookedAt"] == []
    _, out, _ = explain(waiting.cluster.kubeconfig, "train", "-n", waiting.namespace, "-o", "yaml")
    same = yaml.safe_load(out)
    assert same["because"] == body["because"]


def _manager_silent(body: JSON) -> bool:
    return any(finding["cause"] == "no-manager" for finding in walk(body))
