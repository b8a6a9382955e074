"""What is read of nodes, and done to pods, for `failurePolicy.maintenance`: taints that a set names itself."""

from typing import Any

import msgspec
import pytest

from api import keys
from api.jobset_status import JobSetStatus, LeftNode, MaintenanceStatus
from controllers.jobset.execute import Caches, Executor
from controllers.planning.actions import DeletePod, Plan
from kube.store import Store
from tests.controllers.test_node_watches import ADDED, BROKEN, LATER, UNREACHABLE, Cluster, a_set, pod_body, taint
from tests.support.model.blind import RecordedEvents

DRAIN = "example.com/drain"
MOVES = {"failurePolicy": {"maxRestarts": 2, "maintenance": {"taintKeys": [DRAIN, UNREACHABLE]}}}


class TestMaintenance:
    @pytest.mark.parametrize(
        ("taints", "found"),
        [
            ([taint(BROKEN)], []),
            ([taint(DRAIN)], [(DRAIN, ADDED)]),
            ([taint()], [(UNREACHABLE, ADDED)]),
            ([taint(DRAIN), taint(added=LATER)], [(UNREACHABLE, LATER)]),
            ([taint(DRAIN, added=""), taint(added=LATER)], [(DRAIN, "")]),
        ],
    )
    async def test_the_taint_that_came_last_counts(self, taints, found):
        cluster = Cluster(a_set(**MOVES), all_taints=True)
        cluster.node("n1", *taints)
        cluster.pod("p")
        cluster.pod("elsewhere", "n2")
        async with cluster.synced():
            pods, names = cluster.watches.pods_in_maintenance(cluster.jobsets.get("ns", "js"))
            assert [(pod.taint, pod.at_risk_since) for pod in pods] == found
            assert names == ({"n1"} if found else set())
            assert cluster.on_failed_nodes() == [], "that is another policy"

    async def test_a_node_that_the_set_has_left_is_known_by_the_status(self):
        left = MaintenanceStatus(nodes=(LeftNode(name="n1"), LeftNode(name="n2"), LeftNode(name="gone")))
        js = msgspec.structs.replace(a_set(**MOVES), status=JobSetStatus(maintenance=left))
        cluster = Cluster(js, all_taints=True)
        cluster.node("n1", taint(DRAIN))
        async with cluster.synced():
            assert cluster.watches.pods_in_maintenance(js) == ((), {"n1"})

    async def test_a_taint_wakes_the_sets_that_leave_nodes_and_no_others(self):
        cluster = Cluster(a_set(**MOVES), a_set("other", failurePolicy={"maxRestarts": 1}), all_taints=True)
        cluster.pod("p")
        cluster.pod("q", js="other")
        async with cluster.synced():
            cluster.watches.feed(cluster.queue)
            await cluster.woken()
            cluster.node("n1", taint(DRAIN))
            assert await cluster.woken() == {"js"}
            cluster.node("n1")
            assert await cluster.woken() == {"js"}

    async def test_without_the_gate_other_taints_are_not_kept(self):
        cluster = Cluster(a_set(**MOVES))
        cluster.node("n1", taint(DRAIN))
        cluster.pod("p")
        async with cluster.synced():
            assert cluster.watches.nodes.store.get("", "n1").other_taints == ()


