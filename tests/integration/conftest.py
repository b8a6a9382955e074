"""What tests on a bare API server share."""

from collections.abc import Iterator

import pytest

from dev.cluster.cluster import Cluster
from tests.support.cluster.requests import drop_namespace, new_namespace


@pytest.fixture(scope="module")
def server(jobset_server: Cluster) -> Cluster:
    """The API server that serves JobSets, lent to the tests of one file."""
    return jobset_server


@pytest.fixture
def ns(server: Cluster) -> Iterator[str]:
    """A namespace of its own on the `server` of the file or folder."""
    name = new_namespace(server)
    yield name
    drop_namespace(server, name)
