"""kubeconform finds no fault in anything that the manifests and the chart render.

Its schemas are those of a real API server, of our CRDs and of cert-manager's, so that nothing has to be fetched.
"""

import json
import subprocess
from typing import Any

import pytest
import yaml

from dev.cluster.spec import ClusterSpec
from manifests import files
from tests.integration.test_chart_releases import VALUES
from tests.support.cluster.helm import GO_USER
from tests.support.cluster.requests import kubectl
from tests.support.cluster.schemas import NAMES, write_schemas

pytestmark = pytest.mark.slow
"""The first run on a machine builds kubeconform, cert-manager and both Helms, for some minutes."""

FOREIGN = ("PrometheusRule", "ServiceMonitor")
"""Kinds of the Prometheus operator, whose schemas are not here. promtool checks what is in the rules."""
API_VERSIONS = (
    "admissionregistration.k8s.io/v1",
    "apiextensions.k8s.io/v1",
    "apps/v1",
    "batch/v1",
    "cert-manager.io/v1",
    "jobset.x-k8s.io/v1alpha2",
    "networking.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "v1",
)
EVERYTHING = VALUES | {
    "prometheus": {"enable": True, "alerts": {"enable": True}},
    "dashboard": {"enable": True},
}
EXAMPLES = files.ROOT.parent / "examples"
KUSTOMIZATIONS = sorted(path.parent for path in files.ROOT.rglob("kustomization.yaml"))


@pytest.fixture(scope="module")
def cluster(cert_manager, own_cluster):
    """An API server with all CRDs that the renderings use."""
    with own_cluster(ClusterSpec(name="renderings", profile="api")) as cluster:
        crd = files.ROOT / "crd" / "jobsets.jobset.x-k8s.io.yaml"
        kubectl(cluster, "apply", "--server-side", "-f", str(crd), "-f", str(cert_manager.parent))
        yield cluster


@pytest.fixture(scope="module")
def conform(cluster, kubeconform, tmp_path_factory):
    """Calls kubeconform with some YAML: (its faults, how many objects are without one, how many it skipped)."""
    schemas = tmp_path_factory.mktemp("schemas")
    write_schemas(cluster, API_VERSIONS, schemas)

    def check(text: str) -> tuple[list[str], int, int]:
        options = (
            "-strict",
            "-summary",
            "-output=json",
            f"-skip={','.join(FOREIGN)}",
            f"-schema-location={schemas}/{NAMES}",
        )
        done = subprocess.run(  # noqa: S603 - built by us
            [kubeconform, *options, "-"], input=text, capture_output=True, text=True, check=False
        )
        answer: Any = json.loads(done.stdout)
        faults = [f"{each['kind']} {each['name']}: {each['msg']}" for each in answer.get("resources") or ()]
        return faults, answer["summary"]["valid"], answer["summary"]["skipped"]

    return check


def expected(text: str) -> tuple[list[str], int, int]:
    """The answer about faultless objects."""
    kinds = [each["kind"] for each in yaml.load_all(text, yaml.CSafeLoader) if each]
    foreign = sum(kind in FOREIGN for kind in kinds)
    return [], len(kinds) - foreign, foreign


@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=lambda folder: str(folder.relative_to(files.ROOT.parent)))
def test_each_kustomization_conforms(conform, cluster, folder):
    text = kubectl(cluster, "kustomize", "--load-restrictor=LoadRestrictionsNone", str(folder))
    assert conform(text) == expected(text)


def test_the_single_file_conforms(conform):
    text = (files.ROOT / "install.yaml").read_text()
    assert conform(text) == expected(text)


@pytest.mark.parametrize("pods", ["webhooks", "policies", "policies-without-manager"])
@pytest.mark.parametrize("values", [{}, GO_USER, EVERYTHING], ids=["defaults", "values of the Go chart", "everything"])
def test_each_rendering_of_the_chart_conforms(conform, helm, values, pods):
    text = helm.template(values | {"podAdmission": pods})
    assert conform(text) == expected(text)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_examples_conform_to_the_crd(conform, path):
    text = path.read_text()
    if path.name == "mistakes.yaml":
        assert "/spec/failurePolicy/maxRestarts" in str(conform(text))
    else:
        assert conform(text) == expected(text)
