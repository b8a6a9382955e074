"""The pods of a Job are read only where one may be misplaced, and misplaced ones are marked and deleted."""

import asyncio
import itertools

import msgspec
import pytest

from api import keys
from controllers.placement.controller import LAST_CHECK, RELABEL_PAUSE, JobRequest
from dev.simulator.storage import Scope, Watcher
from kube.transport import Request, Response
from tests.support.model.faults import Answer
from tests.support.model.placement_bench import BOUND, JOB, NEXT, REQUEST, Bench, job_of
from tests.support.objects.placement import RACK, hide, leader_of, moment, node_of, show

pytestmark = pytest.mark.looptime


@pytest.fixture
async def bench() -> Bench:
    return Bench()


class TestRepair:
    async def test_no_pods_are_read_for_a_job_that_is_new(self, bench):
        bench.feed()
        bench.add_job()
        bench.add_waiting(1, 2)
        show(bench.watches.leaders, leader_of())
        await bench.until_idle()
        show(bench.watches.leaders, BOUND)
        await bench.until_idle()
        bench.add_job(active=4)
        show(bench.watches.leaders, BOUND)
        await bench.until_idle()
        assert bench.api.lists == []

    async def test_they_are_read_once_for_a_job_that_ran_before_this_process(self, bench):
        bench.add_job()
        show(bench.watches.leaders, BOUND)
        bench.feed()
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]
        for _ in range(3):
            show(bench.watches.leaders, BOUND)
            await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]

    @pytest.mark.parametrize(
        ("active", "annotations"),
        [
            (3, {keys.JOBSET_NAME: "js"}),
            (3, {keys.JOBSET_NAME: "js", keys.EXCLUSIVE_TOPOLOGY: RACK, keys.NODE_SELECTOR_STRATEGY: "true"}),
            (1, {}),
        ],
        ids=["ordinary", "node-selector strategy", "of one pod, the leader"],
    )
    async def test_no_pods_are_read_for_other_jobs(self, bench, active, annotations):
        bench.add_job(active=active, **annotations)
        bench.feed()
        assert bench.remembered() == {}

    async def test_misplaced_followers_are_marked_and_deleted(self, bench):
        bench.add_job()
        bench.add_pod(0, spec={"nodeName": "n1"})
        bench.add_pod(1, spec={"nodeName": "n1"})
        bench.add_pod(2, spec={"nodeName": "n2"})
        bench.add_pod(3, spec={"nodeSelector": {RACK: "r2"}})
        bench.add_pod(4, spec={"nodeName": "n2"}, meta={"labels": {keys.JOB_UID: "another"}})
        conditions: list[dict] = []
        watcher = Watcher(Scope(), lambda event: conditions.extend(event.item.body()["status"].get("conditions", ())))
        bench.api.storage["pods"].watch(watcher)
        show(bench.watches.leaders, BOUND)
        bench.feed()
        await bench.until_idle()
        gone = [f"{JOB}-2-abcde", f"{JOB}-3-abcde"]
        assert (sorted(bench.deleted()), sorted(bench.marked())) == (gone, gone)
        for name in gone:
            assert [verb for verb, what, _ in bench.api.writes if what.startswith(name)] == ["patch", "delete"]
        assert conditions[0] == {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "ExclusivePlacementViolation",
            "message": "Pod violated JobSet exclusive placement policy",
            "lastTransitionTime": conditions[0]["lastTransitionTime"],
        }
        assert conditions[0]["lastTransitionTime"].startswith("2026-01-01T00:00:0")
        policies = [body.get("propagationPolicy") for verb, _, body in bench.api.writes if verb == "delete"]
        assert policies == ["Background"] * 2

    async def test_a_new_pod_of_that_name_is_not_deleted(self, bench):
        bench.add_job()
        bench.add_pod(2, spec={"nodeName": "n2"})
        show(bench.watches.leaders, BOUND)
        bench.feed()
        page = bench.api._page

        def swapped(query: dict[str, str]) -> Response:
            answer = page(query)
            bench.api.drop("pods", f"{JOB}-2-abcde")
            bench.add_pod(2, meta={"uid": "the-next"}, spec={"nodeName": "n1"})
            return answer

        bench.api._page = swapped
        with pytest.raises(ExceptionGroup):
            await bench.until_idle()
        assert bench.pod(2)["metadata"]["uid"] == "the-next"
        assert bench.pod(2).get("status", {}) == {}

    async def test_a_new_pod_of_that_name_after_the_mark_is_not_deleted(self, bench):
        bench.add_job()
        bench.add_pod(2, spec={"nodeName": "n2"})
        show(bench.watches.leaders, BOUND)
        bench.feed()

        def replaced(request: Request, _: Response) -> None:
            if request.path.endswith("/status"):
                bench.api.drop("pods", f"{JOB}-2-abcde")
                bench.add_pod(2, meta={"uid": "the-next"}, spec={"nodeName": "n1"})

        bench.transport.after_write = replaced
        with pytest.raises(ExceptionGroup):
            await bench.until_idle()
        assert bench.pod(2)["metadata"]["uid"] == "the-next"

    async def test_one_that_is_gone_before_it_is_marked_is_no_failure(self, bench):
        bench.add_job()
        bench.add_pod(2, spec={"nodeName": "n2"})
        show(bench.watches.leaders, BOUND)
        bench.feed()
        bench.transport.inject(Answer(404), verb="patch")
        await bench.until_idle()
        assert bench.deleted() == []
        assert bench.remembered() == {}

    async def test_a_refusal_brings_the_next_look(self, bench):
        bench.add_job()
        bench.add_pod(2, spec={"nodeName": "n2"})
        show(bench.watches.leaders, BOUND)
        bench.feed()
        bench.transport.inject(Answer(403), verb="patch", path="/status")
        with pytest.raises(ExceptionGroup):
            await bench.reconcile()
        assert bench.deleted() == [], "it is marked before it is deleted, or it is not deleted"
        await bench.reconcile()
        assert bench.deleted() == [f"{JOB}-2-abcde"]
        assert len(bench.api.lists) == 2

    async def test_all_pages_are_read(self, bench):
        bench.add_job()
        for index in range(1, 1202):
            bench.add_pod(index, spec={"nodeName": "n1"})
        bench.add_pod(1202, spec={"nodeName": "n2"})
        show(bench.watches.leaders, BOUND)
        bench.feed()
        await bench.until_idle()
        assert bench.deleted() == [f"{JOB}-1202-abcde"]
        assert len(bench.api.lists) == 3

    async def test_no_pods_are_read_while_the_domain_is_unknown(self, bench):
        bench.add_job()
        bench.add_pod(2, spec={"nodeName": "n2"})
        show(bench.watches.leaders, leader_of(node="late"))
        bench.feed()
        await bench.until_idle()
        assert bench.api.lists == []
        show(bench.watches.nodes, node_of("late", rack="r1"))
        await bench.reconcile()
        assert bench.deleted() == [f"{JOB}-2-abcde"], "and as soon as it is known"

    @pytest.mark.parametrize("way", ["deleted", "ends, then deleted", "ends", "ends late"])
    async def test_once_after_a_leader_that_had_led_is_gone(self, bench, way):
        bench.feed()
        bench.add_job()
        show(bench.watches.leaders, BOUND)
        await bench.until_idle()
        bench.add_pod(1, spec={"nodeName": "n1"})
        ending = leader_of(node="n1", is_live=False)
        if way != "deleted":
            show(bench.watches.leaders, ending)
        if way in {"deleted", "ends, then deleted"}:
            hide(bench.watches.leaders, ending)
        await bench.until_idle()
        assert bench.api.lists == [], "where the followers belong is not known yet"
        show(bench.watches.leaders, leader_of(name=NEXT.name))
        await bench.until_idle()
        show(bench.watches.leaders, NEXT)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]
        assert bench.deleted() == [f"{JOB}-1-abcde"]
        if way == "ends late":
            hide(bench.watches.leaders, ending)
        show(bench.watches.leaders, NEXT)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid], "once"
        await asyncio.sleep(LAST_CHECK - 1)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]
        bench.add_pod(2, spec={"nodeSelector": {RACK: "r1"}})
        await asyncio.sleep(2)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid] * 2, "and when every replica must have noticed"
        assert bench.deleted()[1:] == [f"{JOB}-2-abcde"]
        await asyncio.sleep(3 * LAST_CHECK)
        await bench.until_idle()
        assert len(bench.api.lists) == 2
        assert bench.remembered() == {}

    async def test_a_job_that_is_suspended_is_looked_at_once(self, bench):
        """All its pods go; no pod is moved before it is resumed."""
        bench.feed()
        bench.add_job()
        show(bench.watches.leaders, BOUND)
        show(bench.jobs, job_of(suspend=True))
        hide(bench.watches.leaders, BOUND)
        show(bench.jobs, job_of())
        show(bench.watches.leaders, NEXT)
        await bench.until_idle()
        await asyncio.sleep(2 * LAST_CHECK)
        await bench.until_idle()
        assert bench.api.lists == [REQUEST.uid]

    async def test_a_leader_that_has_succeeded_is_no_loss(self, bench):
        bench.feed()
        bench.add_job()
        show(bench.watches.leaders, BOUND)
        done = leader_of(node="n1", is_live=False, succeeded=True)
        show(bench.watches.leaders, done)
        hide(bench.watches.leaders, done)
        assert bench.remembered() == {}

    async def test_a_leader_that_was_never_bound_has_misplaced_no_pod(self, bench):
        bench.feed()
        bench.add_job()
        show(bench.watches.leaders, leader_of())
        hide(bench.watches.leaders, leader_of())
        show(bench.watches.leaders, NEXT)
        await bench.until_idle()
        assert bench.api.lists == []

    @pytest.mark.parametrize("gone", ["deleted", "deleting", "another"])
    async def test_a_leader_whose_job_is_gone_is_forgotten(self, bench, gone):
        bench.feed()
        if gone == "deleting":
            job = job_of()
            show(
                bench.jobs,
                msgspec.structs.replace(
                    job, metadata=msgspec.structs.replace(job.metadata, deletion_timestamp=moment())
                ),
            )
        elif gone == "another":
            show(bench.jobs, job_of(uid="uid-another"))
        show(bench.watches.leaders, BOUND)
        hide(bench.watches.leaders, BOUND)
        assert bench.remembered() == {}

    async def test_what_is_remembered_goes_with_the_job(self, bench):
        bench.add_job()
        bench.feed()
        assert bench.remembered()
        hide(bench.jobs, job_of())
        assert bench.remembered() == {}

    async def test_another_cause_during_a_look_brings_another_look(self, bench):
        bench.add_job()
        show(bench.watches.leaders, BOUND)
        bench.feed()
        page = bench.api._page

        def relabelled(query: dict[str, str]) -> Response:
            bench.api._page = page
            show(bench.watches.nodes, node_of("n1", rack="r9"))
            return page(query)

        bench.api._page = relabelled
        await bench.reconcile()
        await asyncio.sleep(RELABEL_PAUSE + 1)
        await bench.reconcile()
        assert len(bench.api.lists) == 2

    async def test_a_leader_that_is_lost_during_a_look_brings_another_look_at_once(self, bench):
        bench.add_job()
        bench.add_pod(1, spec={"nodeName": "n1"})
        show(bench.watches.leaders, BOUND)
        bench.feed()
        page = bench.api._page

        def lost(query: dict[str, str]) -> Response:
            bench.api._page = page
            hide(bench.watches.leaders, BOUND)
            show(bench.watches.leaders, NEXT)
            return page(query)

        bench.api._page = lost
        await bench.until_idle()
        assert len(bench.api.lists) == 2
        assert bench.deleted() == [f"{JOB}-1-abcde"]


