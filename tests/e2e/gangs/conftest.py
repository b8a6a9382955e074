"""A cluster of its own for gangs: two zones, each of two superslices of two cubes of two nodes with four TPUs."""

from collections.abc import Iterator

import pytest

from dev import local
from dev.cluster.cluster import Cluster
from tests.support.cluster.gangs import GATES, SPEC, GangNamespace, create_priorities
from tests.support.cluster.manager import ManagerProcess
from tests.support.cluster.requests import OwnCluster, lent


@pytest.fixture(scope="package")
def shared_gang_cluster(own_cluster: OwnCluster) -> Iterator[Cluster]:
    with own_cluster(SPEC) as cluster:
        create_priorities(cluster)
        yield cluster


@pytest.fixture(scope="package")
def gang_manager(shared_gang_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    process = ManagerProcess(shared_gang_cluster, tmp_path_factory.mktemp("manager"))
    local.install(shared_gang_cluster, webhook_port=process.port)
    process.start(featureGates=GATES)
    yield process
    process.stop()


@pytest.fixture(scope="module")
def gang_cluster(shared_gang_cluster: Cluster, gang_manager: ManagerProcess) -> Iterator[Cluster]:
    """The cluster, lent to the tests of one file."""
    with lent(shared_gang_cluster) as cluster:
        yield cluster


@pytest.fixture
def gang_namespace(
    request: pytest.FixtureRequest, gang_cluster: Cluster, gang_manager: ManagerProcess
) -> Iterator[GangNamespace]:
    """A namespace for one test; all of its pods are gone afterwards.

    The marker `manager` of the test has another configuration of the manager.
    """
    marker = request.node.get_closest_marker("manager")
    gang_manager.start(**(marker.kwargs if marker else {"featureGates": GATES}))
    place = GangNamespace(gang_cluster)
    yield place
    place.close()
