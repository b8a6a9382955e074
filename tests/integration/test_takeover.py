"""install.yaml and the chart take over from each other, and from earlier versions: the webhooks never lack a ready pod."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dev.cluster.cluster import Cluster
from dev.cluster.spec import ClusterSpec, FakeNodes
from manifests import files
from tests.support.cluster.helm import CHART, NAMESPACE, RELEASE, Helm
from tests.support.cluster.requests import OwnCluster, history, kubectl, request, wait_for

pytestmark = pytest.mark.slow
"""Helm is built first, for some minutes."""

INSTALL = files.ROOT / "install.yaml"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/jobset-controller-manager"
SELECTOR = re.compile(
    r"((?:matchLabels|selector):\n( +)app\.kubernetes\.io/name: jobset\n +app\.kubernetes\.io/instance: jobset\n)"
)


@pytest.fixture(scope="module")
def cluster(own_cluster: OwnCluster) -> Iterator[Cluster]:
    with own_cluster(ClusterSpec(name="takeover", nodes=FakeNodes(count=2))) as found:
        yield found


@pytest.fixture
def empty(cluster: Cluster) -> Iterator[Cluster]:
    yield cluster
    kubectl(cluster, "delete", "-f", str(INSTALL), "--ignore-not-found")


def earlier_install(folder: Path) -> Path:
    """install.yaml of an earlier version, or of the Go JobSet: who manages is in its selectors."""
    text, count = SELECTOR.subn(r"\1\2app.kubernetes.io/managed-by: kustomize\n", INSTALL.read_text())
    assert count == 7
    made = folder / "earlier.yaml"
    made.write_text(text)
    return made


def earlier_chart(folder: Path) -> Path:
    """The chart of an earlier version, in whose selectors it stands, too."""
    shutil.copytree(CHART, folder)
    (folder / "templates/selectors.yaml").unlink()
    helpers = folder / "templates/_helpers.tpl"
    instance = "app.kubernetes.io/instance: {{ .Release.Name | quote }}\n"
    manager = "app.kubernetes.io/managed-by: {{ .Release.Service }}\n"
    text = helpers.read_text().replace(manager, "")
    assert text.count(instance) == 1
    helpers.write_text(text.replace(instance, instance + manager))
    return folder


def rolled_out(cluster: Cluster) -> str:
    """Who manages the pods, once all of them are those of the Deployment."""
    kubectl(cluster, "rollout", "status", "-n", NAMESPACE, "deployment/jobset-controller-manager", "--timeout=50s")
    found = request(cluster, "GET", DEPLOYMENT)[1]
    wait_for(lambda: ready(request(cluster, "GET", SLICES)[1]["items"]) == 2, what="both pods to serve")
    return str(found["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/managed-by"])


def ready(slices: list) -> int:
    """How many pods the Service of the webhooks sends requests to."""
    return sum(
        bool(endpoint["conditions"].get("ready"))
        for each in slices
        if each["metadata"]["labels"].get("kubernetes.io/service-name") == "jobset-webhook-service"
        for endpoint in each["endpoints"] or ()
    )


@contextmanager
def always_served(cluster: Cluster) -> Iterator[None]:
    """At every change of the endpoints since this was entered, a ready pod was behind the webhooks."""
    begun = request(cluster, "GET", SLICES)[1]
    slices = {each["metadata"]["name"]: each for each in begun["items"]}
    counts = [ready(list(slices.values()))]
    yield
    for event in history(cluster, SLICES, begun["metadata"]["resourceVersion"]):
        slices[event["object"]["metadata"]["name"]] = event["object"]
        if event["type"] == "DELETED":
            slices.pop(event["object"]["metadata"]["name"])
        counts.append(ready(list(slices.values())))
    assert len(counts) > 1, "no pod was replaced"
    assert min(counts) > 0, counts


def apply(cluster: Cluster, file: Path = INSTALL, *options: str) -> str:
    return kubectl(cluster, "apply", "--server-side", *options, "-f", str(file))


def install_script(cluster: Cluster) -> subprocess.CompletedProcess[str]:
    command = [files.ROOT.parent / "dev/hack/install.sh", cluster.kubectl, "--kubeconfig", cluster.kubeconfig]
    return subprocess.run(command, env=os.environ | {"IMAGE": ""}, capture_output=True, text=True, check=False)  # noqa: S603 - our own script


def release(helm: Helm, cluster: Cluster, verb: str, *args: str, check: bool = True):
    where = (f"--kubeconfig={cluster.kubeconfig}", "--namespace", NAMESPACE)
    return helm.run(verb, RELEASE, *args, *where, values={}, check=check)


def owned(helm: Helm) -> tuple[str, ...]:
    return ("--take-ownership", *(("--force-conflicts",) if helm.version == 4 else ()))


def test_install_yaml_and_the_chart_take_over_from_each_other(helm, empty):
    apply(empty)
    assert rolled_out(empty) == "kustomize"
    with always_served(empty):
        release(helm, empty, "install", str(CHART), *owned(helm))
        assert rolled_out(empty) == "Helm"
        apply(empty, INSTALL, "--force-conflicts")
        assert rolled_out(empty) == "kustomize"
        release(helm, empty, "upgrade", str(CHART), *owned(helm))
        assert rolled_out(empty) == "Helm"
        install = apply(empty, INSTALL, "--force-conflicts", "--field-manager=flux")
        assert "jobset-webhook-service serverside-applied" in install
        assert rolled_out(empty) == "kustomize"


def test_habits_of_gitops_leave_the_webhooks_their_pods(empty):
    """Labels for tracking on all objects, other field managers, pruning by label, a replaced Deployment."""
    apply(empty)
    rolled_out(empty)
    kinds = "deployment,service,configmap,networkpolicy,poddisruptionbudget"
    with always_served(empty):
        tracked = (
            "app.kubernetes.io/instance=platform",
            "app.kubernetes.io/managed-by=argocd",
            "argocd.argoproj.io/instance=platform",
        )
        kubectl(empty, "label", kinds, "--all", "--overwrite", "-n", NAMESPACE, *tracked)
        apply(empty, INSTALL, "--force-conflicts", "--field-manager=argocd-controller")
        apply(empty, INSTALL, "--force-conflicts", "--field-manager=kustomize-controller")
        for label in ("app.kubernetes.io/managed-by=kustomize", "app.kubernetes.io/instance=jobset"):
            kubectl(empty, "apply", "--prune", "-l", label, "-f", str(INSTALL))
        kubectl(empty, "delete", "deployment", "-n", NAMESPACE, "jobset-controller-manager", "--cascade=orphan")
        apply(empty, INSTALL, "--force-conflicts", "--field-manager=argocd-controller")
        kubectl(empty, "rollout", "restart", "-n", NAMESPACE, "deployment/jobset-controller-manager")
        rolled_out(empty)


def said_commands(text: str) -> list[list[str]]:
    """The commands that Helm's refusal names."""
    assert "Nothing was changed" in text
    found = re.findall(r"^kubectl (.*)$", text, re.MULTILINE)
    return [[word.strip("'") for word in line.split(" ")] for line in found]


