"""An API server that knows JobSets and the manager's rights; no webhook of ours is asked."""

from pathlib import Path

import pytest

from dev.cluster.cluster import Cluster
from tests.support.cluster.admission import GROUPS
from tests.support.cluster.manager import USER


@pytest.fixture
def manager(server: Cluster) -> Path:
    return server.kubeconfig_for(USER, GROUPS)
