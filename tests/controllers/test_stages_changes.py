"""spec.executionPolicy over failures, suspension and resizing."""

from __future__ import annotations

import msgspec
import pytest

from controllers.planning.actions import CreateJob, PatchJob
from tests.support.model.lives import counts_of, of_type, resume, suspend
from tests.support.model.world import World
from tests.support.objects.stages import ALONE, INITIALIZERS, TRAINERS, finish, notes, three
from tests.support.objects.stored_sets import rjob


class TestFailure:
    def test_a_restart_of_the_set_begins_with_the_first_stage(self):
        world = three(failurePolicy={"maxRestarts": 1})
        world.settle()
        finish(world, *INITIALIZERS)
        world.run()
        world.fail(TRAINERS[0])
        world.step()
        assert {s.name: s.remaining for s in world.status.replicated_jobs_status} == {
            "initializer": 2,
            "trainer": 2,
            "post": 1,
        }
        world.settle()
        noted = {s.name: (s.released, s.remaining) for s in world.status.replicated_jobs_status}
        assert noted == {"initializer": (True, 2), "trainer": (False, 2), "post": (False, 1)}
        world.collect()
        world.settle()
        assert world.live() == INITIALIZERS
        assert world.status.current_stage == "initializer (1/3)"
        finish(world, *INITIALIZERS)
        assert world.live() == [*INITIALIZERS, *TRAINERS]
        assert [note[:7] for note in notes(world)] == ["stage 1", "stage 2", "stage 1", "stage 2"]

    def test_restarting_a_job_alone_leaves_earlier_stages_alone(self):
        world = three(gates={"RestartJob": True}, failurePolicy=ALONE)
        world.settle()
        finish(world, *INITIALIZERS)
        world.run()
        uids = {name: world.jobs[name]["metadata"]["uid"] for name in world.live()}
        world.fail(TRAINERS[0])
        world.settle()
        world.collect()
        world.settle()
        changed = [name for name, uid in uids.items() if world.jobs[name]["metadata"]["uid"] != uid]
        assert changed == [TRAINERS[0]]
        assert world.status.current_stage == "trainer (2/3)"

    def test_restarting_a_replicated_job_leaves_other_stages_alone(self):
        policy = {"maxRestarts": 3, "rules": [{"name": "group", "action": "RestartReplicatedJob"}]}
        world = three(gates={"RestartJob": True}, failurePolicy=policy)
        world.settle()
        finish(world, *INITIALIZERS)
        world.run()
        finish(world, TRAINERS[1])
        uids = {name: world.jobs[name]["metadata"]["uid"] for name in world.live()}
        world.fail(TRAINERS[0])
        world.settle()
        world.collect()
        world.settle()
        changed = [name for name, uid in uids.items() if world.jobs[name]["metadata"]["uid"] != uid]
        assert changed == TRAINERS
        assert counts_of(world, "trainer").remaining == 2
        assert world.status.current_stage == "trainer (2/3)"
        finish(world, *TRAINERS)
        assert "js-post-0" in world.live()
        assert len(notes(world)) == 3

    def test_blocking_recreate_waits_for_every_stage_that_was_there(self):
        world = three(failurePolicy={"maxRestarts": 1, "restartStrategy": "BlockingRecreate"})
        world.settle()
        finish(world, *INITIALIZERS)
        world.run()
        world.fail(TRAINERS[0])
        world.settle()
        held = world.jobs[TRAINERS[1]]
        world.collect()
        world.jobs[TRAINERS[1]] = held
        world.settle()
        assert world.live() == []
        world.collect()
        world.settle()
        assert world.live() == INITIALIZERS

    def test_a_failure_fails_the_set_and_starts_nothing(self):
        world = three()
        world.settle()
        world.run()
        world.finish(INITIALIZERS[0])
        world.fail(INITIALIZERS[1])
        world.settle()
        assert world.status.terminal_state == "Failed"
        assert world.live() == INITIALIZERS


