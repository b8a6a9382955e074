"""A cluster of racks for exclusive placement alone: it is exclusive cluster-wide, so other tests would be in the way."""

from collections.abc import Callable, Iterator

import pytest

from dev import local
from dev.cluster.cluster import Cluster
from tests.support.cluster.manager import ManagerProcess
from tests.support.cluster.racks import SPEC, Nodes, RackNamespace, create_classes
from tests.support.cluster.requests import OwnCluster, lent
from tests.support.played.agents import Lose, losing


@pytest.fixture(scope="package")
def shared_racks(own_cluster: OwnCluster) -> Iterator[Cluster]:
    """Everything, with the fake nodes and the priority classes of `tests.support.cluster.racks`."""
    with own_cluster(SPEC) as cluster:
        create_classes(cluster)
        yield cluster


@pytest.fixture(scope="package")
def racks_nodes(shared_racks: Cluster) -> Nodes:
    return Nodes(shared_racks)


@pytest.fixture(scope="package")
def racks_manager(shared_racks: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    process = ManagerProcess(shared_racks, tmp_path_factory.mktemp("racks-manager"))
    local.install(shared_racks, webhook_port=process.port)
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def racks_cluster(shared_racks: Cluster, racks_manager: ManagerProcess) -> Iterator[Cluster]:
    """The cluster, lent to the tests of one file."""
    with lent(shared_racks) as cluster:
        yield cluster


@pytest.fixture
def rack_namespaces(
    request: pytest.FixtureRequest, racks_cluster: Cluster, racks_manager: ManagerProcess, racks_nodes: Nodes
) -> Iterator[Callable[[], RackNamespace]]:
    """Makes namespaces; when the test is over, their pods are gone and the nodes are as before.

    The marker `manager` of the test has the configuration of the manager.
    """
    marker = request.node.get_closest_marker("manager")
    racks_manager.start(**(marker.kwargs if marker else {}))
    made: list[RackNamespace] = []

    def make() -> RackNamespace:
        made.append(RackNamespace(racks_cluster, racks_manager, racks_nodes))
        return made[-1]

    yield make
    for rack_namespace in made:
        rack_namespace.close()
    racks_nodes.repair()


@pytest.fixture
def rack_namespace(rack_namespaces: Callable[[], RackNamespace]) -> RackNamespace:
    """A namespace with nothing else in the cluster, and a running manager."""
    return rack_namespaces()


@pytest.fixture
def lose(rack_namespace: RackNamespace) -> Iterator[Lose]:
    with losing(rack_namespace) as make:
        yield make
