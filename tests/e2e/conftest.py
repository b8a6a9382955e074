"""One manager for all tests on the full cluster."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev import local
from dev.cluster.cluster import Cluster
from dev.cluster.node_faults import uncordon
from manifests import policy_objects
from tests.support.cluster import agents
from tests.support.cluster.jobs import Sets
from tests.support.cluster.manager import ManagerProcess
from tests.support.cluster.shared import Shared


@pytest.fixture(scope="module")
def manager_process(
    shared: Shared, shared_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> ManagerProcess:
    @contextlib.contextmanager
    def start() -> Iterator[ManagerProcess]:
        process = ManagerProcess(shared_cluster, tmp_path_factory.mktemp("manager"))
        local.install(shared_cluster, webhook_port=process.port)
        process.start()
        yield process
        process.stop()

    return shared.get("manager_process", start)


@pytest.fixture(scope="module")
def full_cluster(manager_process: ManagerProcess, full_cluster: Cluster) -> Cluster:
    """The shared cluster, lent with the manager installed."""
    return full_cluster


@pytest.fixture
def manager(request: pytest.FixtureRequest, manager_process: ManagerProcess, full_cluster: Cluster) -> ManagerProcess:
    """A running manager, configured by the marker `manager` of the test; started again if the one before differs."""
    marker = request.node.get_closest_marker("manager")
    manager_process.start(**(marker.kwargs if marker else {}))
    return manager_process


@pytest.fixture(scope="session")
def agent_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent for restarts in place, as one file."""
    return agents.build(tmp_path_factory.mktemp("agent"))


@pytest.fixture(scope="module")
def served_policies(manager_process: ManagerProcess, full_cluster: Cluster) -> Iterator[None]:
    """The CRDs of policies and their webhooks, while the tests of a file run that ask for them."""
    local.install_policies(full_cluster, webhook_port=manager_process.port)
    yield
    listing = {"apiVersion": "v1", "kind": "List", "items": policy_objects()}
    local.kubectl(full_cluster, "delete", "--ignore-not-found", "-f", "-", stdin=json.dumps(listing))


@pytest.fixture
def sets(full_cluster: Cluster, namespace: str, manager: ManagerProcess) -> Sets:
    """JobSets in the namespace of this test."""
    return Sets(full_cluster, namespace)


@pytest.fixture
def cordoned(full_cluster: Cluster, sets: Sets) -> Iterator[list[str]]:
    """The nodes that are cordoned; they take pods again at the end."""
    nodes: list[str] = []
    yield nodes
    with full_cluster.connect() as connection:
        for node in nodes:
            uncordon(connection, node)
