"""A cluster of its own for gangs: two zones, each of two superslices of two cubes of two nodes with four TPUs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app import local
from devcluster.assets import Sources
from devcluster.cluster import Cluster, running
from tests.support.cluster import lent
from tests.support.gangs import GATES, SPEC, Yard, create_priorities
from tests.support.manager import ManagerProcess


@pytest.fixture(scope="session")
def shared_yard(tmp_path_factory: pytest.TempPathFactory, binaries: Path) -> Iterator[Cluster]:
    with running(SPEC, sources=Sources(assets=binaries), state_root=tmp_path_factory.mktemp("yard")) as cluster:
        create_priorities(cluster)
        yield cluster


@pytest.fixture(scope="session")
def yard_manager(shared_yard: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    process = ManagerProcess(shared_yard, tmp_path_factory.mktemp("manager"))
    local.install(shared_yard, webhook_port=process.port)
    process.start(featureGates=GATES)
    yield process
    process.stop()


@pytest.fixture(scope="module")
def yard_cluster(shared_yard: Cluster, yard_manager: ManagerProcess) -> Iterator[Cluster]:
    """The cluster, lent to the tests of one file."""
    with lent(shared_yard) as cluster:
        yield cluster


@pytest.fixture
def yard(yard_cluster: Cluster, yard_manager: ManagerProcess) -> Iterator[Yard]:
    """A namespace for one test; all of its pods are gone afterwards."""
    yard_manager.start(featureGates=GATES)
    place = Yard(yard_cluster)
    yield place
    place.close()
