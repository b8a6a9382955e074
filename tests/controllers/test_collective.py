"""Restarts of large sets: Jobs are deleted many at a time.

The model refuses a selector that finds other Jobs than it is meant for.
"""

import pytest

from api import keys
from controllers.planning.actions import DeleteJob, DeleteJobs
from controllers.planning.limits import DEFAULT_LIMITS
from dev.simulator.selectors import matches
from kube.model.meta import NO_OWNER
from tests.support.model.lives import of_type, started
from tests.support.objects.large_sets import NAMES, RESTARTS, created, fail, twelve
from tests.support.objects.stored_sets import rjob


class TestDeletion:
    def test_the_same_job_of_the_next_attempt_is_not_found(self):
        """The leader before may have deleted this one already, and created the next under its name."""
        world = twelve()
        labels = world.jobs["js-workers-4"]["metadata"]["labels"]
        [batch] = of_type(fail(world), DeleteJobs)
        assert matches(batch.selector, labels)
        assert not matches(batch.selector, {**labels, keys.RESTART_ATTEMPT: "1"})

    def test_nine_jobs_are_deleted_one_by_one(self):
        world = started(rjob("workers", 9), failurePolicy=RESTARTS)
        plan = fail(world)
        assert len(of_type(plan, DeleteJob)) == 9
        assert of_type(plan, DeleteJobs) == []
        assert not plan.follow_pods
        world.collect()
        assert len(created(world.step())) == 9

    @pytest.mark.parametrize(
        "change",
        [
            {"labels": {keys.JOB_GLOBAL_INDEX: "7"}},
            {"labels": {keys.JOBSET_UID: "x"}},
            {"labels": {keys.JOBSET_NAME: "x"}},
            {"labels": {keys.RESTART_ATTEMPT: "00"}},
            {"finalizers": ["example.com/mine"]},
        ],
        ids=str,
    )
    def test_jobs_that_a_selector_does_not_match_or_end_are_deleted_one_by_one(self, change):
        world = twelve()
        world.fail("js-workers-0")
        world.step()
        meta = world.jobs["js-workers-4"]["metadata"]
        meta.update({**change, "labels": {**meta["labels"], **change.get("labels", {})}})
        plan = world.step()
        assert [action.name for action in of_type(plan, DeleteJob)] == ["js-workers-4"]
        [batch] = of_type(plan, DeleteJobs)
        assert len(batch.jobs) == 11
        world.end_pods()
        world.settle()
        alone = "deletionTimestamp" in world.jobs["js-workers-4"]["metadata"]
        assert len(world.live()) == (11 if alone else 12), "its name is taken until it is gone"
        world.collect()
        world.settle()
        assert world.live() == sorted(NAMES)

    def test_one_in_deletion_already_is_not_deleted_again(self):
        world = twelve()
        world.fail("js-workers-0")
        world.step()
        world.jobs["js-workers-4"]["metadata"]["deletionTimestamp"] = world.now
        plan = world.step()
        assert of_type(plan, DeleteJob) == []
        assert [len(batch.jobs) for batch in of_type(plan, DeleteJobs)] == [11]

    def test_beside_foreign_jobs_with_our_labels_nothing_is_deleted_by_selector(self):
        world = twelve()
        world.foreign = {"js-copy": NO_OWNER}
        plan = fail(world)
        assert of_type(plan, DeleteJobs) == []
        assert len(of_type(plan, DeleteJob)) == 12
        world.collect()
        world.settle()
        assert world.live() == sorted(NAMES)

    def test_attempts_are_not_mixed(self):
        world = twelve()
        fail(world)
        world.end_pods("js-workers-1", "js-workers-2")
        world.settle()
        world.fail("js-workers-0")
        world.step()
        world.jobs["js-workers-1"]["metadata"]["labels"][keys.RESTART_ATTEMPT] = "0"
        plan = world.step()
        assert [len(batch.jobs) for batch in of_type(plan, DeleteJobs)] == [1, 2]

    def test_a_set_that_ended_deletes_what_runs_one_by_one(self):
        world = twelve(failurePolicy={"maxRestarts": 0})
        world.fail("js-workers-0")
        world.settle()
        plan = world.plans[-2]
        assert world.status.terminal_state == "Failed"
        assert of_type(plan, DeleteJobs) == []
        assert len(of_type(plan, DeleteJob)) == 11


class TestFollowing:
    def test_pods_of_a_late_job_of_an_earlier_attempt_are_watched_too(self):
        """A process that is no more had asked for it."""
        world = twelve()
        old = world.jobs["js-workers-11"]
        fail(world)
        world.end_pods()
        world.settle()
        world.jobs["js-workers-11"] = old
        plan = world.step()
        assert [batch.jobs for batch in of_type(plan, DeleteJobs)] == [(("js-workers-11", old["metadata"]["uid"]),)]
        assert plan.follow_pods
        world.settle()
        assert len(world.live()) == 11
        world.end_pods()
        world.settle()
        assert world.live() == sorted(NAMES)


def test_limits_of_collective_deletion():
    assert (DEFAULT_LIMITS.batch_deletion_from, DEFAULT_LIMITS.jobs_per_deletion) == (10, 30)
