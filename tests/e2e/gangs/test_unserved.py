"""A control plane that does not serve groups: sets that ask for them wait, others do not, and the API may come later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import local
from devcluster.assets import Sources
from devcluster.cluster import running
from devcluster.spec import ClusterSpec, FakeNodes
from tests.support.cluster import kubectl
from tests.support.gangs import (
    CUBE,
    CUBES_IN_A_SUPERSLICE,
    GATES,
    SUPERSLICE,
    TPU,
    Yard,
    restart_cluster,
    slices,
)
from tests.support.jobs import manifest
from tests.support.manager import ManagerProcess

JSON = dict[str, Any]
NODES = FakeNodes(count=8, label_every={SUPERSLICE: 4, CUBE: 2}, capacity={TPU: "4"})
ALL_ON = ClusterSpec(name="late", nodes=NODES)
NONE_ON = ClusterSpec(name="late", nodes=NODES, gang=False)
NO_COMPOSITES = ClusterSpec(name="late", nodes=NODES, feature_gates={"CompositePodGroup": False})
# Longer than the API server is away for.
LEASE = {"leaseDuration": "60s", "renewDeadline": "50s", "retryPeriod": "1s"}
FLAT = {"schedulingPolicy": {"gang": {}}}


@pytest.fixture
def late(request: pytest.FixtureRequest, tmp_path: Path, binaries: Path) -> Iterator[tuple[Yard, ManagerProcess]]:
    """A namespace of a cluster that is not yet what it should be, and a manager that is not started."""
    with running(request.param, sources=Sources(assets=binaries), state_root=tmp_path / "cluster") as cluster:
        manager = ManagerProcess(cluster, tmp_path / "manager")
        local.install(cluster, webhook_port=manager.port)
        yield Yard(cluster), manager
        manager.stop()


def start(manager: ManagerProcess, unavailable: str) -> None:
    manager.start(featureGates=GATES, leaderElection=LEASE, scheduling={"whenUnavailable": unavailable})


def state(yard: Yard, name: str = "js") -> JSON:
    return yard.condition("SchedulingObjectsReady", name) or {}


def wait_held(yard: Yard, reason: str, *flags: str, name: str = "js") -> None:
    """Until the set says that it waits for this, and which flags of the API server it takes."""
    yard.until(lambda: state(yard, name).get("reason") == reason, f"{name}: {reason}")
    assert state(yard, name)["status"] == "False"
    for flag in flags:
        assert flag in state(yard, name)["message"]
    note = state(yard, name)["message"]
    yard.until(lambda: ("Warning", reason, note) in yard.events(name), "the event")
    assert yard.jobs(name) == []


def apply(yard: Yard, body: JSON) -> str:
    """Apply it; gives what kubectl printed."""
    return kubectl(yard.cluster, "apply", "-f", "-", namespace=yard.namespace, stdin=json.dumps(body), check=False)


def uids(pods: list[JSON]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


@pytest.mark.parametrize("late", [NONE_ON], indirect=True)
def test_sets_wait_for_the_api_and_start_when_it_is_served(late):
    yard, manager = late
    start(manager, "Ignore")
    yard.gang(slices(tpus=0), name="loose", scheduling=CUBES_IN_A_SUPERSLICE)
    loose = yard.wait_bound(4, "loose")
    assert all("schedulingGroup" not in pod["spec"] for pod in loose)
    yard.until(lambda: state(yard, "loose").get("status") == "False", "the condition: there are no groups")
    assert "The Jobs run without groups" in state(yard, "loose")["message"]
    start(manager, "Hold")
    printed = apply(yard, manifest(slices(), name="js", scheduling=CUBES_IN_A_SUPERSLICE))
    assert "Warning: " in printed
    assert "--feature-gates=" in printed
    yard.gang(slices(jobs=1, tpus=0), name="flat", scheduling=FLAT)
    yard.apply(manifest(slices(jobs=1, pods=1, tpus=0), name="plain"))
    wait_held(yard, "APIUnavailable", "--feature-gates=GenericWorkload=true", "scheduling.k8s.io/v1beta1=true")
    wait_held(yard, "APIUnavailable", name="flat")
    [plain] = yard.wait_bound(1, "plain")
    assert (yard.condition("SchedulingObjectsReady", "plain"), "schedulingGroup" in plain["spec"]) == (None, False)
    assert uids(yard.bound("loose")) == uids(loose), "what runs already keeps running"
    generation = yard.get()["metadata"]["generation"]
    restart_cluster(yard.cluster, ALL_ON)
    yard.wait_bound(4)
    yard.wait_bound(2, "flat")
    assert uids(yard.bound("loose")) == uids(loose), "and stays without groups"
    yard.until(lambda: state(yard, "loose").get("reason") == "JobsWithoutGroups", "the condition")
    assert [len(cubes) for cubes in yard.domains(CUBE).values()] == [1, 1]
    assert all(pod["spec"].get("schedulingGroup") for pod in yard.bound())
    yard.until(lambda: state(yard).get("reason") == "Created", "the condition: the groups are there")
    assert yard.get()["metadata"]["generation"] == generation, "nobody touched the set"
    assert uids(yard.bound("plain")) == uids([plain])


@pytest.mark.slow
@pytest.mark.parametrize("late", [NO_COMPOSITES], indirect=True)
def test_where_only_composites_are_missing_flat_gangs_run(late):
    yard, manager = late
    start(manager, "Hold")
    yard.gang(slices(), scheduling=CUBES_IN_A_SUPERSLICE)
    yard.gang(slices(jobs=1, tpus=0), name="flat", scheduling=FLAT)
    wait_held(yard, "CompositePodGroupUnavailable", "CompositePodGroup=true", "scheduling.k8s.io/v1alpha3=true")
    assert all(pod["spec"].get("schedulingGroup") for pod in yard.wait_bound(2, "flat"))
    restart_cluster(yard.cluster, ALL_ON)
    yard.wait_bound(4)
    assert [len(cubes) for cubes in yard.domains(CUBE).values()] == [1, 1]
    assert len(yard.bound("flat")) == 2
