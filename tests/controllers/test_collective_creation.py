"""Restarts of large sets: each Job is created again when the pods of its earlier attempt are gone.

The model refuses a Job beside old pods of its own.
"""

from copy import deepcopy

from api import keys
from controllers.planning.actions import CreateJob, DeleteJob, DeleteJobs
from tests.support.model.lives import of_type, started
from tests.support.objects.large_sets import RESTARTS, created, fail, twelve
from tests.support.objects.stored_sets import rjob

BLOCKING = {**RESTARTS, "restartStrategy": "BlockingRecreate"}


class TestCreation:
    def test_a_missing_job_of_a_first_attempt_asks_for_nothing(self):
        world = twelve()
        del world.jobs["js-workers-5"]
        plan = world.step()
        assert created(plan) == ["js-workers-5"]
        assert not plan.follow_pods

    def test_blocking_recreate_does_not_wait_for_a_job_that_is_left_alone(self):
        world = twelve(failurePolicy=BLOCKING)
        world.jobs["js-workers-7"]["metadata"]["labels"][keys.RESTART_ATTEMPT] = "broken"
        fail(world)
        world.old_pods = {"js-workers-7": world.jobs["js-workers-7"]["metadata"]["uid"]}
        world.settle()
        assert len(world.live()) == 12
        assert world.jobs["js-workers-7"]["metadata"]["labels"][keys.RESTART_ATTEMPT] == "broken"

    def test_a_broken_job_that_takes_a_name_does_not_hide_the_pods_that_are_left(self):
        world = twelve(failurePolicy=BLOCKING)
        broken = deepcopy(world.jobs["js-workers-7"])
        broken["metadata"]["labels"][keys.RESTART_ATTEMPT] = "broken"
        broken["metadata"]["uid"] = "another"
        fail(world)
        world.jobs["js-workers-7"] = broken
        world.end_pods(*world.old_pods.keys() - {"js-workers-7"})
        world.settle()
        assert world.live() == ["js-workers-7"]
        world.end_pods()
        world.settle()
        assert len(world.live()) == 12


class TestSizes:
    GATE = {"ElasticJobSet": True}

    def test_a_small_set_that_may_change_is_deleted_one_by_one(self):
        world = started(rjob("workers", 3), gates=self.GATE, failurePolicy=RESTARTS)
        plan = fail(world)
        assert len(of_type(plan, DeleteJob)) == 3
        assert of_type(plan, DeleteJobs) == []


class TestGangs:
    WHOLE = {"schedulingPolicy": {"gang": {}}}

    def restarted(self, scheduling, *rjobs):
        world = started(*rjobs, failurePolicy=RESTARTS, scheduling=scheduling)
        fail(world, "js-a-0")
        return world

    def test_a_gang_waits_for_the_last_old_pod_of_its_tree(self):
        world = self.restarted(self.WHOLE, rjob("a", 12))
        world.end_pods(*(f"js-a-{index}" for index in range(1, 11)))
        world.settle()
        assert world.live() == []
        world.end_pods()
        world.settle()
        assert len(world.live()) == 12

    def test_other_trees_need_not_wait(self):
        each = {"replicatedJobs": [{"targetReplicatedJobs": ["a"]}, {"targetReplicatedJobs": ["b"]}]}
        world = self.restarted(each, rjob("a", 6), rjob("b", 6))
        world.end_pods(*(f"js-a-{index}" for index in range(1, 6)))
        world.settle()
        assert world.live() == [f"js-a-{index}" for index in range(6)]

    def test_pods_of_a_job_in_no_group_hold_up_only_that_job(self):
        only_a = {"replicatedJobs": [{"targetReplicatedJobs": ["a"]}]}
        world = self.restarted(only_a, rjob("a", 6), rjob("b", 6))
        world.end_pods(*(f"js-a-{index}" for index in range(1, 6)))
        world.settle()
        assert world.live() == [f"js-a-{index}" for index in range(6)]
        world.end_pods()
        world.settle()
        assert len(world.live()) == 12

    def test_no_gang_starts_before_it_is_known_which_pods_are_left(self):
        world = self.restarted(self.WHOLE, rjob("a", 12))
        world.followed = None
        world.end_pods()
        assert of_type(world.plan(), CreateJob) == []
