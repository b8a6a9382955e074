"""spec.executionPolicy: what a plan creates, records and reports, stage by stage."""

from controllers.planning.actions import CreateClaim, CreateJob
from tests.support.model.lives import of_type
from tests.support.model.world import World
from tests.support.objects.stages import INITIALIZERS, TRAINERS, finish, notes, policy, three
from tests.support.objects.stored_sets import jobset, rjob


class TestSucceeded:
    def test_a_release_is_stored_before_anything_of_the_stage_exists(self):
        world = three()
        world.settle()
        world.finish(INITIALIZERS[0])
        world.finish(INITIALIZERS[1])
        decided = world.plan()
        assert decided.status_first
        assert of_type(decided, CreateJob)
        released = {s.name: s.released for s in decided.status.replicated_jobs_status}
        assert released == {"initializer": True, "trainer": True, "post": False}

    def test_a_completed_job_that_is_deleted_does_not_hold_up_the_sequence(self):
        world = three()
        world.settle()
        finish(world, INITIALIZERS[0])
        world.remove(INITIALIZERS[0])
        finish(world, INITIALIZERS[1])
        assert world.live() == [INITIALIZERS[1], *TRAINERS]

    def test_the_first_alone_and_the_rest_together(self):
        world = three(sequential=1)
        world.settle()
        assert world.live() == INITIALIZERS
        finish(world, *INITIALIZERS)
        assert world.live() == [*INITIALIZERS, "js-post-0", *TRAINERS]
        assert world.status.current_stage == "trainer, post (2/2)"
        assert notes(world)[-1] == "stage 2 of 2 is released: trainer, post (3 Jobs)"

    def test_a_set_that_completes_with_a_stage_starts_no_other(self):
        success = {"operator": "All", "targetReplicatedJobs": ["initializer"]}
        world = three(successPolicy=success)
        world.settle()
        finish(world, *INITIALIZERS)
        assert world.status.terminal_state == "Completed"
        assert world.live() == INITIALIZERS
        assert len(notes(world)) == 1


class TestReadyAndActive:
    def test_a_job_that_has_already_succeeded_is_there(self):
        world = three("Active")
        world.settle()
        finish(world, INITIALIZERS[0])
        world.run(INITIALIZERS[1], ready=False)
        world.settle()
        assert world.live() == [*INITIALIZERS, *TRAINERS]


def claims(*names: str) -> list:
    return [{"templates": [{"metadata": {"name": name}, "spec": {}} for name in names]}]


def mounting(*names: str) -> dict:
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    return {"containers": [{"name": "main", "image": "busybox", "volumeMounts": mounts}]}


def test_claims_are_created_with_the_first_stage_that_mounts_them():
    rjobs = rjob("initializer", 1, pod=mounting("data")), rjob("post", 1, pod=mounting("data", "results"))
    world = World(jobset(*rjobs, executionPolicy=policy(), volumeClaimPolicies=claims("data", "results")))
    created = [action.name for action in of_type(world.step(), CreateClaim)]
    assert created == ["data-js"]
    world.settle()
    assert world.claims == {"data-js"}
    finish(world, "js-initializer-0")
    assert world.claims == {"data-js", "results-js"}


def test_a_set_that_is_not_staged_has_none_of_this():
    world = World(jobset(rjob("a", 2), rjob("b", 1), executionPolicy={"executionPolicyOrder": "AnyOrder"}))
    world.settle()
    assert len(world.live()) == 3
    assert world.status.current_stage == ""
    assert [(s.released, s.remaining) for s in world.status.replicated_jobs_status] == [(False, None)] * 2
    assert notes(world) == []
