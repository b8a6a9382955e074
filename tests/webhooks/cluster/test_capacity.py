"""Sets that need more at once than all nodes have together: `jobset validate --server` warns, admission does not."""

from typing import Any

import pytest

from api.keys import EXCLUSIVE_TOPOLOGY
from tests.support.objects.jobsets import JSON, jobset, rjob
from tests.webhooks.cluster.test_nodes import GPU, Cluster, node, pod, said
from webhooks.jobset.cluster.nodes import MAX_LABELS

pytestmark = pytest.mark.looptime
RJOBS = "spec.replicatedJobs"


def racks(*values: str, **labels: str) -> list[JSON]:
    """A node of eight GPUs in each of these racks."""
    return [{**node(gpu="8"), "metadata": {"labels": {"rack": value, **labels}}} for value in values]


def exclusive(name: str = "w", replicas: int = 1, **more: Any) -> JSON:
    body = rjob(name, replicas=replicas, **more)
    body["template"].setdefault("metadata", {})["annotations"] = {EXCLUSIVE_TOPOLOGY: "rack"}
    return body


def gpus(name: str, replicas: int, amount: int = 8, **more: Any) -> JSON:
    return rjob(name, replicas=replicas, pod=pod({GPU: amount}), **more)


async def told(js: JSON, *values: str) -> list[str]:
    """The warnings about it, as texts, in a cluster with these racks."""
    return await said(Cluster(racks(*values)), js, has_author_rights=True)


async def test_more_than_all_nodes_offer():
    [found] = await told(jobset(gpus("a", 1), gpus("w", 3)), "r1", "r2")
    assert found == (
        f"{RJOBS}[1]: needs 24 {GPU} at once, all nodes offer 16: its pods never run all at once; run fewer pods at once,"
        " or add nodes"
    )
    [found] = await told(jobset(gpus("a", 2), gpus("w", 1)), "r1", "r2")
    assert found.startswith(f"{RJOBS}: needs 24 {GPU} at once, all nodes offer 16")
    assert await told(jobset(gpus("w", 2)), "r1", "r2") == []


async def test_a_pod_that_no_node_holds_is_said_alone():
    [found] = await told(jobset(gpus("w", 3, amount=9)), "r1", "r2")
    assert "a pod needs 9" in found


async def test_more_exclusive_jobs_than_domains():
    [found] = await told(jobset(exclusive(replicas=3)), "r1", "r2", "r1")
    assert found == (
        f"{RJOBS}[0]: 3 exclusive Jobs at once, nodes have 2 values of rack: they never run all at once; lower replicas,"
        " or label nodes with more values"
    )
    [found] = await told(jobset(exclusive("a", 2), exclusive("b", 1)), "r1", "r2")
    assert found.startswith(f"{RJOBS}: 3 exclusive Jobs at once")
    assert await told(jobset(exclusive(replicas=2)), "r1", "r2") == []
    body = rjob("w", replicas=3)
    body["template"]["spec"]["template"]["metadata"] = {"annotations": {EXCLUSIVE_TOPOLOGY: "rack"}}
    assert len(await told(jobset(body), "r1", "r2")) == 1, "of the pod template"


async def test_exclusive_jobs_of_different_priorities_may_share_a_domain():
    one, other = exclusive("a", 2), exclusive("b", 2)
    for body, name in ((one, "system-node-critical"), (other, "system-cluster-critical")):
        body["template"]["spec"]["template"]["spec"]["priorityClassName"] = name
    assert not [text for text in await told(jobset(one, other), "r1", "r2") if "exclusive Jobs" in text]


async def test_of_very_many_labels_not_all_are_counted():
    many = {f"x{number}": "y" for number in range(MAX_LABELS)}
    found = await said(
        Cluster([*racks("r1", **many), *racks("r2")]), jobset(exclusive(replicas=3)), has_author_rights=True
    )
    assert len(found) == 1, "rack is among the first"
    first = [{**node(), "metadata": {"labels": many}}, *racks("r2")]
    assert await said(Cluster(first), jobset(exclusive(replicas=3)), has_author_rights=True) == []