def versions(cluster: Cluster) -> str:
    path = "jsonpath={.items[*].metadata.resourceVersion}"
    return kubectl(cluster, "get", "service,configmap,secret,networkpolicy,clusterrole", "-n", NAMESPACE, "-o", path)


@pytest.mark.parametrize("earlier", ["install.yaml", "chart"])
def test_the_chart_takes_over_from_an_earlier_version(helm, empty, tmp_path, earlier):
    """Helm refuses before it changes anything, and names the commands that come first."""
    if earlier == "chart":
        kubectl(empty, "create", "namespace", NAMESPACE)
        release(helm, empty, "install", str(earlier_chart(tmp_path / "chart")))
    else:
        apply(empty, earlier_install(tmp_path))
    rolled_out(empty)
    with always_served(empty):
        verb = ("upgrade", str(CHART)) if earlier == "chart" else ("install", str(CHART), *owned(helm))
        before = versions(empty)
        refused = release(helm, empty, *verb, check=False)
        assert refused.returncode != 0
        commands = said_commands(refused.stderr)
        assert [words[:2] for words in commands].count(["patch", "service"]) == 2, refused.stderr
        if earlier == "install.yaml":
            assert versions(empty) == before
        for words in commands:
            kubectl(empty, *words)
        release(helm, empty, *verb)
        assert rolled_out(empty) == "Helm"


@pytest.mark.parametrize("manager", ["kubectl", "somebody"])
def test_make_install_takes_over_from_an_earlier_version(empty, tmp_path, manager):
    """Of another field manager it ends with a conflict; the commands that it names go on."""
    apply(empty, earlier_install(tmp_path), f"--field-manager={manager}")
    rolled_out(empty)
    with always_served(empty):
        done = install_script(empty)
        assert "is made again, and takes over its pods" in done.stderr
        assert done.returncode == (manager != "kubectl"), done.stderr
        if done.returncode:
            assert "Take it back: " in done.stderr
            apply(empty, INSTALL, "--force-conflicts")
        kubectl(empty, "rollout", "restart", "-n", NAMESPACE, "deployment/jobset-controller-manager")
        rolled_out(empty)


def test_a_release_whose_pods_another_one_selects_is_refused(helm, empty):
    """Names of objects may be the same while names of releases differ."""
    apply(empty)
    before = versions(empty)
    where = (f"--kubeconfig={empty.kubeconfig}", "--namespace", NAMESPACE)
    done = helm.run(
        "install", "ml", str(CHART), *owned(helm), *where, values={"fullnameOverride": "jobset"}, check=False
    )
    assert done.returncode != 0
    assert 'selects pods with app.kubernetes.io/instance=jobset, and those of this release have "ml"' in done.stderr
    assert versions(empty) == before
