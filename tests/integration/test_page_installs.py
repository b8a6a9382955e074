"""The commands of the pages that install something, run in an empty cluster in the order in which a reader meets them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev import local
from dev.cluster.cluster import Cluster
from dev.cluster.spec import ClusterSpec, FakeNodes
from manifests import NAMESPACE
from tests.support.cluster.helm import Helm
from tests.support.cluster.requests import OwnCluster, serve
from tests.support.pages.commands import HELM, INSTALLS
from tests.support.pages.files import commands
from tests.support.pages.reader import Reader

SAYS = {
    "mkdir": "",
    "kubectl apply": "serverside-applied",
    "kubectl label": "labeled",
    "kubectl rollout": "successfully rolled out",
    "kubectl delete": "deleted",
    "sleep": "",
    "until": "",
    "helm install": "STATUS: deployed",
    "helm upgrade": "STATUS: deployed",
    "helm template": "1 JobSet, 0 errors, 0 warnings",
}
"""What is printed, by the beginning of a command."""
QUICK_START, CHANGING_OVER = "docs/quick-start.md", "manifests/README.md"


@pytest.fixture(scope="module")
def cluster(own_cluster: OwnCluster) -> Iterator[Cluster]:
    with own_cluster(ClusterSpec(name="installs", nodes=FakeNodes(count=2))) as found:
        serve(found, "PrometheusRule", "monitoring.coreos.com/v1")
        yield found


@pytest.mark.slow
def test_what_pages_install_without_helm_is_installed(cluster: Cluster, tmp_path: Path):
    """In this cluster no replica of an API server has to catch up, and the manager is a process of this machine."""
    reader = Reader(cluster, "default", tmp_path, {"sleep 30": "sleep 0"})
    found = [command for command in commands() if re.fullmatch(INSTALLS, command.text, re.DOTALL)]
    run(reader, [command.text for command in found if command.page == QUICK_START])
    manager = local.start(cluster, tmp_path / "manager", webhook_port=local.free_port())
    try:
        run(reader, [command.text for command in found if command.page == CHANGING_OVER])
    finally:
        local.stop(manager)
    run(reader, [command.text for command in found if command.page not in {QUICK_START, CHANGING_OVER}])
    code, text = reader.run("kubectl delete -k jobset")
    assert code == 0, text


@pytest.mark.slow
def test_what_pages_install_with_helm_is_installed(cluster: Cluster, helm: Helm, tmp_path: Path):
    reader = Reader(cluster, "default", tmp_path)
    (tmp_path / "bin/helm").symlink_to(helm.executable)
    reader.write("chart/Chart.yaml", "{apiVersion: v2, name: chart, version: 0.1.0}")
    reader.write("chart/templates/jobset.yaml", (tmp_path / "examples/training.yaml").read_text())
    found = [command.text for command in commands() if re.fullmatch(HELM, command.text)]
    for install in (text for text in found if "helm install" in text):
        run(reader, [install, *(text for text in found if "helm install" not in text)])
        left = f"kubectl delete -k manifests/crd && kubectl delete namespace {NAMESPACE}"
        code, text = reader.run(f"helm uninstall jobset -n {NAMESPACE} && {left}")
        assert code == 0, text


def run(reader: Reader, texts: list[str]) -> None:
    for text in texts:
        code, said = reader.run(text)
        assert code == 0, f"{text}: {said}"
        [says] = [says for start, says in SAYS.items() if text.startswith(start)]
        assert says in said, f"{text}: {said}"