class Deletions:
    """A client that answers a deletion with the pod as it is then, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def delete(self, _resource: object, _name: str, *, type: type, **options: Any) -> Any:  # noqa: A002
        self.asked.append(options)
        return self._pod(type, "9", finalizers=[keys.JOB_TRACKING])

    async def patch(self, *_: object, type: type, **__: object) -> Any:  # noqa: A002
        """The finalizer of the Job controller goes."""
        return self._pod(type, "10")

    @staticmethod
    def _pod(kind: type, version: str, **meta: Any) -> Any:
        body = pod_body("p", "n1", deletionTimestamp=LATER, uid="u", resourceVersion=version, **meta)
        return msgspec.convert(body, kind)


@pytest.mark.parametrize("graceful", [True, False])
async def test_a_pod_on_a_node_that_works_gets_its_grace_period(graceful):
    """Until it has ended it is known as one that is being deleted, so that it is deleted once."""
    cluster = Cluster(a_set(**MOVES), all_taints=True)
    cluster.pod("p", uid="u")
    client, js = Deletions(), cluster.jobsets.get("ns", "js")
    caches = Caches(cluster.jobsets, Store(), Store(), Store(), nodes=cluster.watches)
    async with cluster.synced():
        action = DeletePod("p", "u", replaced=True, graceful=graceful)
        await Executor(client, caches, RecordedEvents()).execute(js, Plan(actions=(action,)))
        stored = cluster.watches.pods.store.get("ns", "p")
    assert client.asked == [{"namespace": "ns", "uid": "u"} | ({} if graceful else {"grace_period_seconds": 0})]
    assert [(pod.deleting, pod.is_tracked_by_job) for pod in [stored] if pod] == [(True, False)] * graceful


class TestEvictions:
    @pytest.mark.parametrize(
        ("target", "found"),
        [
            ({}, []),
            ({"reason": "EvictionByEvictionAPI"}, [("p", "", True), ("q", "", False)]),
            ({"reason": "EvictionByEvictionAPI", "status": "False"}, []),
            ({"reason": "DeletionByTaintManager"}, []),
            ({"reason": "PreemptionByScheduler"}, []),
        ],
    )
    async def test_a_pod_that_is_evicted_makes_its_node_one_to_leave(self, target, found):
        cluster = Cluster(a_set(**MOVES), all_taints=True)
        evict(cluster, **target)
        cluster.pod("q")
        cluster.pod("elsewhere", "n2")
        async with cluster.synced():
            pods, names = cluster.watches.pods_in_maintenance(cluster.jobsets.get("ns", "js"))
            assert sorted((pod.name, pod.taint, pod.evicted) for pod in pods) == found
            assert names == ({"n1"} if found else set())

    @pytest.mark.parametrize(("key", "evicted"), [(DRAIN, True), (BROKEN, False)])
    async def test_a_taint_of_the_set_may_evict(self, key, evicted):
        cluster = Cluster(a_set(**MOVES), all_taints=True)
        cluster.node("n1", taint(key))
        evict(cluster, reason="DeletionByTaintManager")
        async with cluster.synced():
            pods, _ = cluster.watches.pods_in_maintenance(cluster.jobsets.get("ns", "js"))
            assert [(pod.taint, pod.evicted) for pod in pods] == [(DRAIN, True)] * evicted

    @pytest.mark.parametrize("body", [{"deleting": False}, {"phase": "Succeeded"}])
    async def test_a_pod_that_stays_or_has_succeeded_is_not_evicted(self, body):
        cluster = Cluster(a_set(**MOVES), all_taints=True)
        evict(cluster, reason="EvictionByEvictionAPI", **body)
        async with cluster.synced():
            assert cluster.watches.pods_in_maintenance(cluster.jobsets.get("ns", "js")) == ((), frozenset())

    async def test_it_wakes_its_set_and_so_does_its_end(self):
        cluster = Cluster(a_set(**MOVES), all_taints=True)
        cluster.pod("p")
        async with cluster.synced():
            cluster.watches.feed(cluster.queue)
            await cluster.woken()
            evict(cluster, reason="EvictionByEvictionAPI")
            assert await cluster.woken() == {"js"}
            cluster.api.drop("pods", "p")
            assert await cluster.woken() == {"js"}


def evict(cluster: Cluster, *, deleting: bool = True, phase: str = "Running", **target: str) -> None:
    """Pod p on node n1 has that condition, and is being deleted."""
    body = pod_body("p", "n1", **({"deletionTimestamp": LATER} if deleting else {}))
    said = [{"type": "DisruptionTarget", "status": "True", **target}]
    cluster.api.put(
        "pods", "p", metadata=body["metadata"], spec=body["spec"], status={"phase": phase, "conditions": said}
    )
