"""An API server with our webhooks behind it."""

from collections.abc import Iterator
from typing import Any

import pytest

from api.features import FeatureGates
from dev.cluster.cluster import Cluster
from tests.support.cluster.admission import cluster_with_admission


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory, binaries: Any) -> Iterator[Cluster]:
    """An API server with our webhooks behind it, for all files of this folder."""
    folder = tmp_path_factory.mktemp("admission")
    gates = FeatureGates({"ElasticJobSet": True, "MutablePodResourcesForSuspendedJobSets": True})
    with cluster_with_admission("admission", folder, binaries, gates) as cluster:
        yield cluster
