"""Budgets of rules, and the action that restarts one ReplicatedJob."""

import msgspec
import pytest

from api import keys
from controllers.planning.failure_record import raise_counters
from tests.support.model.lives import counts_of, started
from tests.support.model.world import World
from tests.support.objects.stored_sets import rjob

TOO_MANY = "jobset failed due to reaching max number of restarts"
GATES = {"RestartJob": True}


def policy(*rules: dict, maximum: int = 99, **more) -> dict:
    return {"maxRestarts": maximum, "rules": [{"name": f"r{i}", **rule} for i, rule in enumerate(rules)], **more}


def used(world: World) -> dict[str, int]:
    return {of.name: of.restarts for of in world.status.failure_policy_restarts}


def again(world: World) -> None:
    """Let the garbage collector remove old Jobs, and everything come up."""
    for _ in range(3):
        world.replace_jobs()
        world.run()
    world.settle()


def generations(world: World, name: str = "workers") -> list[int]:
    """Own restart attempts of the Jobs of a ReplicatedJob, by index."""
    labels = [job["metadata"]["labels"] for _, job in sorted(world.jobs.items())]
    return [int(of[keys.JOB_RESTART_ATTEMPT]) for of in labels if of[keys.REPLICATED_JOB_NAME] == name]


class TestBudgetsOfRules:
    @pytest.mark.parametrize(
        "action",
        [
            "RestartJobSet",
            "RestartJobSetAndIgnoreMaxRestarts",
            "RestartJob",
            "RestartJobAndIgnoreMaxRestarts",
            "RestartReplicatedJob",
        ],
    )
    @pytest.mark.parametrize("most", [0, 1, 2])
    def test_one_restart_more_than_allowed_fails_the_set(self, action, most):
        rule = {"action": action, "maxRestarts": most}
        world = started(rjob("workers", 2), gates=GATES, failurePolicy=policy(rule))
        for number in range(most):
            world.fail("js-workers-1")
            again(world)
            assert (world.status.terminal_state, used(world)) == ("", {"r0": number + 1})
        world.fail("js-workers-1")
        world.settle()
        text = f"{TOO_MANY} of failure policy rule r0 (first failed job: js-workers-1)"
        assert world.condition("Failed") == ("True", "ReachedMaxRestarts", text)
        assert used(world) == ({"r0": most} if most else {})

    def test_the_rules_own_is_looked_at_before_that_of_the_set(self):
        world = started(rjob("workers"), failurePolicy=policy({"action": "RestartJobSet", "maxRestarts": 1}, maximum=1))
        world.fail("js-workers-0")
        again(world)
        world.fail("js-workers-0")
        world.settle()
        assert world.condition("Failed")[2].startswith(f"{TOO_MANY} of failure policy rule r0 (")

    def test_that_of_the_set_holds_beside_it(self):
        world = started(rjob("workers"), failurePolicy=policy({"action": "RestartJobSet", "maxRestarts": 5}, maximum=0))
        world.fail("js-workers-0")
        world.settle()
        assert world.condition("Failed")[2] == f"{TOO_MANY} (first failed job: js-workers-0)"
        assert used(world) == {}, "nothing was restarted"

    def test_failing_the_set_is_no_restart(self):
        world = started(rjob("workers"), failurePolicy=policy({"action": "FailJobSet", "maxRestarts": 0}))
        world.fail("js-workers-0")
        world.settle()
        assert world.condition("Failed")[1] == "FailJobSetFailurePolicyAction"

    def test_each_restart_of_a_round_counts_and_the_one_too_many_ends_it(self):
        rule = {"action": "RestartJob", "maxRestarts": 2}
        for failures, state in ((2, ""), (3, "Failed")):
            world = started(rjob("workers", 3), gates=GATES, failurePolicy=policy(rule))
            for index in range(failures):
                world.fail(f"js-workers-{index}")
            world.settle()
            assert (world.status.terminal_state, used(world)) == (state, {"r0": 2})

    def test_it_is_written_at_once(self):
        rule = {"action": "RestartJobAndIgnoreMaxRestarts", "maxRestarts": 9}
        world = started(rjob("workers", 300), gates=GATES, failurePolicy=policy(rule))
        world.since_status_write = 0.0
        world.fail("js-workers-3")
        assert world.step().status is not None

    def test_a_rule_without_one_leaves_nothing_in_the_status(self):
        world = started(rjob("workers"), failurePolicy=policy({"action": "RestartJobSet"}))
        world.fail("js-workers-0")
        again(world)
        assert "failurePolicyRestarts" not in msgspec.to_builtins(world.status)


class TestRestartReplicatedJob:
    RULES = policy({"action": "RestartReplicatedJob"})

    def test_it_costs_as_much_as_the_restart_of_one_job(self):
        world = started(rjob("workers", 3), gates=GATES, failurePolicy=policy(self.RULES["rules"][0], maximum=2))
        for number in (1, 2):
            world.fail("js-workers-1")
            again(world)
            of = counts_of(world)
            assert of.job_restarts == (number,) * 3
            assert of.job_restarts_count_towards_max == (0, number, 0)
            assert world.status.terminal_state == ""
        world.fail("js-workers-0")
        world.settle()
        assert world.condition("Failed")[1:] == ("ReachedMaxRestarts", f"{TOO_MANY} (first failed job: js-workers-0)")

    @pytest.mark.parametrize("targets", [[], ["a", "b"], ["b", "c", "a"]])
    def test_each_replicated_job_with_failures_costs_one_restart(self, targets):
        """The targets of a rule say whose failures it is about, not what is restarted."""
        rules = policy({**self.RULES["rules"][0], "targetReplicatedJobs": targets})
        world = started(rjob("a", 3), rjob("b", 2), rjob("c"), gates=GATES, failurePolicy=rules)
        for name in ("js-a-0", "js-a-2", "js-b-1"):
            world.fail(name)
        plan = world.step()
        assert [e.note[-8:] for e in plan.events] == [" js-a-0)", " js-b-1)"]
        found = [(counts_of(world, n).job_restarts, counts_of(world, n).job_restarts_count_towards_max) for n in "abc"]
        assert found == [((1, 1, 1), (1, 0, 0)), ((1, 1), (0, 1)), ((), ())]
        again(world)
        assert [generations(world, n) for n in "abc"] == [[1, 1, 1], [1, 1], [0]]

    def test_a_restart_of_the_set_in_the_same_round_comes_on_top(self):
        rules = policy({"action": "RestartReplicatedJob", "targetReplicatedJobs": ["a"]}, {"action": "RestartJobSet"})
        world = started(rjob("a", 2), rjob("b"), gates=GATES, failurePolicy=rules)
        world.fail("js-a-0")
        world.fail("js-b-0")
        again(world)
        assert (world.status.restarts, generations(world, "a")) == (1, [1, 1])

    def test_a_job_that_completes_and_goes_before_it_is_recorded_runs_again_too(self):
        world = started(rjob("workers", 2), gates=GATES, failurePolicy=self.RULES)
        world.finish("js-workers-0")
        world.remove("js-workers-0")
        world.fail("js-workers-1")
        again(world)
        assert generations(world) == [1, 1]
        assert counts_of(world).completed_indexes == ""

    def test_counters_fill_up_to_the_number_of_replicas(self):
        assert raise_counters((), 3, {1}) == (0, 1, 0)
        assert raise_counters((4,), 2, {0, 1}) == (5, 1)
        assert raise_counters((1, 2, 3), 1, {0, 1, 2}) == (2, 3, 4)
