"""Which events are emitted about Jobs that wait, for which JobSet, and how often."""

import asyncio

import pytest

from api import keys
from controllers.placement.memory import JobRequest
from controllers.placement.plan import NODE_PAUSE, REPORT_AFTER, REPORT_EVERY
from kube.controller import Controller
from tests.support.model.placement_bench import BOUND, JOB, Bench, job_of
from tests.support.objects.placement import follower_of, hide, leader_of, moment, node_of, show

pytestmark = pytest.mark.looptime


@pytest.fixture
async def bench() -> Bench:
    bench = Bench()
    bench.add_job(active=1)
    return bench


class TestEvents:
    async def test_a_leader_gets_a_moment(self, bench):
        show(bench.watches.leaders, leader_of())
        assert await bench.reconcile() == pytest.approx(REPORT_AFTER, abs=0.1)
        assert bench.events == []
        await asyncio.sleep(REPORT_AFTER)
        assert await bench.reconcile() == REPORT_EVERY
        assert len(bench.events) == 1

    async def test_once_a_minute_for_a_jobset_however_many_jobs_wait(self, bench):
        for number in range(30):
            bench.add_job(f"js-w-{number}", active=1)
        show(bench.watches.leaders, *(leader_of(f"js-w-{n}") for n in range(30)))
        bench.feed()
        controller = Controller("placement", bench.queue, bench.reconciler.reconcile, workers=4)
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run())
            await asyncio.sleep(REPORT_AFTER + 5.5 * REPORT_EVERY)
            bench.queue.shutdown()
        assert len(bench.events) == 6
        assert all("29 more of its Jobs wait likewise" in note for *_, note in bench.events)

    async def test_each_jobset_is_reported_on(self, bench):
        await asyncio.sleep(REPORT_AFTER)
        for number in range(3):
            bench.add_job(f"j{number}-w-0", active=1, jobset=f"j{number}")
        show(bench.watches.leaders, *(leader_of(f"j{n}-w-0", jobset=f"j{n}", jobset_uid=f"u{n}") for n in range(3)))
        bench.feed()
        await bench.until_idle()
        assert {regarding.name for regarding, *_ in bench.events} == {"j0", "j1", "j2"}
        assert all("more of its Jobs" not in note for *_, note in bench.events)

    async def test_bound_and_ended_leaders_are_not_reported(self, bench):
        await asyncio.sleep(REPORT_AFTER)
        show(
            bench.watches.leaders,
            leader_of(),
            leader_of("js-w-1", node="n1"),
            leader_of("js-w-2", is_live=False),
            leader_of("js-w-3", jobset_uid="another"),
            leader_of("js-w-4", created=moment(-9)),
            leader_of("js-w-5", job_uid="another", created=moment(-9)),
            leader_of("other-w-0", created=moment(-9)),
        )
        for name, jobset in (("js-w-1", "js"), ("js-w-2", "js"), ("js-w-3", "another"), ("js-w-5", "js")):
            bench.add_job(name, active=1, jobset=jobset)
        bench.add_job("other-w-0", active=1, jobset="other")
        await bench.reconcile()
        assert all("more of its Jobs" not in note for *_, note in bench.events)
        assert len(bench.events) == 1

    async def test_a_pod_that_invents_its_job_is_not_reported_nor_hides_another(self, bench):
        """Labels and owner of a pod are what somebody wrote who may create pods."""
        await asyncio.sleep(REPORT_AFTER)
        invented = leader_of("invented", created=moment(-9))
        show(bench.watches.leaders, invented, leader_of())
        assert (await bench.reconciler.reconcile(JobRequest.from_pod(invented))).requeue_after == REPORT_AFTER
        assert bench.events == []
        await bench.reconcile()
        [(*_, note)] = bench.events
        assert "invented" not in note

    async def test_the_wait_is_over_as_soon_as_there_is_a_domain(self, bench):
        await asyncio.sleep(REPORT_AFTER)
        show(bench.watches.leaders, BOUND)
        assert await bench.reconcile() is None
        assert bench.events == []

    async def test_a_node_that_lacks_the_label_is_reported(self, bench):
        await asyncio.sleep(2 * REPORT_AFTER)
        show(bench.watches.leaders, leader_of(node="bare"))
        await bench.reconcile()
        await asyncio.sleep(2 * REPORT_AFTER)
        await bench.reconcile()
        [(*_, note)] = bench.events
        assert "js-w-0-0-abcde runs on node bare, which has no label rack" in note

    async def test_a_node_that_is_only_seen_later_is_not_reported(self, bench):
        """An autoscaler has made it for the leader a moment ago."""
        await asyncio.sleep(10 * REPORT_AFTER)
        show(bench.watches.leaders, leader_of(node="late"))
        assert await bench.reconcile() == NODE_PAUSE
        show(bench.watches.nodes, node_of("late", asked=("zone",), rack="r5"))
        assert await bench.reconcile() == NODE_PAUSE
        assert bench.events == []

    @pytest.mark.parametrize(("pods", "words"), [(1, "a pod waits"), (3, "3 pods wait")])
    async def test_followers_that_have_no_leader_are_reported(self, bench, pods, words):
        bench.add_waiting(*range(1, pods + 1))
        assert await bench.reconcile() == REPORT_AFTER
        assert bench.events == [], "the Job controller may be making one"
        await asyncio.sleep(REPORT_AFTER)
        assert await bench.reconcile() == REPORT_EVERY
        await asyncio.sleep(1)
        assert await bench.reconcile() == REPORT_EVERY - 1
        [(regarding, kind, reason, note)] = bench.events
        assert (regarding.name, kind, reason) == ("js", "Warning", keys.PLACEMENT_PENDING)
        assert note.startswith(f"{words} for the leader pod of Job {JOB}, which has none")

    async def test_jobs_that_waited_for_a_leader_are_forgotten(self, bench):
        bench.feed()
        bench.add_job()
        bench.add_waiting(1)
        await bench.until_idle()
        hide(bench.watches.followers, follower_of(index=1))
        hide(bench.jobs, job_of())
        await bench.until_idle()
        assert len(bench.reconciler.memories) == 0