class TestManyAtOnce:
    """For each list the API server goes through all pods of the namespace."""

    def begun(self, bench: Bench, count: int) -> list[JobRequest]:
        """Jobs that ran before this process, each with a misplaced follower (1) and one that is where it belongs."""
        requests = []
        for number in range(count):
            job = f"js-w-{number}"
            bench.add_job(job)
            bench.add_pod(1, job=job, spec={"nodeName": "n2"})
            bench.add_pod(2, job=job, spec={"nodeName": "n1"})
            show(bench.watches.leaders, leader_of(job, node="n1"))
            requests.append(JobRequest("ns", job, f"uid-{job}"))
        bench.feed()
        return requests

    def refuse(self, bench: Bench, number: int) -> None:
        """The list of that number."""
        lists = itertools.count(1)
        bench.transport.choose = lambda call: Answer(403) if call.verb == "list" and next(lists) == number else None

    async def looked_at(self, bench: Bench, requests: list[JobRequest]) -> list[BaseException]:
        """What they failed with."""
        outcomes = await asyncio.gather(*map(bench.reconciler.reconcile, requests), return_exceptions=True)
        return [outcome for outcome in outcomes if isinstance(outcome, BaseException)]

    @pytest.mark.parametrize(("jobs", "lists"), [(1, 1), (2, 2), (51, 2), (52, 3), (120, 4)])
    async def test_jobs_that_are_looked_at_together_share_lists(self, bench, jobs, lists):
        """The first one does not wait; those that come while it reads are read together, fifty at a time."""
        assert await self.looked_at(bench, self.begun(bench, jobs)) == []
        assert len(bench.api.lists) == lists
        assert sorted(bench.deleted()) == sorted(f"js-w-{number}-1-abcde" for number in range(jobs))
        assert bench.remembered() == {}

    async def test_a_list_that_is_refused_is_one_jobs_failure(self, bench):
        requests = self.begun(bench, 10)
        self.refuse(bench, 2)
        [failure] = await self.looked_at(bench, requests)
        assert "injected" in str(failure)
        assert len(bench.deleted()) == 9
        [failed] = bench.remembered()
        assert await self.looked_at(bench, [failed]) == []
        assert len(bench.deleted()) == 10

    async def test_a_cancelled_look_does_not_hold_up_others(self, bench):
        requests = self.begun(bench, 10)
        tasks = [asyncio.create_task(bench.reconciler.reconcile(request)) for request in requests]
        await asyncio.sleep(0)
        tasks[0].cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(ended[0], asyncio.CancelledError)
        assert len(bench.deleted()) == 9

    async def test_what_half_a_list_found_is_not_found_twice(self, bench):
        """A list that fails on its second page is read again by the next Job."""
        requests = self.begun(bench, 3)
        for index in range(3, 600):
            bench.add_pod(index, job="js-w-2", spec={"nodeName": "n1"})
        self.refuse(bench, 3)
        assert len(await self.looked_at(bench, requests)) == 1
        assert sorted(bench.deleted()) == ["js-w-0-1-abcde", "js-w-2-1-abcde"]
        assert len(bench.marked()) == 2

    async def test_a_job_is_read_after_it_was_asked_about(self, bench):
        """Not by a list that had begun before: what it says of that Job may be older than the reason to look."""
        first, second = self.begun(bench, 2)
        page = bench.api._page

        def meanwhile(query: dict[str, str]) -> Response:
            bench.api._page = page
            answer = page(query)
            bench.add_pod(3, job=second.job, spec={"nodeName": "n2"})
            return answer

        bench.api._page = meanwhile
        assert await self.looked_at(bench, [first, second]) == []
        assert f"{second.job}-3-abcde" in bench.deleted()
