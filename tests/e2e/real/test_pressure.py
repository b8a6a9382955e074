"""A node without enough memory, made by its threshold and not by filling the machine."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dev.cluster.cluster import Cluster
from dev.cluster.kubectl import run_kubectl
from dev.cluster.real import config, faults
from dev.cluster.real.layout import RealNode, find_node
from tests.e2e.real.test_life import MANAGER, dns_node_and_other
from tests.e2e.real.test_nodes import taints
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.real import running
from tests.support.cluster.requests import request, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
MIB = 1 << 20
LEFT_MIB, USED_MIB = 150, 300
GROWS = f"import signal; used = b'x' * ({USED_MIB} << 20); signal.pause()"
MEMORY_PRESSURE = "node.kubernetes.io/memory-pressure"


@contextmanager
def little_memory(cluster: Cluster, name: str) -> Iterator[None]:
    """The kubelet of a node takes all of its memory but 150 MiB for what it must not give away, in this block."""
    code, stats = request(cluster, "GET", f"/api/v1/nodes/{name}/proxy/stats/summary")
    assert code == 200, stats
    threshold = stats["node"]["memory"]["availableBytes"] - LEFT_MIB * MIB
    node = find_node(cluster.plan.layout, name)
    file = Path(f"{node.root}{config.KUBELET}")
    before = file.read_text()
    settings = json.loads(before)
    settings["evictionHard"]["memory.available"] = str(threshold)
    restart_kubelet(cluster, node, file, json.dumps(settings))
    try:
        yield
    finally:
        restart_kubelet(cluster, node, file, before)
        run_kubectl(cluster.plan, "rollout", "status", "--namespace=jobset-system", "--timeout=60s", MANAGER)


def restart_kubelet(cluster: Cluster, node: RealNode, file: Path, settings: str) -> None:
    """Have a kubelet start again with other settings."""
    faults.stop_kubelet(node)
    file.write_text(settings)
    with cluster.connect() as connection:
        faults.come_back(node, connection)


def test_explain_names_the_pod_that_was_evicted_for_its_memory(real_sets: Sets):
    cluster = real_sets.cluster
    _, node = dns_node_and_other(cluster)
    pod = running(["python3", "-c", GROWS], nodeSelector={"kubernetes.io/hostname": node})
    words = "has failed: Evicted: The node was low on resource: memory. Threshold quantity: "
    with little_memory(cluster, node):
        real_sets.apply(manifest(group(pod=pod, job={"backoffLimit": 6}), failurePolicy={"maxRestarts": 1}))
        wait_for(lambda: words in real_sets.causes()["js"], timeout=90, what=words, last=real_sets.causes)
        assert MEMORY_PRESSURE in taints(cluster, node)
    wait_for(lambda: MEMORY_PRESSURE not in taints(cluster, node), timeout=60, what="the end of the pressure")