class TestSuspension:
    def test_a_suspended_set_has_the_jobs_of_its_first_stage_only(self):
        world = three(suspend=True)
        world.settle()
        assert world.live() == INITIALIZERS
        assert notes(world) == []
        resume(world)
        assert notes(world) == ["stage 1 of 3 is released: initializer (2 Jobs)"]
        finish(world, *INITIALIZERS)
        assert world.live() == [*INITIALIZERS, *TRAINERS]

    def test_what_has_succeeded_is_not_run_again_on_resume(self):
        world = three()
        world.settle()
        finish(world, *INITIALIZERS)
        world.run()
        world.settle()
        suspend(world)
        assert [s.released for s in world.status.replicated_jobs_status] == [False] * 3
        assert world.status.current_stage == "trainer (2/3)"
        uids = {name: world.jobs[name]["metadata"]["uid"] for name in world.live()}
        resume(world)
        assert {name: job["metadata"]["uid"] for name, job in world.jobs.items()} == uids
        assert not world.jobs[TRAINERS[0]]["spec"]["suspend"]
        assert counts_of(world, "trainer").released

    @pytest.mark.parametrize("state", ["Ready", "Active"])
    def test_the_order_is_enforced_again_on_resume(self, state):
        world = three(state)
        for _ in range(3):
            world.settle()
            world.run()
        world.settle()
        assert "js-post-0" in world.live()
        suspend(world)
        world.edit(suspend=False)
        resumed = world.step()
        assert [patch.name for patch in of_type(resumed, PatchJob)] == INITIALIZERS
        world.settle()
        assert world.jobs[TRAINERS[0]]["spec"]["suspend"]
        world.run(*INITIALIZERS)
        world.settle()
        assert not world.jobs[TRAINERS[0]]["spec"]["suspend"]
        assert world.jobs["js-post-0"]["spec"]["suspend"]

    def test_suspended_before_the_pods_have_ended_nothing_new_is_released(self):
        world = three("Ready")
        world.settle()
        world.run(*INITIALIZERS)
        world.edit(suspend=True)
        world.settle()
        world.halt()
        world.settle()
        assert world.live() == INITIALIZERS
        assert len(notes(world)) == 1

    def test_missing_jobs_of_a_released_stage_are_not_created_while_suspended(self):
        world = three("Ready")
        world.settle()
        world.run(*INITIALIZERS)
        world.settle()
        for name in TRAINERS:
            world.jobs.pop(name)
        world.edit(suspend=True)
        assert of_type(world.step(), CreateJob) == []

    def test_pods_from_before_the_suspension_release_nothing(self):
        world = three("Active")
        world.settle()
        world.run(*INITIALIZERS, ready=False)
        world.settle()
        world.edit(suspend=True)
        world.settle()
        world.edit(suspend=False)
        assert [patch.name for patch in of_type(world.step(), PatchJob)] == INITIALIZERS


class TestElastic:
    def test_a_stage_that_grows_while_the_next_one_runs_gets_its_new_job(self):
        world = three(gates={"ElasticJobSet": True})
        world.settle()
        finish(world, *INITIALIZERS)
        world.run()
        world.settle()
        grow(world, "initializer", 3)
        world.settle()
        assert "js-initializer-2" in world.live()
        assert not world.jobs[TRAINERS[0]]["metadata"].get("deletionTimestamp")
        assert counts_of(world, "trainer").released
        assert counts_of(world, "initializer").remaining == 1

    def test_a_stage_that_shrinks_to_what_has_succeeded_lets_the_next_one_start(self):
        world = three(gates={"ElasticJobSet": True})
        world.settle()
        finish(world, INITIALIZERS[0])
        grow(world, "initializer", 1)
        world.settle()
        assert [name for name in world.live() if "trainer" in name] == TRAINERS

    def test_running_jobs_of_a_stage_are_resized_and_later_ones_are_created_so(self):
        world = three(gates={"ElasticJobSet": True})
        world.settle()
        world.run()
        rjobs = tuple(
            msgspec.structs.replace(
                r, template=msgspec.convert(rjob("", parallelism=3, completions=3)["template"], dict)
            )
            for r in world.js.spec.replicated_jobs
        )
        world.edit(replicated_jobs=rjobs)
        world.settle()
        assert [world.jobs[name]["spec"]["parallelism"] for name in INITIALIZERS] == [3, 3]
        finish(world, *INITIALIZERS)
        assert [world.jobs[name]["spec"]["parallelism"] for name in TRAINERS] == [3, 3]


def grow(world: World, name: str, replicas: int) -> None:
    rjobs = world.js.spec.replicated_jobs
    world.edit(
        replicated_jobs=tuple(msgspec.structs.replace(r, replicas=replicas) if r.name == name else r for r in rjobs)
    )
