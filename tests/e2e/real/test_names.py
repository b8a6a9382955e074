"""Names of pods after a restart, where the cluster's DNS has a cache that answers with addresses of deleted pods."""

from collections.abc import Iterator

import pytest

from dev.cluster.cluster import Cluster
from dev.cluster.real import contents
from tests.support.cluster.jobs import Sets
from tests.support.cluster.local_pods import objects
from tests.support.cluster.requests import kubectl, kubectl_apply, wait_for
from tests.support.pages.files import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
EXAMPLE = ROOT / "examples/wait-for-names.yaml"
NAME = "train"
INDEX = "batch.kubernetes.io/job-completion-index"
UNCACHED = """
            disable success cluster.local
            disable denial cluster.local
        }"""
LOOKS_UP = """
import os, socket, time
while not os.path.exists("/tmp/fail"):
    try:
        print(socket.gethostbyname("train-workers-0-0.train"), flush=True)
    except OSError:
        print("none", flush=True)
    time.sleep(0.5)
raise SystemExit(1)
"""


@pytest.fixture
def caching_dns(real_cluster: Cluster) -> Iterator[None]:
    """CoreDNS with `cache 30` for all names, and nothing in the cache."""
    manifests = contents.DNS.read_text(encoding="utf-8")
    assert UNCACHED in manifests
    configure(real_cluster, manifests.replace(f"cache 30 {{{UNCACHED}", "cache 30"))
    yield
    configure(real_cluster, manifests)


def configure(cluster: Cluster, text: str) -> None:
    kubectl(cluster, "apply", "-f", "-", stdin=text)
    for command in ("restart", "status"):
        kubectl(cluster, "rollout", command, "deploy/coredns", namespace="kube-system")


@pytest.mark.parametrize("waits", [False, True], ids=["at-once", "after-waiting"])
def test_the_first_answer_after_a_restart(real_sets: Sets, caching_dns: None, waits: bool):
    cluster, namespace = real_sets.cluster, real_sets.namespace
    [config], [jobset] = objects(EXAMPLE, "ConfigMap"), objects(EXAMPLE, "JobSet")
    pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["command"] = ["python", "-c", LOOKS_UP]
    pod["terminationGracePeriodSeconds"] = 1
    if not waits:
        del pod["initContainers"]
    kubectl_apply(cluster, namespace, config)
    real_sets.apply(jobset)

    def address() -> str:
        [first] = real_sets.pods(f"{INDEX}=0", NAME)
        return str(first["status"]["podIP"])

    def answers() -> list[str]:
        found = kubectl(cluster, "logs", "-l", f"{INDEX}=1", "--tail=-1", namespace=namespace, check=False)
        return [line for line in found.splitlines() if line.startswith("10.")]

    real_sets.wait_ready(1, NAME)
    old = address()
    wait_for(lambda: old in answers(), timeout=60, what="the address in the cache")
    [second] = real_sets.pods(f"{INDEX}=1", NAME)
    kubectl(cluster, "exec", second["metadata"]["name"], "--", "touch", "/tmp/fail", namespace=namespace)
    wait_for(lambda: real_sets.status(NAME).get("restarts") == 1, what="the restart")
    real_sets.wait_ready(1, NAME)
    wait_for(answers, what="its first answer")
    new = address()
    assert new != old
    assert answers()[0] == (new if waits else old)
    wait_for(lambda: answers()[-1] == new, timeout=60, what="the new address")
