"""What commands say of a cluster where JobSet is not installed."""

from collections.abc import Iterator

import pytest

from dev.cluster.cluster import Cluster
from dev.cluster.spec import ClusterSpec
from tests.integration.test_manager_cli import refused, run
from tests.integration.test_validate_server import validate
from tests.support.cluster.requests import OwnCluster
from tests.support.objects.jobsets import jobset


@pytest.fixture(scope="module")
def api_server(own_cluster: OwnCluster) -> Iterator[Cluster]:
    with own_cluster(ClusterSpec(name="bare", profile="api")) as cluster:
        yield cluster


def test_the_manager_names_the_crd_that_is_missing(api_server: Cluster):
    refused(run(f"--kubeconfig={api_server.kubeconfig}"), "does not serve jobsets", "-k manifests/crd")


def test_validate_checks_what_needs_no_cluster(api_server: Cluster):
    code, report, err = validate(api_server.kubeconfig, jobset())
    assert (code, report["jobsets"]) == (2, 1)
    assert "the cluster does not serve JobSets" in err
    assert "apply manifests/install.yaml" in err
