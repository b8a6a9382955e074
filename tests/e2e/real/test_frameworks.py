"""The examples of frameworks in pods on two nodes: the pods form one group over their DNS names, and the set completes.

`make test-frameworks` runs these. The images that the manifests name are made here, with the framework for processors.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping

import pytest

from dev.cluster.cluster import Cluster
from dev.cluster.real.load import load_image
from tests.support.cluster.frameworks import SAYS, locate_framework_image
from tests.support.cluster.jobs import Sets
from tests.support.cluster.local_pods import FRAMEWORKS, objects
from tests.support.cluster.requests import MERGE, kubectl, kubectl_apply, more_capacity, request, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not os.environ.get("FRAMEWORKS"), reason="make test-frameworks runs these: docs/frameworks.md"),
]
NODES = ["real-0", "real-1"]
POOL = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
    "cloud.google.com/gke-tpu-topology": "4x4",
}


@pytest.fixture
def accelerators(real_cluster: Cluster) -> Iterator[None]:
    """Nodes say that they have GPUs and TPUs, each in a node pool of its own: pods are placed as on those."""
    with contextlib.ExitStack() as stack:
        for resource in ("nvidia.com/gpu", "google.com/tpu"):
            stack.enter_context(more_capacity(real_cluster, NODES, resource, "16"))
        for node in NODES:
            stack.enter_context(labelled(real_cluster, node, {**POOL, "cloud.google.com/gke-nodepool": node}))
        yield


@contextlib.contextmanager
def labelled(cluster: Cluster, node: str, labels: dict[str, str]) -> Iterator[None]:
    """The node has these labels for the length of the block."""

    def write(now: Mapping[str, str | None]) -> None:
        status, answer = request(cluster, "PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": now}}, MERGE)
        assert status == 200, answer

    write(labels)
    try:
        yield
    finally:
        write(dict.fromkeys(labels))


@pytest.mark.parametrize("file", FRAMEWORKS, ids=lambda file: file.stem)
def test_the_pods_form_one_group_and_the_set_completes(file, accelerators, real_sets: Sets):
    cluster, namespace = real_sets.cluster, real_sets.namespace
    [config], [jobset] = objects(file, "ConfigMap"), objects(file, "JobSet")
    containers = [
        container
        for rjob in jobset["spec"]["replicatedJobs"]
        for container in rjob["template"]["spec"]["template"]["spec"]["containers"]
    ]
    layout = locate_framework_image(file.stem)
    for image in {container["image"] for container in containers}:
        load_image(cluster.plan, layout, image)
    for container in containers:
        container["resources"].pop("requests", None)  # the nodes have the processors of this machine
    kubectl_apply(cluster, namespace, config)
    real_sets.apply(jobset)

    def logs() -> str:
        chosen = f"jobset.sigs.k8s.io/jobset-name={file.stem}"
        return kubectl(cluster, "logs", "-l", chosen, "--tail=-1", "--prefix", namespace=namespace, check=False)

    wait_for(lambda: real_sets.status(file.stem).get("terminalState"), timeout=300, what="its end", last=logs)
    assert real_sets.status(file.stem)["terminalState"] == "Completed", logs()
    assert not real_sets.status(file.stem).get("restarts"), logs()
    assert [line for line in SAYS[file.stem] if line not in logs()] == [], logs()
