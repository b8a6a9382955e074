"""What is read of nodes and pods for `failurePolicy.maintenance`: taints that a set names itself."""

from __future__ import annotations

import msgspec
import pytest

from api.jobset_status import JobSetStatus, LeftNode, MaintenanceStatus
from tests.controllers.test_node_watches import ADDED, BROKEN, LATER, UNREACHABLE, Cluster, a_set, taint

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
            pods, names = cluster.watches.in_maintenance(cluster.jobsets.get("ns", "js"))
            assert [(pod.taint, pod.since) for pod in pods] == found
            assert names == ({"n1"} if found else set())
            assert cluster.on_failed_nodes() == [], "that is another policy"

    async def test_a_node_that_the_set_has_left_is_known_by_the_status(self):
        left = MaintenanceStatus(nodes=(LeftNode(name="n1"), LeftNode(name="n2"), LeftNode(name="gone")))
        js = msgspec.structs.replace(a_set(**MOVES), status=JobSetStatus(maintenance=left))
        cluster = Cluster(js, all_taints=True)
        cluster.node("n1", taint(DRAIN))
        async with cluster.synced():
            assert cluster.watches.in_maintenance(js) == ((), {"n1"})

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
            assert cluster.watches.nodes.store.get("", "n1").others == ()
