"""A node that is shut down in order: its kubelet ends the pods before the power goes (`shutdownGracePeriod`)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dev.cluster.cluster import Cluster
from dev.cluster.real import config, faults
from dev.cluster.real.enter import node_process
from dev.cluster.real.layout import find_node
from tests.e2e.real.test_life import dns_node_and_other, without_power
from tests.e2e.real.test_lost_nodes import ENDS_AT_SIGTERM, spread, tainted_at
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.logind import Logind, logind
from tests.support.cluster.requests import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
GRACE = {"shutdownGracePeriod": "20s", "shutdownGracePeriodCriticalPods": "5s"}


@contextmanager
def graceful(cluster: Cluster, name: str) -> Iterator[Logind]:
    """The kubelet of the node has taken the lock of a shutdown. After the next power cut it is as before."""
    node = find_node(cluster.plan.layout, name)
    assert node is not None
    file = Path(f"{node.root}{config.KUBELET}")
    before = file.read_text()
    with logind(Path(f"/proc/{node_process(node)}/root")) as bus, cluster.connect() as connection:
        try:
            file.write_text(json.dumps(json.loads(before) | GRACE))
            faults.stop_kubelet(node)
            faults.come_back(node, connection)
            wait_for(lambda: not bus.locks.empty(), what="the lock of the kubelet")
        finally:
            file.write_text(before)
        yield bus


def test_a_set_leaves_a_node_that_is_shut_down_in_order(real_sets: Sets):
    cluster = real_sets.cluster
    kept, lost = dns_node_and_other(cluster)
    with graceful(cluster, lost) as bus:
        workers = group(replicas=2, pod=spread(ENDS_AT_SIGTERM))
        real_sets.apply(manifest(workers, failurePolicy={"maxRestarts": 1}))
        real_sets.wait_ready(2)
        [ended] = [pod["metadata"]["name"] for pod in real_sets.pods() if pod["spec"]["nodeName"] == lost]
        assert bus.shut_down(60), "the kubelet lets the machine go on once the pods have ended"
        assert not tainted_at(cluster, lost), "that is long before the node counts as lost"
        with without_power(cluster, lost):
            wait_for(lambda: real_sets.status().get("restarts") == 1, what="the restart")
            real_sets.wait_ready(2)
            assert {pod["spec"]["nodeName"] for pod in real_sets.pods()} == {kept}
    [entry] = real_sets.status()["attemptHistory"]
    assert (entry["pod"], entry["node"], entry["exitCode"]) == (ended, lost, 143)
