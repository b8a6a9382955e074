"""Followers that wait at the gate are brought after their leader, each of them once."""

import asyncio

import pytest

from controllers.placement.controller import RELABEL_PAUSE
from controllers.placement.plan import NODE_PAUSE, REPORT_AFTER
from kube.controller import Result, is_terminal
from kube.errors import Conflict
from kube.parallel import PARALLEL_WRITES
from tests.support.model.placement_bench import BOUND, JOB, REQUEST, Bench
from tests.support.objects.placement import RACK, follower_of, hide, leader_of, node_of, show

pytestmark = pytest.mark.looptime


@pytest.fixture
async def bench() -> Bench:
    return Bench()


class TestLifting:
    async def test_each_of_them_once_however_late_the_watch_is(self, bench):
        bench.add_waiting(1, 2)
        show(bench.watches.leaders, BOUND)
        for _ in range(3):
            await bench.reconcile()
        show(bench.watches.followers, follower_of(index=1))  # a change from before the lift
        await bench.reconcile()
        assert len(bench.api.writes) == 2
        hide(bench.watches.followers, follower_of(index=1))
        bench.add_waiting(3)
        await bench.reconcile()
        assert [name for _, name, _ in bench.api.writes[2:]] == [f"{JOB}-3-abcde"]

    @pytest.mark.parametrize("leader", [leader_of(), leader_of(node="n1", is_live=False)], ids=["waits", "has ended"])
    async def test_no_follower_is_patched_while_the_leader_waits_or_is_gone(self, bench, leader):
        bench.add_waiting(1)
        show(bench.watches.leaders, leader)
        await bench.reconcile()
        assert bench.api.writes == []

    async def test_followers_of_another_job_of_that_name_are_not_touched(self, bench):
        show(bench.watches.leaders, BOUND)
        show(bench.watches.followers, follower_of(index=9, job_uid="uid-earlier"))
        await bench.reconcile()
        assert bench.api.writes == []

    async def test_a_follower_that_is_gone_is_no_failure(self, bench):
        show(bench.watches.leaders, BOUND)
        show(bench.watches.followers, follower_of(index=1))
        assert await bench.reconcile() is None
        await bench.reconcile()
        assert len(bench.api.writes) == 1, "and is not tried again"

    async def test_another_pod_of_that_name_is_not_touched(self, bench):
        bench.add_waiting(1)
        show(bench.watches.followers, follower_of(index=1, uid="earlier"))
        show(bench.watches.leaders, BOUND)
        with pytest.raises(ExceptionGroup) as failed:
            await bench.reconcile()
        assert isinstance(failed.value.exceptions[0], Conflict)
        assert not is_terminal(failed.value), "the watch will show the new pod"
        assert bench.pod(1)["spec"]["nodeSelector"] == {"disk": "ssd"}

    async def test_many_at_a_time_but_not_all(self, bench):
        bench.add_waiting(*range(1, 301))
        show(bench.watches.leaders, BOUND)
        await bench.reconcile()
        assert len(bench.api.writes) == 300
        assert 1 < bench.api.most <= PARALLEL_WRITES

    async def test_the_node_may_be_seen_later_than_the_leader(self, bench):
        bench.add_waiting(1)
        show(bench.watches.leaders, leader_of(node="late"))
        assert await bench.reconcile() == NODE_PAUSE
        show(bench.watches.nodes, node_of("late", rack="r5"))
        assert await bench.reconcile() is None
        assert bench.pod(1)["spec"]["nodeSelector"][RACK] == "r5"

    async def test_no_follower_is_patched_for_a_node_without_the_label(self, bench):
        bench.add_waiting(1)
        show(bench.watches.leaders, leader_of(node="bare"))
        assert await bench.reconcile() == NODE_PAUSE
        await asyncio.sleep(REPORT_AFTER)
        assert await bench.reconcile() == REPORT_AFTER, "it is not corrected by waiting"
        assert bench.api.writes == []
        bench.add_job()
        bench.feed()
        show(bench.watches.nodes, node_of("bare", rack="r5"))
        await asyncio.sleep(RELABEL_PAUSE + 0.1)
        await bench.until_idle()
        assert bench.pod(1)["spec"]["nodeSelector"][RACK] == "r5", "but somebody may correct it"


async def test_results_are_what_the_queue_expects(bench):
    assert await bench.reconciler.reconcile(REQUEST) == Result()
    assert str(REQUEST) == "ns/js-w-0"


class TestTheQueue:
    async def test_a_leader_that_goes_while_its_job_runs_is_queued(self, bench):
        bench.feed()
        bench.add_job()
        show(bench.watches.leaders, BOUND)
        hide(bench.watches.leaders, BOUND)
        assert bench.queue.depth() == {0: 1}
