"""Stages with everything they meet: the table in docs/concepts/stages.md, cell by cell.

initializer x 2, trainer x 2, post x 1. With Succeeded the trainers run and post is still to come; with Ready and Active
all three stages run.
"""

import msgspec
import pytest

from tests.support.model.lives import resume, suspend
from tests.support.model.world import World
from tests.support.objects.stages import INITIALIZERS, TRAINERS
from tests.support.objects.stored_sets import jobset, rjob

STATES = ("Succeeded", "Ready", "Active")
STRATEGIES = ("Recreate", "BlockingRecreate")
POST = "js-post-0"

every_state = pytest.mark.parametrize("state", STATES)
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def at_trainers(state: str, **spec) -> World:
    """A set whose trainers run."""
    policy = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": state}
    rjobs = rjob("initializer", 2), rjob("trainer", 2), rjob("post", 1)
    world = World(jobset(*rjobs, executionPolicy=policy, **spec), RestartJob=True, ElasticJobSet=True)
    world.settle()
    if state == "Succeeded":
        for name in INITIALIZERS:
            world.finish(name)
        world.settle()
    for _ in range(3):
        world.run()
        world.settle()
    assert world.live() == sorted(reached(state))
    return world


def reached(state: str) -> list[str]:
    """The Jobs that there are when the trainers run."""
    return [*INITIALIZERS, *TRAINERS, *([] if state == "Succeeded" else [POST])]


def acting(action: str, strategy: str) -> dict:
    """A failure policy that does this about every failed Job."""
    return {"maxRestarts": 2, "restartStrategy": strategy, "rules": [{"name": "rule", "action": action}]}


def fail_a_trainer(world: World) -> dict[str, str]:
    """And let what follows from it happen; gives the uids of the Jobs before."""
    before = uids(world)
    world.fail(TRAINERS[0])
    for _ in range(2):
        world.settle()
        world.collect()
    world.settle()
    return before


def uids(world: World) -> dict[str, str]:
    return {name: world.jobs[name]["metadata"]["uid"] for name in world.live()}


def released(world: World) -> list[str]:
    return sorted(of.name for of in world.status.replicated_jobs_status if of.released)


def releases(world: World) -> int:
    return sum(event.reason == "StageReleased" for event in world.events)


@every_state
@pytest.mark.parametrize("policy", [None, *(acting("FailJobSet", strategy) for strategy in STRATEGIES)])
def test_a_failure_that_fails_the_set_starts_no_stage(state, policy):
    world = at_trainers(state, failurePolicy=policy)
    before = fail_a_trainer(world)
    assert world.status.terminal_state == "Failed"
    kept = [*INITIALIZERS, TRAINERS[0]] if state == "Succeeded" else [TRAINERS[0]]
    assert uids(world) == {name: before[name] for name in kept}


@every_state
@every_strategy
@pytest.mark.parametrize("action", ["RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"])
def test_a_restart_of_the_set_begins_with_the_first_stage(state, strategy, action):
    world = at_trainers(state, failurePolicy=acting(action, strategy))
    before = fail_a_trainer(world)
    assert world.status.restarts == 1
    assert world.live() == INITIALIZERS
    assert not before.keys() & {name for name, uid in uids(world).items() if before[name] == uid}
    assert released(world) == ["initializer"]
    assert world.status.current_stage == "initializer (1/3)"
    assert {of.name: of.remaining for of in world.status.replicated_jobs_status} == {
        "initializer": 2,
        "trainer": 2,
        "post": 1,
    }


@every_state
@every_strategy
@pytest.mark.parametrize(
    ("action", "renewed"),
    [
        ("RestartJob", TRAINERS[:1]),
        ("RestartJobAndIgnoreMaxRestarts", TRAINERS[:1]),
        ("RestartReplicatedJob", TRAINERS),
    ],
)
def test_a_restart_within_a_stage_leaves_the_others_alone(state, strategy, action, renewed):
    world = at_trainers(state, failurePolicy=acting(action, strategy))
    noted, stage = released(world), world.status.current_stage
    before = fail_a_trainer(world)
    assert world.live() == sorted(reached(state))
    assert [name for name, uid in uids(world).items() if before[name] != uid] == renewed
    assert (released(world), world.status.current_stage) == (noted, stage)
    assert releases(world) == len(noted)
    assert world.status.restarts == 0


