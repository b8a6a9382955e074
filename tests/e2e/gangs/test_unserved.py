"""A control plane that does not serve groups: sets that ask for them wait, others do not, and the API may come later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli import local
from dev.cluster.assets import Sources
from dev.cluster.cluster import running
from dev.cluster.spec import ClusterSpec, FakeNodes
from tests.support.cluster.gangs import (
    CUBE,
    CUBES_IN_A_SUPERSLICE,
    GANG,
    GATES,
    SUPERSLICE,
    TPU,
    GangNamespace,
    restart_cluster,
    slices,
)
from tests.support.cluster.jobs import manifest
from tests.support.cluster.manager import ManagerProcess
from tests.support.cluster.requests import kubectl_apply, uids

JSON = dict[str, Any]
NODES = FakeNodes(count=8, label_every={SUPERSLICE: 4, CUBE: 2}, capacity={TPU: "4"})
ALL_ON = ClusterSpec(name="late", nodes=NODES)
NONE_ON = ClusterSpec(name="late", nodes=NODES, gang=False)
NO_COMPOSITES = ClusterSpec(name="late", nodes=NODES, feature_gates={"CompositePodGroup": False})
# Longer than the API server is away for.
LEASE = {"leaseDuration": "60s", "renewDeadline": "50s", "retryPeriod": "1s"}


@pytest.fixture
def late(
    request: pytest.FixtureRequest, tmp_path: Path, binaries: Path
) -> Iterator[tuple[GangNamespace, ManagerProcess]]:
    """A namespace of a cluster that is not yet what it should be, and a manager that is not started."""
    with running(request.param, sources=Sources(assets=binaries), state_root=tmp_path / "cluster") as cluster:
        manager = ManagerProcess(cluster, tmp_path / "manager")
        local.install(cluster, webhook_port=manager.port)
        yield GangNamespace(cluster), manager
        manager.stop()


def start(manager: ManagerProcess, unavailable: str) -> None:
    manager.start(featureGates=GATES, leaderElection=LEASE, scheduling={"whenUnavailable": unavailable})


def state(gang_namespace: GangNamespace, name: str = "js") -> JSON:
    return gang_namespace.condition("SchedulingObjectsReady", name) or {}


def wait_held(gang_namespace: GangNamespace, reason: str, *flags: str, name: str = "js") -> None:
    """Until the set says that it waits for this, and which flags of the API server it takes."""
    gang_namespace.until(lambda: state(gang_namespace, name).get("reason") == reason, f"{name}: {reason}")
    assert state(gang_namespace, name)["status"] == "False"
    for flag in flags:
        assert flag in state(gang_namespace, name)["message"]
    note = state(gang_namespace, name)["message"]
    gang_namespace.until(lambda: ("Warning", reason, note) in gang_namespace.events(name), "the event")
    assert gang_namespace.jobs(name) == []


@pytest.mark.slow
@pytest.mark.parametrize("late", [NONE_ON], indirect=True)
def test_sets_wait_for_the_api_and_start_when_it_is_served(late):
    gang_namespace, manager = late
    start(manager, "Ignore")
    gang_namespace.gang(slices(tpus=0), name="loose", scheduling=CUBES_IN_A_SUPERSLICE)
    loose = gang_namespace.wait_bound(4, "loose")
    assert all("schedulingGroup" not in pod["spec"] for pod in loose)
    gang_namespace.until(
        lambda: state(gang_namespace, "loose").get("status") == "False", "the condition: there are no groups"
    )
    assert "The Jobs run without groups" in state(gang_namespace, "loose")["message"]
    start(manager, "Hold")
    body = manifest(slices(), name="js", scheduling=CUBES_IN_A_SUPERSLICE)
    printed = kubectl_apply(gang_namespace.cluster, gang_namespace.namespace, body, check=False)
    assert "Warning: " in printed
    assert "--feature-gates=" in printed
    gang_namespace.gang(slices(jobs=1, tpus=0), name="flat", scheduling=GANG)
    gang_namespace.apply(manifest(slices(jobs=1, pods=1, tpus=0), name="plain"))
    wait_held(
        gang_namespace, "APIUnavailable", "--feature-gates=GenericWorkload=true", "scheduling.k8s.io/v1beta1=true"
    )
    wait_held(gang_namespace, "APIUnavailable", name="flat")
    [plain] = gang_namespace.wait_bound(1, "plain")
    assert gang_namespace.condition("SchedulingObjectsReady", "plain") is None
    assert "schedulingGroup" not in plain["spec"]
    assert uids(gang_namespace.bound("loose")) == uids(loose), "running Jobs keep running"
    generation = gang_namespace.get()["metadata"]["generation"]
    restart_cluster(gang_namespace.cluster, ALL_ON)
    gang_namespace.wait_bound(4)
    gang_namespace.wait_bound(2, "flat")
    assert uids(gang_namespace.bound("loose")) == uids(loose), "they stay without groups"
    gang_namespace.until(lambda: state(gang_namespace, "loose").get("reason") == "JobsWithoutGroups", "the condition")
    assert [len(cubes) for cubes in gang_namespace.domains(CUBE).values()] == [1, 1]
    assert all(pod["spec"].get("schedulingGroup") for pod in gang_namespace.bound())
    gang_namespace.until(
        lambda: state(gang_namespace).get("reason") == "Created", "the condition: the groups are there"
    )
    assert gang_namespace.get()["metadata"]["generation"] == generation, "the spec has not changed"
    assert uids(gang_namespace.bound("plain")) == uids([plain])


@pytest.mark.slow
@pytest.mark.parametrize("late", [NO_COMPOSITES], indirect=True)
def test_where_only_composites_are_missing_flat_gangs_run(late):
    gang_namespace, manager = late
    start(manager, "Hold")
    gang_namespace.gang(slices(), scheduling=CUBES_IN_A_SUPERSLICE)
    gang_namespace.gang(slices(jobs=1, tpus=0), name="flat", scheduling=GANG)
    wait_held(
        gang_namespace, "CompositePodGroupUnavailable", "CompositePodGroup=true", "scheduling.k8s.io/v1alpha3=true"
    )
    assert all(pod["spec"].get("schedulingGroup") for pod in gang_namespace.wait_bound(2, "flat"))
    restart_cluster(gang_namespace.cluster, ALL_ON)
    gang_namespace.wait_bound(4)
    assert [len(cubes) for cubes in gang_namespace.domains(CUBE).values()] == [1, 1]
    assert len(gang_namespace.bound("flat")) == 2
