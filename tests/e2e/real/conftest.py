"""Real nodes, and the manager in pods of its own image on them."""

from collections.abc import Iterator

import pytest

from dev import local
from dev.cluster.cluster import Cluster
from dev.cluster.real.load import load_image
from dev.cluster.real.preflight import real_nodes_missing
from dev.cluster.spec import ClusterSpec, FakeNodes
from dev.hack.node_images import locate_images
from tests.support.cluster.jobs import Sets
from tests.support.cluster.requests import OwnCluster, lent, new_namespace

GATES = ("InPlaceRestart", "JobSetAvoidNodes", "JobSetElasticReplicas", "JobSetNodeFailure", "JobSetNodeMaintenance")


@pytest.fixture(scope="package")
def shared_real_cluster(own_cluster: OwnCluster) -> Iterator[Cluster]:
    """Two real nodes (real-0, real-1), each a rack of its own: up in about 15 s. Skips where nodes cannot run."""
    if missing := real_nodes_missing():
        pytest.skip(missing)
    with own_cluster(ClusterSpec(name="real", real_nodes=2, nodes=FakeNodes(label_every={"rack": 1}))) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def real_cluster(shared_real_cluster: Cluster) -> Iterator[Cluster]:
    """The same, lent to the tests of one file. Each node has the image `SHELL_IMAGE` of `dev.cluster.real.assets`."""
    with lent(shared_real_cluster) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def installed_in_pods(shared_real_cluster: Cluster) -> None:
    """The project's images on the nodes, and manifests/install.yaml with feature gates in the cluster, to its end."""
    for name, layout in locate_images().items():
        load_image(shared_real_cluster.plan, layout, name)
    local.install_in_pods(shared_real_cluster, gates=GATES)


@pytest.fixture
def real_sets(installed_in_pods: None, real_cluster: Cluster) -> Iterator[Sets]:
    """JobSets in a namespace of this test; nothing of it is left on a node afterwards."""
    sets = Sets(real_cluster, new_namespace(real_cluster))
    yield sets
    sets.close()
