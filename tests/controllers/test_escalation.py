"""Rules whose action changes when it has not helped: which step decides, what is counted, and what says so."""

from typing import Any

import msgspec
import pytest

from api.jobset_status import RuleStep
from api.policies import Escalation, FailurePolicyRule
from controllers.planning.escalation import describe_step, step_of
from tests.controllers.test_recovery import report
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

GATES = {"JobSetFailureEscalation": True, "RestartJob": True}
LADDER = [{"afterRestarts": 2, "action": "RestartJobSet"}, {"afterRestarts": 1, "action": "FailJobSet"}]
FIRST, SECOND = "js-workers-0", "js-workers-1"


def life(then: list[dict[str, Any]] | None = None, action: str = "RestartJob", **gates: bool) -> World:
    """A set of two Jobs that run, with one rule."""
    rule = {"name": "rule", "action": action, "then": LADDER if then is None else then}
    policy = {"maxRestarts": 9, "rules": [rule]}
    world = World(jobset(rjob("workers", 2), failurePolicy=policy), **{**GATES, **gates})
    world.start_jobs()
    return world


def fail(world: World, *names: str, after: int = 10) -> None:
    """These Jobs fail at once, and everything that follows comes to its end."""
    world.seconds += after
    for name in names or (FIRST,):
        world.fail(name)
    world.settle()
    world.collect()
    world.start_jobs()


def counted(world: World) -> tuple[list[int], int, str]:
    """Restarts of single Jobs, of the set, and the end."""
    [entry] = world.status.replicated_jobs_status
    return list(entry.job_restarts), world.status.restarts, world.status.terminal_state


def stored(world: World) -> RuleStep:
    [entry] = world.status.failure_policy_steps
    return entry


def test_events_history_and_condition_name_the_step():
    world = life()
    for _ in range(3):
        fail(world)
    said = [event.note for event in world.events if event.reason == "FailurePolicyEscalated"]
    assert said == ["rule rule takes RestartJobSet, step 2 of 3, after 2 restarts by RestartJob"]
    world.fail(FIRST)
    world.settle()
    assert [attempt.step for attempt in world.status.attempt_history] == [2, 3]
    [failed] = [condition for condition in world.status.conditions if condition.type == "Failed"]
    assert failed.reason == "FailJobSetFailurePolicyAction"


def test_jobs_that_fail_together_count_once():
    world = life()
    for _ in range(2):
        fail(world, FIRST, SECOND)
    assert (counted(world), stored(world).restarts) == (([2, 2], 0, ""), 2)


def test_only_restarts_within_the_window_count():
    world = life([{"afterRestarts": 2, "withinSeconds": 90, "action": "RestartJobSet"}])
    for after in (40, 100, 40):
        fail(world, after=after)
    assert counted(world) == ([3, 0], 0, ""), "the first was too long ago"
    fail(world, after=40)
    assert counted(world) == ([3, 0], 1, "")


def test_failures_that_come_seldom_stay_at_the_first_step():
    world = life([{"afterRestarts": 2, "withinSeconds": 60, "action": "RestartJobSet"}])
    for _ in range(5):
        fail(world, after=61)
    assert counted(world) == ([5, 0], 0, "")
    assert len(stored(world).times) == 1, "what does not count any more is not kept"


def test_a_limit_of_the_set_holds_whatever_the_step():
    world = life([{"afterRestarts": 5, "action": "FailJobSet"}], action="RestartJobSet")
    world.js = msgspec.structs.replace(
        world.js,
        spec=msgspec.structs.replace(
            world.js.spec, failure_policy=msgspec.structs.replace(world.js.spec.failure_policy, max_restarts=1)
        ),
    )
    fail(world)
    world.fail(FIRST)
    world.settle()
    [failed] = [condition for condition in world.status.conditions if condition.type == "Failed"]
    assert (failed.reason, stored(world).restarts) == ("ReachedMaxRestarts", 1)


def test_without_the_gate_the_rule_keeps_its_action():
    world = life(JobSetFailureEscalation=False)
    for _ in range(4):
        fail(world)
    assert counted(world) == ([4, 0], 0, "")
    assert world.status.failure_policy_steps == ()
    assert {(event.reason, "`then` of failure policy rule rule" in event.note) for event in world.warnings} == {
        ("FeatureGateDisabled", True)
    }


RULE = FailurePolicyRule(
    name="r",
    action="RestartJob",
    then=(
        Escalation(after_restarts=1, within_seconds=60, action="RestartReplicatedJob"),
        Escalation(after_restarts=1, action="FailJobSet"),
    ),
)
NOW = "2026-01-01T00:10:00Z"


@pytest.mark.parametrize(
    ("entry", "step"),
    [
        (RuleStep(name="r"), 1),
        (RuleStep(name="another", step=3, restarts=9), 1),
        (RuleStep(name="r", restarts=1, times=("2026-01-01T00:09:00Z",)), 2),
        (RuleStep(name="r", restarts=1, times=("2026-01-01T00:08:59Z",)), 1),
        (RuleStep(name="r", restarts=1, times=("yesterday", "")), 1),
        (RuleStep(name="r", restarts=1, times=("2026-01-01T00:11:00Z",)), 2),
        (RuleStep(name="r", step=2), 2),
        (RuleStep(name="r", step=2, restarts=1), 3),
        (RuleStep(name="r", step=3, restarts=99), 3),
        (RuleStep(name="r", step=99), 3),
        (RuleStep(name="r", step=-1), 1),
    ],
)
def test_the_step_is_that_of_the_status_or_the_next(entry, step):
    assert step_of(RULE, (entry,), NOW) == step


def test_steps_in_words():
    assert [describe_step(RULE, step) for step in (1, 2, 3)] == [
        "RestartJob, step 1 of 3",
        "RestartReplicatedJob, step 2 of 3, after 1 restart by RestartJob within 60 s",
        "FailJobSet, step 3 of 3, after 1 restart by RestartReplicatedJob",
    ]


def test_eight_rules_take_little_of_the_status():
    """As many as admission allows."""
    entry = RuleStep(name="n" * 128, step=4, restarts=2**31 - 1, times=(NOW,) * 10)
    assert len(msgspec.json.encode((entry,) * 8)) < 4096


@pytest.mark.parametrize("on", [True, False])
def test_restarts_in_place_come_before_a_restart_of_the_set(on):
    policy = {"maxRestarts": 3, "restartStrategy": "InPlaceRestart", "inPlaceRestarts": 1}
    js = jobset(rjob("workers", 2, parallelism=1, completions=1), failurePolicy=policy)
    world = World(js, InPlaceRestart=True, JobSetFailureEscalation=on)
    world.settle()
    world.run()
    for attempts in ((0, 0), (1, 0), (1, 1), (2, 1)):
        report(world, *attempts)
        world.settle()
    assert world.status.restarts == on
    assert world.status.previous_in_place_restart_attempt == (0 if on else 1)
    assert [event.reason for event in world.warnings[:1]] == ([] if on else ["FeatureGateDisabled"])