@every_state
@every_strategy
def test_a_doomed_job_sets_it_off_earlier(state, strategy):
    world = at_trainers(state, failurePolicy={**acting("RestartJobSet", strategy), "failOn": "FailureTarget"})
    world.doom(TRAINERS[0])
    world.step()
    assert world.status.restarts == 1
    for _ in range(2):
        world.settle()
        world.collect()
    world.settle()
    assert (world.live(), released(world), world.status.restarts) == (INITIALIZERS, ["initializer"], 1)


@every_state
def test_a_set_that_is_done_starts_no_stage_and_ends_those_that_run(state):
    target = {"operator": "All", "targetReplicatedJobs": ["trainer"], "minSucceeded": 1}
    world = at_trainers(state, successPolicy=target)
    world.finish(TRAINERS[0])
    world.settle()
    world.collect()
    assert world.status.terminal_state == "Completed"
    assert world.live() == ([*INITIALIZERS, TRAINERS[0]] if state == "Succeeded" else [TRAINERS[0]])


@every_state
def test_a_resume_enforces_the_order_again_and_reruns_nothing_that_succeeded(state):
    world = at_trainers(state)
    before = uids(world)
    suspend(world)
    assert world.live() == sorted(reached(state))
    assert released(world) == []
    resume(world)
    assert uids(world) == before
    running = {name for name, job in world.jobs.items() if not job["spec"]["suspend"] and not world.finished(name)}
    assert running == ({*TRAINERS} if state == "Succeeded" else {*INITIALIZERS})


@every_state
@every_strategy
def test_what_was_suspended_after_a_restart_resumes_with_the_first_stage(state, strategy):
    world = at_trainers(state, failurePolicy=acting("RestartJobSet", strategy))
    fail_a_trainer(world)
    suspend(world)
    assert world.live() == INITIALIZERS
    resume(world)
    assert world.live() == INITIALIZERS
    assert released(world) == ["initializer"]


def resize(world: World, name: str, replicas: int, pods: int = 1) -> None:
    """The user changes a ReplicatedJob."""
    template = msgspec.convert(rjob("", parallelism=pods, completions=pods)["template"], dict)
    world.edit(
        replicated_jobs=tuple(
            msgspec.structs.replace(of, replicas=replicas, template=template) if of.name == name else of
            for of in world.js.spec.replicated_jobs
        )
    )
    world.settle()


@every_state
def test_a_stage_that_has_passed_grows_beside_the_later_ones(state):
    world = at_trainers(state)
    before = uids(world)
    resize(world, "initializer", 3)
    assert world.live() == sorted([*reached(state), "js-initializer-2"])
    assert before.items() <= uids(world).items()
    left = next(of.remaining for of in world.status.replicated_jobs_status if of.name == "initializer")
    assert left == (1 if state == "Succeeded" else 3)
    assert "trainer" in released(world)


@every_state
def test_the_stage_that_runs_is_resized(state):
    world = at_trainers(state)
    before = uids(world)
    resize(world, "trainer", 2, pods=3)
    assert [world.jobs[name]["spec"]["parallelism"] for name in TRAINERS] == [3, 3]
    assert uids(world) == before
    resize(world, "trainer", 1, pods=3)
    world.collect()
    world.settle()
    assert world.live() == sorted({*reached(state)} - {TRAINERS[1]})


def test_a_stage_that_is_still_to_come_starts_with_its_new_size():
    world = at_trainers("Succeeded")
    resize(world, "post", 2, pods=3)
    assert world.live() == [*INITIALIZERS, *TRAINERS]
    for name in TRAINERS:
        world.finish(name)
    world.settle()
    assert [world.jobs[f"js-post-{index}"]["spec"]["parallelism"] for index in range(2)] == [3, 3]
