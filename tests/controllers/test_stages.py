"""spec.executionPolicy: what a plan creates, notes and tells, stage by stage."""

from __future__ import annotations

import msgspec
import pytest

from controllers.planning.actions import CreateClaim, CreateJob, CreateService, PatchJob
from tests.support.lives import of_type, resume, suspend
from tests.support.world import World, jobset, rjob


def policy(state: str = "Succeeded", **more) -> dict:
    return {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": state, **more}


def three(state: str = "Succeeded", *, gates: dict | None = None, sequential: int | None = None, **spec) -> World:
    """initializer x 2, trainer x 2, post x 1."""
    more = {} if sequential is None else {"sequentialReplicatedJobs": sequential}
    rjobs = rjob("initializer", 2), rjob("trainer", 2), rjob("post", 1)
    return World(jobset(*rjobs, executionPolicy=policy(state, **more), **spec), **(gates or {}))


def finish(world: World, *names: str) -> None:
    for name in names:
        world.finish(name)
    world.settle()


def notes(world: World, reason: str = "StageReleased") -> list[str]:
    return [event.note for event in world.events if event.reason == reason]


def of(world: World, name: str):
    return next(s for s in world.status.replicated_jobs_status if s.name == name)


INITIALIZERS = ["js-initializer-0", "js-initializer-1"]
TRAINERS = ["js-trainer-0", "js-trainer-1"]


class TestSucceeded:
    def test_only_the_first_stage_exists_at_first(self):
        world = three()
        first = world.step()
        assert [action.name for action in of_type(first, CreateJob)] == INITIALIZERS
        assert len(of_type(first, CreateService)) == 1
        world.settle()
        assert world.live() == INITIALIZERS

    def test_the_next_stage_starts_when_every_job_has_succeeded(self):
        world = three()
        world.settle()
        world.run()
        finish(world, INITIALIZERS[0])
        assert world.live() == INITIALIZERS
        finish(world, INITIALIZERS[1])
        assert world.live() == [*INITIALIZERS, *TRAINERS]
        world.run()
        finish(world, *TRAINERS)
        assert "js-post-0" in world.live()
        world.run()
        finish(world, "js-post-0")
        assert world.status.terminal_state == "Completed"

    def test_a_stage_is_told_of_once_by_number_name_and_size(self):
        world = three()
        world.settle()
        finish(world, *INITIALIZERS)
        world.run()
        world.settle()
        assert notes(world) == [
            "stage 1 of 3 is released: initializer (2 Jobs)",
            "stage 2 of 3 is released: trainer (2 Jobs)",
        ]

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

    def test_status_says_where_it_is_and_what_is_still_to_come(self):
        world = three()
        seen = []
        world.settle()
        for names in (INITIALIZERS, TRAINERS, ["js-post-0"]):
            seen.append(
                (world.status.current_stage, *(of(world, n).remaining for n in ("initializer", "trainer", "post")))
            )
            finish(world, *names)
        assert seen == [("initializer (1/3)", 2, 2, 1), ("trainer (2/3)", 0, 2, 1), ("post (3/3)", 0, 0, 1)]
        assert of(world, "post").remaining == 0
        assert {c.type for c in world.status.conditions} == {"Completed"}

    def test_a_completed_job_that_is_deleted_does_not_hold_up_the_sequence(self):
        world = three()
        world.settle()
        finish(world, INITIALIZERS[0])
        world.remove(INITIALIZERS[0])
        finish(world, INITIALIZERS[1])
        assert world.live() == [INITIALIZERS[1], *TRAINERS]

    def test_a_stage_without_jobs_is_passed_over_in_its_turn_only(self):
        rjobs = rjob("initializer", 1), rjob("empty", 0), rjob("trainer", 1)
        world = World(jobset(*rjobs, executionPolicy=policy()))
        world.settle()
        assert world.live() == ["js-initializer-0"]
        finish(world, "js-initializer-0")
        assert world.live() == ["js-initializer-0", "js-trainer-0"]
        assert world.status.current_stage == "trainer (3/3)"

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
    def test_ready_waits_for_every_job_to_be_ready(self):
        world = three("Ready")
        world.settle()
        world.run(*INITIALIZERS, ready=False)
        world.settle()
        assert world.live() == INITIALIZERS
        world.run(*INITIALIZERS)
        world.settle()
        assert world.live() == [*INITIALIZERS, *TRAINERS]

    def test_active_waits_for_pods_and_not_for_readiness(self):
        world = three("Active")
        world.settle()
        world.run(INITIALIZERS[0], ready=False)
        world.settle()
        assert world.live() == INITIALIZERS
        world.run(INITIALIZERS[1], ready=False)
        world.settle()
        assert world.live() == [*INITIALIZERS, *TRAINERS]

    def test_a_job_that_has_already_succeeded_is_there(self):
        world = three("Active")
        world.settle()
        finish(world, INITIALIZERS[0])
        world.run(INITIALIZERS[1], ready=False)
        world.settle()
        assert world.live() == [*INITIALIZERS, *TRAINERS]

    @pytest.mark.parametrize("state", ["Ready", "Active"])
    def test_what_is_released_stays_released_when_the_earlier_stage_falters(self, state):
        world = three(state, gates={"RestartJob": True}, failurePolicy=ALONE)
        world.settle()
        world.run(*INITIALIZERS)
        world.settle()
        world.jobs[INITIALIZERS[0]]["status"].update(active=0, ready=0)
        for name in TRAINERS:
            world.jobs.pop(name)
        world.settle()
        assert world.live() == [*INITIALIZERS, *TRAINERS]
        world.fail(INITIALIZERS[1])
        world.settle()
        world.collect()
        world.jobs.pop(TRAINERS[1])
        world.settle()
        assert world.live() == [*INITIALIZERS, *TRAINERS]
        assert len(notes(world)) == 2

    @pytest.mark.parametrize("state", ["Ready", "Active"])
    def test_jobs_that_exist_say_that_their_stage_was_released_when_the_note_was_lost(self, state):
        world = three(state)
        world.settle()
        world.run(*INITIALIZERS)
        lost = world.status
        world.settle()
        world.js = type(world.js)(metadata=world.js.metadata, spec=world.js.spec, status=lost)
        world.jobs[INITIALIZERS[0]]["status"].update(active=0, ready=0)
        world.settle()
        assert of(world, "trainer").released
        assert world.live() == [*INITIALIZERS, *TRAINERS]


ALONE = {"maxRestarts": 3, "rules": [{"name": "alone", "action": "RestartJob"}]}


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
        assert of(world, "trainer").remaining == 2
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
        assert of(world, "trainer").released

    @pytest.mark.parametrize("state", ["Ready", "Active"])
    def test_the_order_is_enforced_anew_on_resume(self, state):
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

    def test_jobs_of_a_released_stage_that_are_missing_are_not_made_for_a_set_that_is_suspended(self):
        world = three("Ready")
        world.settle()
        world.run(*INITIALIZERS)
        world.settle()
        for name in TRAINERS:
            world.jobs.pop(name)
        world.edit(suspend=True)
        assert of_type(world.step(), CreateJob) == []

    def test_pods_of_before_the_suspension_release_nothing(self):
        world = three("Active")
        world.settle()
        world.run(*INITIALIZERS, ready=False)
        world.settle()
        world.edit(suspend=True)
        world.settle()
        world.edit(suspend=False)
        assert [patch.name for patch in of_type(world.step(), PatchJob)] == INITIALIZERS


def test_jobs_that_complete_one_by_one_are_not_told_one_by_one():
    world = World(jobset(rjob("workers", 300), rjob("post"), executionPolicy=policy()))
    world.settle()
    world.run()
    world.settle()
    world.since_status_write = 0.0
    world.finish("js-workers-0")
    assert world.plan().status is None


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
        assert of(world, "trainer").released
        assert of(world, "initializer").remaining == 1

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
