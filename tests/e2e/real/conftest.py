"""The manager in pods of its own image, on real nodes."""

from collections.abc import Iterator

import pytest

from dev import local
from dev.cluster.cluster import Cluster
from dev.cluster.real.load import load_image
from dev.hack.node_images import locate_images
from tests.support.cluster.jobs import Sets
from tests.support.cluster.requests import new_namespace

GATES = ("InPlaceRestart", "JobSetAvoidNodes", "JobSetElasticReplicas", "JobSetNodeFailure", "JobSetNodeMaintenance")


@pytest.fixture(scope="session")
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
