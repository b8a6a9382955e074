"""The case that gangs of gangs are for: Jobs of 16 pods, a cube for each Job, one superslice for the set.

On a cluster of its own: two superslices, each of as many cubes as the set has Jobs, of four nodes with sixteen TPUs.
Four Jobs by default, 16 and 64 in the slow tests.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev import local
from dev.cluster.assets import Sources
from dev.cluster.cluster import Cluster, running
from dev.cluster.spec import ClusterSpec, FakeNodes
from tests.support.cluster.gangs import (
    CUBE,
    CUBES_IN_A_SUPERSLICE,
    GATES,
    SUPERSLICE,
    TPU,
    GangNamespace,
    slices,
    times,
)
from tests.support.cluster.manager import ManagerProcess

JSON = dict[str, Any]
JOBS = 4
PODS = 16
"""Of a Job, and of a cube."""


@contextlib.contextmanager
def superslices(cubes: int, folder: Path, binaries: Path) -> Iterator[Cluster]:
    """A cluster of two superslices of so many cubes, with a manager; a cube is four nodes for four pods."""
    nodes = FakeNodes(count=8 * cubes, label_every={SUPERSLICE: 4 * cubes, CUBE: 4}, capacity={TPU: "16"})
    spec = ClusterSpec(name=f"superslices-{cubes}", nodes=nodes)
    with running(spec, sources=Sources(assets=binaries), state_root=folder / "cluster") as cluster:
        manager = ManagerProcess(cluster, folder / "manager")
        local.install(cluster, webhook_port=manager.port)
        manager.start(featureGates=GATES)
        try:
            yield cluster
        finally:
            manager.stop()


@pytest.fixture(scope="module")
def superslice_cluster(tmp_path_factory: pytest.TempPathFactory, binaries: Path) -> Iterator[Cluster]:
    with superslices(JOBS, tmp_path_factory.mktemp("superslices"), binaries) as cluster:
        yield cluster


@pytest.fixture
def superslice_namespace(superslice_cluster: Cluster) -> Iterator[GangNamespace]:
    """A namespace for one test, in an empty cluster."""
    namespace = GangNamespace(superslice_cluster)
    yield namespace
    namespace.close()


def take_one_node(superslice_namespace: GangNamespace, superslice: str) -> str:
    """Occupy a part of a superslice; gives the node."""
    node = superslice_namespace.nodes(superslice=superslice)[5]
    superslice_namespace.fill(node)
    return node


def wait_bindings(superslice_namespace: GangNamespace, number: int, timeout: float) -> float:
    """Until so many pods are bound; gives the second of the last one, as the API server saw it."""
    superslice_namespace.until(
        lambda: len(times(superslice_namespace, "create pods/binding")) >= number, f"{number} bindings", timeout
    )
    return max(times(superslice_namespace, "create pods/binding"))


def tell(figures: str) -> None:
    """Shown with -s."""
    print(f"\n{figures}")  # noqa: T201 - figures, not a log


def check_placed(superslice_namespace: GangNamespace, jobs: int, superslice: str) -> None:
    """All Jobs in that superslice, each in one cube that it has for itself."""
    assert len(superslice_namespace.bound()) == jobs * PODS
    assert superslice_namespace.where(SUPERSLICE) == superslice
    by_job = superslice_namespace.domains(CUBE)
    assert (len(by_job), [len(found) for found in by_job.values()]) == (jobs, [1] * jobs)
    assert len(set.union(*by_job.values())) == jobs


def bind(superslice_namespace: GangNamespace, jobs: int, timeout: float) -> None:
    """With one superslice partly taken, all pods go to the other one."""
    take_one_node(superslice_namespace, "superslice-0")
    superslice_namespace.gang(slices(jobs=jobs, pods=PODS), scheduling=CUBES_IN_A_SUPERSLICE)
    last = wait_bindings(superslice_namespace, jobs * PODS, timeout)
    [created] = times(superslice_namespace, "patch jobsets")
    last_pod = max(times(superslice_namespace, "create pods"))
    tell(f"{jobs * PODS} pods made {last_pod - created:.1f} s after the set, bound after {last - created:.1f} s")
    check_placed(superslice_namespace, jobs, "superslice-1")


@pytest.mark.slow
def test_all_pods_go_to_the_superslice_that_is_free(superslice_namespace):
    bind(superslice_namespace, jobs=JOBS, timeout=60)


@pytest.mark.slow
def test_no_pod_is_bound_until_a_superslice_is_free(superslice_namespace):
    taken = [take_one_node(superslice_namespace, name) for name in ("superslice-0", "superslice-1")]
    superslice_namespace.gang(slices(jobs=JOBS, pods=PODS), scheduling=CUBES_IN_A_SUPERSLICE)
    superslice_namespace.wait_refused(JOBS * PODS)
    assert times(superslice_namespace, "create pods/binding") == []
    reported = (
        superslice_namespace.until(
            lambda: superslice_namespace.condition("PodGroupsInitiallyScheduled"), "the set says why"
        )
        or {}
    )
    assert (reported["status"], reported["reason"]) == ("False", "Unschedulable")
    assert "is not scheduled yet; kube-scheduler says: " in reported["message"]
    event = ("Normal", "Unschedulable", reported["message"])
    superslice_namespace.until(lambda: event in superslice_namespace.events(), "the event")
    text = superslice_namespace.explain()
    assert f"0 of {JOBS * PODS} pods bound; all {JOBS} groups have to fit at once, in one superslice" in text
    assert "all 16 pods have to fit at once, in one cube" in text
    assert "the scheduler says: " in text
    before = superslice_namespace.get()["metadata"]["generation"]
    superslice_namespace.free(taken[1])
    [freed] = times(superslice_namespace, "delete pods")
    last = wait_bindings(superslice_namespace, JOBS * PODS, 60)
    tell(f"{JOBS * PODS} pods bound {last - freed:.1f} s after there was room")
    check_placed(superslice_namespace, JOBS, "superslice-1")
    superslice_namespace.until(
        lambda: superslice_namespace.condition("PodGroupsInitiallyScheduled")["status"] == "True",
        "the condition: scheduled",
    )
    assert superslice_namespace.get()["metadata"]["generation"] == before, "the spec has not changed"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("jobs", [16, 64])
def test_256_and_1024_pods_go_to_the_superslice_that_is_free(tmp_path, binaries, jobs):
    with superslices(jobs, tmp_path, binaries) as cluster:
        bind(GangNamespace(cluster), jobs=jobs, timeout=400)
