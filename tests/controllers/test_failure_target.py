"""failOn: whether a Job counts as failed at its FailureTarget condition, or when it has ended."""

import pytest

from tests.support.model.lives import counts_of, started
from tests.support.model.world import World
from tests.support.objects.stored_sets import rjob


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

    def test_the_earliest_failure_decides_by_the_time_of_its_target(self):
        world = self.world("FailureTarget")
        world.seconds = 3
        world.doom("js-workers-1")
        world.seconds = 4
        world.fail("js-workers-0")
        world.settle()
        assert world.status.attempt_history[0].failed_job == "js-workers-1"

    def test_it_may_be_restarted_alone(self):
        world = self.world("FailureTarget", rules=[{"name": "one", "action": "RestartJob"}])
        world.doom("js-workers-0")
        world.settle()
        assert counts_of(world).job_restarts == (1, 0)
        assert world.live() == ["js-workers-1"]
