"""Restarts of large sets: Jobs deleted many at a time, each created anew when the pods of its earlier attempt are gone.

The model refuses a selector that finds other Jobs than it is meant for, and a Job beside old pods of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from api import keys
from api.features import FeatureGates
from api.meta import NOBODY
from controllers.planning.actions import CreateJob, DeleteJob, DeleteJobs
from controllers.planning.limits import DEFAULT_LIMITS, Limits
from simcluster.selectors import matches
from tests.support.ledger import Ledger
from tests.support.lives import ONE_BY_ONE, of_type, started, suspend
from tests.support.replica import Clockwork, Fault, Replica
from tests.support.stale import Server
from tests.support.world import World, jobset, rjob

RESTARTS = {"maxRestarts": 9}
BLOCKING = {**RESTARTS, "restartStrategy": "BlockingRecreate"}
NAMES = [f"js-workers-{index}" for index in range(12)]


def twelve(**more):
    """Twelve Jobs that run."""
    return started(rjob("workers", 12), **{"failurePolicy": RESTARTS, **more})


def fail(world: World, name: str = "js-workers-0"):
    """A Job fails, the restart is counted; gives the plan that deletes."""
    world.fail(name)
    assert world.step().status.restarts == world.status.restarts
    return world.step()


def created(plan) -> list[str]:
    return [action.name for action in of_type(plan, CreateJob)]


class TestDeletion:
    def test_thirty_in_one_call(self):
        world = started(rjob("a", 40), rjob("b", 35), failurePolicy=RESTARTS)
        plan = fail(world, "js-b-3")
        batches = of_type(plan, DeleteJobs)
        assert [len(batch.jobs) for batch in batches] == [30, 30, 15]
        assert of_type(plan, DeleteJob) == []
        assert plan.follow_pods
        assert world.jobs == {}, "the model has checked that each selector finds its Jobs and no other"
        other = {
            keys.JOBSET_NAME: "js",
            keys.JOBSET_UID: "other",
            keys.RESTART_ATTEMPT: "0",
            keys.JOB_GLOBAL_INDEX: "3",
        }
        assert not any(matches(batch.selector, other) for batch in batches)

    def test_the_same_job_of_the_next_attempt_is_not_found(self):
        """Whoever led before may have deleted this one already, and created the next under its name."""
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
    def test_what_a_selector_does_not_find_or_does_not_end_goes_alone(self, change):
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

    def test_while_somebody_else_has_jobs_like_ours_nothing_is_deleted_by_selector(self):
        world = twelve()
        world.foreign = {"js-copy": NOBODY}
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


class TestCreation:
    def test_each_job_waits_for_its_own_pods(self):
        world = twelve()
        fail(world)
        assert created(world.step()) == ["js-workers-0"], "the failed one had no pods left"
        world.end_pods("js-workers-3", "js-workers-8")
        assert created(world.step()) == ["js-workers-3", "js-workers-8"]
        world.settle()
        assert len(world.live()) == 3
        world.end_pods()
        world.settle()
        assert world.live() == sorted(NAMES)
        assert not world.plan().follow_pods

    def test_nothing_is_created_before_it_is_known_which_pods_are_left(self):
        world = twelve()
        fail(world)
        world.end_pods()
        world.followed = None
        plan = world.plan()
        assert plan.actions == ()
        assert plan.follow_pods
        world.step()
        assert created(world.plan()) == NAMES

    def test_a_missing_job_of_a_first_attempt_asks_for_nothing(self):
        world = twelve()
        del world.jobs["js-workers-5"]
        plan = world.step()
        assert created(plan) == ["js-workers-5"]
        assert not plan.follow_pods

    def test_blocking_recreate_waits_for_the_last_pod_of_all(self):
        world = twelve(failurePolicy=BLOCKING)
        fail(world)
        world.end_pods(*NAMES[1:11])
        world.settle()
        assert world.live() == []
        world.end_pods()
        world.settle()
        assert world.live() == sorted(NAMES)

    def test_blocking_recreate_does_not_wait_for_a_job_that_is_left_alone(self):
        world = twelve(failurePolicy=BLOCKING)
        world.jobs["js-workers-7"]["metadata"]["labels"][keys.RESTART_ATTEMPT] = "broken"
        fail(world)
        world.old_pods = {"js-workers-7"}
        world.settle()
        assert len(world.live()) == 12
        assert world.jobs["js-workers-7"]["metadata"]["labels"][keys.RESTART_ATTEMPT] == "broken"

    def test_a_stage_waits_for_its_own_old_pods_alone(self):
        order = {"startupPolicyOrder": "InOrder"}
        world = started(rjob("a", 6), rjob("b", 6), failurePolicy=RESTARTS, startupPolicy=order)
        fail(world, "js-a-0")
        world.end_pods(*(f"js-a-{index}" for index in range(1, 6)))
        world.settle()
        assert world.live() == [f"js-a-{index}" for index in range(6)]
        world.run()
        world.settle()
        assert len(world.live()) == 6, "the pods of the second stage have not ended"
        world.end_pods()
        world.settle()
        assert len(world.live()) == 12

    def test_completed_jobs_of_the_attempt_are_not_missed(self):
        world = twelve()
        fail(world)
        world.end_pods()
        world.settle()
        world.run()
        for name in NAMES[:4]:
            world.finish(name)
        world.settle()
        for name in NAMES[:4]:
            world.remove(name)
        world.settle()
        assert world.live() == sorted(NAMES[4:])
        world.followed = None
        plan = world.plan()
        assert plan.actions == ()
        assert not plan.follow_pods, "a new process need not look"

    def test_a_restart_in_the_middle_of_another(self):
        world = twelve()
        fail(world)
        world.end_pods(*NAMES[1:6])
        world.settle()
        world.run()
        plan = fail(world, "js-workers-2")
        assert [len(batch.jobs) for batch in of_type(plan, DeleteJobs)] == [6]
        assert world.followed == 2
        assert created(world.step()) == ["js-workers-2"]
        assert world.old_pods == set(NAMES) - {"js-workers-2"}
        world.end_pods()
        world.settle()
        assert {job["metadata"]["labels"][keys.RESTART_ATTEMPT] for job in world.jobs.values()} == {"2"}
        assert len(world.live()) == 12

    def test_a_set_suspended_meanwhile_has_its_jobs_when_the_pods_are_gone(self):
        world = twelve()
        fail(world)
        suspend(world)
        assert world.live() == ["js-workers-0"]
        world.end_pods()
        world.settle()
        assert world.live() == sorted(NAMES)
        assert all(job["spec"]["suspend"] for job in world.jobs.values())

    def test_resumed_while_old_pods_are_left(self):
        world = twelve()
        world.create_suspended = False
        fail(world)
        suspend(world)
        world.edit(suspend=False)
        world.settle()
        assert world.live() == ["js-workers-0"]
        world.end_pods("js-workers-4")
        world.settle()
        assert world.live() == ["js-workers-0", "js-workers-4"]


class TestFollowing:
    def test_a_late_job_of_an_earlier_attempt_is_followed_too(self):
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

    def test_a_set_that_has_ended_is_not_followed(self):
        world = twelve(failurePolicy={"maxRestarts": 1})
        fail(world)
        world.end_pods()
        world.settle()
        world.fail("js-workers-0")
        world.settle()
        world.collect()
        assert world.status.terminal_state == "Failed"
        world.followed = None
        assert not world.plan().follow_pods

    def test_a_job_that_is_restarted_alone_asks_for_nothing(self):
        world = twelve(gates={"RestartJob": True}, failurePolicy={**ONE_BY_ONE, "maxRestarts": 9})
        world.js = replace(world.js, status=replace(world.js.status, restarts=1))
        for job in world.jobs.values():
            job["metadata"]["labels"][keys.RESTART_ATTEMPT] = "1"
        world.followed = 1
        world.fail("js-workers-3")
        world.step()
        plan = world.step()
        assert [action.name for action in of_type(plan, DeleteJob)] == ["js-workers-3"]
        assert of_type(plan, DeleteJobs) == []
        assert not plan.follow_pods


class TestSizes:
    GATE = {"ElasticJobSet": True}

    def test_a_set_that_shrinks_below_ten_still_waits(self):
        world = twelve(gates=self.GATE)
        fail(world)
        world.edit(replicated_jobs=jobset(rjob("workers", 5)).spec.replicated_jobs)
        world.settle()
        assert world.live() == ["js-workers-0"]
        world.end_pods(*NAMES[1:5])
        world.settle()
        assert world.live() == NAMES[:5]

    def test_a_set_that_shrinks_and_grows_again_waits_for_the_pods_of_what_it_had(self):
        world = twelve(gates=self.GATE)
        fail(world)
        world.edit(replicated_jobs=jobset(rjob("workers", 11)).spec.replicated_jobs)
        world.end_pods(*NAMES[1:11])
        world.settle()
        assert world.live() == sorted(NAMES[:11])
        world.edit(replicated_jobs=jobset(rjob("workers", 12)).spec.replicated_jobs)
        world.settle()
        assert world.live() == sorted(NAMES[:11])
        world.end_pods()
        world.settle()
        assert world.live() == sorted(NAMES)

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

    def test_pods_of_a_job_in_no_group_hold_up_nobody_but_it(self):
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


EACH_ALONE = Limits(batch_deletion_from=1, jobs_per_deletion=1)


def test_what_is_worth_it():
    assert (DEFAULT_LIMITS.batch_deletion_from, DEFAULT_LIMITS.jobs_per_deletion) == (10, 30)


@pytest.fixture
def process() -> Iterator[Replica]:
    """A process, real but for its API server, with a set of three Jobs that counts as large and is about to restart.

    The first Job has failed. The Job controller has not come to the others yet, so that they have no pods.
    """
    gates = FeatureGates({})
    ledger = Ledger(gates, create_suspended=True)
    server = Server(ledger)
    ledger.spec_of = lambda: server.jobset
    with (
        contextlib.closing(Clockwork(lambda: float(server.seconds))) as loop,
    ):
        server.new_jobset(jobset(rjob("a", 3, parallelism=1, completions=1), failurePolicy=RESTARTS))
        replica = Replica(server, loop, gates, create_suspended=True, limits=EACH_ALONE)
        replica.reconcile()
        server.run("js-a-0", ready=True)
        server.finish("js-a-0", "Failed")
        server.end_pods(server.job("js-a-0").metadata.uid)
        replica.catch_up()
        replica.reconcile()
        assert server.jobset.status.restarts == 1
        yield replica


class TestViewsThatLag:
    """The ledger holds every creation to what pods there really are."""

    def comes_up(self, process: Replica):
        for _ in range(5):
            for uid in process.server.orphans():
                process.server.end_pods(uid)
            process.catch_up()
            process.reconcile()
        assert sorted(process.server.jobs) == ["js-a-0", "js-a-1", "js-a-2"]

    def test_pods_that_start_while_their_job_is_being_deleted(self, process):
        process.reconcile(Fault("meanwhile", 1), lambda: process.server.run("js-a-1", ready=True))
        assert process.server.jobs == {}
        process.deliver("jobs")
        process.old_pods.arrive(0)
        process.reconcile()
        assert sorted(process.server.jobs) == ["js-a-0", "js-a-2"]
        self.comes_up(process)

    def test_pods_that_start_between_two_deletions(self, process):
        process.reconcile(Fault("refuse", 1))
        assert list(process.server.jobs) == ["js-a-1"]
        process.old_pods.arrive()
        process.server.run("js-a-1", ready=True)
        process.deliver("jobs")
        process.reconcile()
        assert "js-a-1" not in process.server.jobs
        process.old_pods.arrive(0)
        process.deliver("jobs")
        process.reconcile()
        assert "js-a-1" not in process.server.jobs
        self.comes_up(process)

    def test_a_deletion_whose_answer_is_lost(self, process):
        process.server.run("js-a-1", ready=True)
        process.reconcile(Fault("lose answer", 1))
        process.reconcile()
        self.comes_up(process)

    def test_a_new_process_asks_again(self, process):
        process.server.run("js-a-1", ready=True)
        process.catch_up()
        process.reconcile()
        fresh = Replica(process.server, process.loop, FeatureGates({}), create_suspended=True, limits=EACH_ALONE)
        fresh.reconcile()
        assert process.server.jobs == {}, "nothing before the first list"
        fresh.old_pods.arrive()
        fresh.reconcile()
        assert sorted(process.server.jobs) == ["js-a-0", "js-a-2"]
        self.comes_up(fresh)
