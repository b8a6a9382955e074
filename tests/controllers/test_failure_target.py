"""failOn: whether a Job counts as failed at its FailureTarget condition, or when it has ended."""

from __future__ import annotations

import pytest

from kube.store import ChangeKind
from tests.support.model.blind import Blind
from tests.support.model.lives import counts_of, started
from tests.support.model.memory_api import MemoryApi
from tests.support.model.world import World
from tests.support.objects.exit_codes import BY_POLICY, ENDED
from tests.support.objects.stored_sets import jobset, rjob


class TestFailureTarget:
    """failOn: a doomed Job counts at once, or not before it is over."""

    def world(self, fail_on: str | None, **policy) -> World:
        extra = {} if fail_on is None else {"failOn": fail_on}
        return started(
            rjob("workers", 2), gates={"RestartJob": True}, failurePolicy={"maxRestarts": 1, **extra, **policy}
        )

    @pytest.mark.parametrize("fail_on", [None, "", "JobFailed"])
    def test_unless_asked_for_the_last_pod_is_waited_for(self, fail_on):
        world = self.world(fail_on)
        world.doom("js-workers-0")
        assert world.step().actions == ()
        assert world.counts()["active"] == 2
        assert world.status.restarts == 0
        world.fail("js-workers-0")
        world.settle()
        assert world.status.restarts == 1

    def test_reason_message_and_time_are_those_of_the_target(self):
        rules_ = [
            {
                "name": "x",
                "action": "FailJobSet",
                "onJobFailureReasons": [BY_POLICY],
                "onJobFailureMessagePatterns": ["bad"],
            }
        ]
        world = self.world("FailureTarget", rules=rules_)
        world.seconds = 5
        world.doom("js-workers-1", reason=BY_POLICY, message="it is bad")
        world.doom("js-workers-0", reason="Other")
        world.settle()
        assert world.condition("Failed")[2].endswith("(first failed job: js-workers-1)")
        assert world.status.attempt_history[0].message == "PodFailurePolicy: it is bad"

    def test_the_earliest_failure_decides_by_the_time_of_its_target(self):
        world = self.world("FailureTarget")
        world.seconds = 3
        world.doom("js-workers-1")
        world.seconds = 4
        world.fail("js-workers-0")
        world.settle()
        assert world.status.attempt_history[0].failed_job == "js-workers-1"

    def test_the_doomed_job_is_deleted_for_the_restart_though_its_pods_still_end(self):
        world = self.world("FailureTarget")
        world.doom("js-workers-0")
        world.settle()
        assert world.status.restarts == 1
        assert world.live() == []
        world.collect()
        world.settle()
        assert world.live() == ["js-workers-0", "js-workers-1"]

    def test_at_the_end_it_ends_by_itself_and_what_runs_is_deleted(self):
        world = self.world("FailureTarget", maxRestarts=0)
        world.doom("js-workers-0")
        world.settle()
        assert world.status.terminal_state == "Failed"
        assert world.live() == ["js-workers-0"]
        world.fail("js-workers-0")
        world.settle()
        assert world.live() == ["js-workers-0"]

    def test_it_may_be_restarted_alone(self):
        world = self.world("FailureTarget", rules=[{"name": "one", "action": "RestartJob"}])
        world.doom("js-workers-0")
        world.settle()
        assert counts_of(world).job_restarts == (1, 0)
        assert world.live() == ["js-workers-1"]

    @pytest.mark.parametrize(("fail_on", "restarts"), [("FailureTarget", 1), ("JobFailed", 0)])
    async def test_one_that_is_deleted_before_the_decision_is_remembered_where_it_counts(self, fail_on, restarts):
        blind = Blind(MemoryApi(), jobset(rjob("workers"), failurePolicy={"maxRestarts": 3, "failOn": fail_on}))
        await blind.reconcile()
        doomed = {"conditions": [{**ENDED["conditions"][0], "type": "FailureTarget"}]}
        blind.change_job("js-workers-0", status=doomed)
        job = blind.jobs.get("ns", "js-workers-0")
        blind.reconciler._job_changed(ChangeKind.DELETED, job, None)
        blind.jobs.overlay_deleted("ns", "js-workers-0", job.metadata.uid)
        blind.api.drop("jobs", "js-workers-0")
        await blind.reconcile()
        status = blind.api.objects("jobsets")["ns", "js"]["status"]
        assert status["restarts"] == restarts
        await blind.reconcile()
        assert blind.jobs.get("ns", "js-workers-0") is not None, "it runs again in either case"
