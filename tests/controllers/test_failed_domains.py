"""In which topology domain a Job was that failed: from the bodies of its leader and its followers, as they are read."""

from typing import Any

import msgspec
import pytest

from api import keys
from api.jobset import JobSet
from api.nodes import bound_pod
from api.pod import DetailedPod
from controllers.jobset.failed_pods import failed_pod
from controllers.jobset.node_watches import NodeWatches
from kube.client import Client
from kube.store import Store
from tests.support.cluster.kube_client import synced
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.stored_sets import jobset, rjob

RACK, NOW = "example.com/rack", "2026-01-01T00:00:30Z"
NAME, EXCLUSIVE = {keys.JOBSET_NAME: "js"}, {keys.EXCLUSIVE_TOPOLOGY: RACK}
IN_R3 = {RACK: "r3", "disk": "ssd"}


def body(index: int, *, job: str = "a", node: str = "n1", annotations: Any = NAME | EXCLUSIVE, **spec: Any) -> Any:
    """A pod of Job `job` as kube-apiserver stores it; by its index 0 it leads."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"js-{job}-0", "uid": f"uid-{job}", "controller": True}
    labels = {keys.JOBSET_NAME: "js", keys.JOBSET_UID: "js-uid", keys.JOB_UID: f"uid-{job}"}
    return {
        "metadata": {
            "name": f"js-{job}-0-{index}",
            "namespace": "ns",
            "labels": labels,
            "annotations": {**annotations, keys.COMPLETION_INDEX: str(index)},
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": node, **spec},
        "status": {"phase": "Running"},
    }


FOLLOWER = body(1, nodeSelector=IN_R3)
BY_SCRIPT = {**NAME, **EXCLUSIVE, keys.NODE_SELECTOR_STRATEGY: "true"}


@pytest.mark.parametrize(
    ("pod", "topology", "domain"),
    [
        (FOLLOWER, RACK, "r3"),
        (body(0), RACK, ""),
        (body(1, nodeSelector={"disk": "ssd"}), RACK, ""),
        (body(1, annotations=NAME, nodeSelector=IN_R3), "", ""),
        (body(1, annotations=BY_SCRIPT, nodeSelector=IN_R3), "", ""),
    ],
    ids=["follower", "leader", "follower without a domain", "not exclusive", "node-selector strategy"],
)
def test_the_domain_is_that_of_the_node_selector_of_a_follower(pod: Any, topology: str, domain: str):
    read = msgspec.convert(pod, DetailedPod)
    bound, failed = bound_pod(read), failed_pod(read)
    assert bound is not None
    assert (bound.topology, bound.domain) == (topology, domain)
    assert (failed.topology, failed.domain) == (topology, domain), "a pod that failed by its exit code"


async def domains(*pods: Any) -> dict[str, str]:
    """The domains of pods on the node n1, which is gone, as they are decided by."""
    policy = {"nodeFailure": {"afterSeconds": 30}}
    js = jobset(rjob("a", 2), rjob("b"), failurePolicy=policy)
    js = msgspec.structs.replace(js, metadata=msgspec.structs.replace(js.metadata, uid="js-uid"))
    api, sets = MemoryApi(), Store[JobSet]()
    sets.apply(js)
    for name in ("n2", "n3"):
        api.put("nodes", name, "", metadata={"name": name, "namespace": ""}, spec={})
    for pod in pods:
        api.put("pods", pod["metadata"]["name"], **pod)
    watches = NodeWatches(Client(api), sets)
    async with synced(*watches.informers):
        return {pod.name: pod.domain for pod in watches.failed_pods(js, NOW)}


async def test_a_leader_without_followers_has_none():
    assert await domains(body(0)) == {"js-a-0-0": ""}
