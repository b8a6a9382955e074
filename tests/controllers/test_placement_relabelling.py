"""Nodes that change their domain: who is looked at then, and when."""

import asyncio

import pytest

from controllers.placement.controller import LONGEST_RELABEL, RELABEL_PAUSE, JobRequest
from tests.support.model.placement_bench import BOUND, JOB, REQUEST, Bench
from tests.support.objects.placement import RACK, hide, leader_of, node_of, show

pytestmark = pytest.mark.looptime


@pytest.fixture
async def bench() -> Bench:
    return Bench()


class TestNodes:
    async def ready(self, bench: Bench) -> None:
        bench.feed()
        bench.add_job()
        show(bench.watches.leaders, BOUND)
        await bench.until_idle()

    @pytest.mark.parametrize(
        ("node", "labels"), [("n1", {"rack": "r9"}), ("n3", {"rack": "r9"})], ids=["the leader's", "a follower's"]
    )
    async def test_followers_are_looked_for_a_while_after_a_node_was_moved(self, bench, node, labels):
        show(bench.watches.nodes, node_of("n3", rack="r1"))
        await self.ready(bench)
        bench.add_pod(1, spec={"nodeName": "n1"})
        bench.add_pod(2, spec={"nodeName": "n3"})
        show(bench.watches.nodes, node_of(node, **labels))
        await asyncio.sleep(RELABEL_PAUSE - 0.1)
        await bench.until_idle()
        assert bench.api.lists == [], "a whole rack is renamed node by node"
        await asyncio.sleep(0.2)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]
        assert bench.deleted() == [f"{JOB}-2-abcde"]

    @pytest.mark.parametrize("pace", [0.1, 0.8])
    async def test_a_rack_that_is_renamed_costs_no_pod(self, bench, pace):
        """However long it takes: what counts is the time since the last node."""
        show(bench.watches.nodes, node_of("n3", rack="r1"))
        await self.ready(bench)
        bench.add_pod(1, spec={"nodeName": "n3"})
        show(bench.watches.nodes, *(node_of(f"other-{number}", rack="r1") for number in range(4)))
        for node in ("n1", *(f"other-{number}" for number in range(4)), "n3"):
            show(bench.watches.nodes, node_of(node, rack="new"))
            await asyncio.sleep(RELABEL_PAUSE * pace)
            await bench.until_idle()
        await asyncio.sleep(RELABEL_PAUSE + 1)
        await bench.until_idle()
        assert bench.api.lists
        assert bench.deleted() == []

    async def test_a_node_that_joins_the_domain_is_looked_at_too(self, bench):
        await self.ready(bench)
        show(bench.watches.nodes, node_of("n2", rack="r1"))
        await asyncio.sleep(RELABEL_PAUSE + 1)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]

    @pytest.mark.parametrize(
        "node",
        [
            node_of("n1", rack="r1", other="x"),
            node_of("n2", rack="r3"),
            node_of("n9", rack="r1"),
            node_of("n1", asked=("zone", RACK), rack="r1", zone="z"),
            node_of("n4", rack="r1"),
        ],
        ids=["another label", "another domain", "a new node", "one more label is read", "the label is read at last"],
    )
    async def test_changes_of_nodes_without_leaders_are_ignored(self, bench, node):
        show(bench.watches.nodes, node_of("n4", asked=("zone",), rack="r1"))
        await self.ready(bench)
        show(bench.watches.nodes, node)
        await asyncio.sleep(RELABEL_PAUSE + 1)
        assert bench.queue.depth() == {}
        assert bench.remembered() == {}

    async def test_a_node_that_is_gone_causes_no_look_at_pods(self, bench):
        await self.ready(bench)
        hide(bench.watches.nodes, node_of("n1", rack="r1"))
        await asyncio.sleep(RELABEL_PAUSE + 1)
        assert bench.queue.depth() == {}
        assert bench.remembered() == {}

    async def test_relabelling_without_end_does_not_put_the_look_off_for_ever(self, bench):
        await self.ready(bench)
        bench.add_pod(1, spec={"nodeName": "n2"})
        show(bench.watches.nodes, node_of("n2", rack="r1"))
        show(bench.watches.nodes, node_of("n2", rack="r2"))
        for number in range(int(LONGEST_RELABEL)):
            show(bench.watches.nodes, node_of("busy", rack=f"x{number}"))
            await asyncio.sleep(1.1)
            await bench.until_idle()
        assert bench.deleted() == [f"{JOB}-1-abcde"]

    async def test_many_nodes_are_one_look(self, bench):
        await self.ready(bench)
        many = [node_of(f"many-{number}", rack="r1") for number in range(300)]
        show(bench.watches.nodes, *many)
        show(bench.watches.nodes, *(node_of(node.name, rack="r9") for node in many))
        await asyncio.sleep(RELABEL_PAUSE + 1)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]
        assert bench.remembered() == {}

    async def test_nothing_is_remembered_of_leaders_that_have_ended_or_lost_their_job(self, bench):
        bench.feed()
        show(bench.watches.leaders, leader_of(node="n1", is_live=False), leader_of("gone", node="n1"))
        show(bench.watches.nodes, node_of("n1", rack="r9"))
        await bench.until_idle()
        await asyncio.sleep(RELABEL_PAUSE + 1)
        for request in (REQUEST, JobRequest.from_pod(leader_of("gone"))):
            await bench.reconciler.reconcile(request)
        assert bench.remembered() == {}
