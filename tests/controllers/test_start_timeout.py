"""Pods that do not run in time: when they are looked for, and what the failure policy makes of them."""

from dataclasses import replace

import pytest

from controllers.planning.observed import PendingPod
from controllers.planning.start_timeout import StartLimits, next_check
from tests.support.model.lives import at, later, restart
from tests.support.model.start_checks import StartChecks
from tests.support.objects.stored_sets import jobset, rjob

GATE = {"JobSetStartTimeout": True}
WHY = 'container main: ImagePullBackOff: Back-off pulling image "no/such" (node n1)'
SAID = f"pod js-workers-1-0 was not running 60 s after its creation: {WHY}"


def pending(second: int = 0, why: str = WHY) -> PendingPod:
    return PendingPod("js-workers-1-0", "n1", at(second), why)


class StartingWorld(StartChecks):
    """A world with pending pods, by the name of their Job."""

    def __init__(self, js, **gates):
        super().__init__(js, **gates)
        self.pending_pods: dict[str, PendingPod] = {}

    def waiting(self) -> dict[str, PendingPod]:
        return self.pending_pods


def starting(*rjobs: dict, gates: dict[str, bool] = GATE, **policy) -> StartingWorld:
    """A set of two Jobs whose pods exist from second 0 and of which the first is ready."""
    policy = {"maxRestarts": 2, "startTimeoutSeconds": 60, **policy}
    world = StartingWorld(jobset(*(rjobs or (rjob("workers", 2),)), failurePolicy=policy), **gates)
    world.settle()
    world.run("js-workers-0")
    world.run("js-workers-1", ready=False)
    world.pending_pods["js-workers-1"] = pending()
    world.settle()
    return world


class TestALatePod:
    def test_it_restarts_the_set_with_what_the_kubelet_says(self):
        world = later(starting(), 60)
        world.settle()
        assert world.status.restarts == 1
        said = f"applying RestartJobSet failure policy action (first failed job: js-workers-1): {SAID}"
        assert world.condition("RestartingJobSet") == ("True", "DefaultFailurePolicy", said)
        assert ("Warning", "RestartJobSetFailurePolicyAction", said) in [
            (e.type, e.reason, e.note) for e in world.events
        ]

    @pytest.mark.parametrize(
        ("rule", "end"),
        [
            ({"onJobFailureReasons": ["StartTimeout"]}, "Failed"),
            ({"onJobFailureMessagePatterns": ["ImagePullBackOff"]}, "Failed"),
            ({"onJobFailureReasons": ["BackoffLimitExceeded"]}, ""),
            ({"onExitCodes": {"operator": "NotIn", "values": [1]}}, ""),
        ],
    )
    def test_rules_see_reason_and_message_and_no_exit_code(self, rule, end):
        world = later(starting(rules=[{"name": "r", "action": "FailJobSet", **rule}]), 60)
        world.settle()
        assert world.status.terminal_state == end

    def test_one_job_can_be_restarted_alone(self):
        world = starting(rules=[{"name": "one", "action": "RestartJob"}], gates={**GATE, "RestartJob": True})
        later(world, 60).settle()
        assert world.status.restarts == 0
        assert world.status.replicated_jobs_status[0].job_restarts == (0, 1)

    def test_a_pod_that_a_job_creates_later_has_its_own_time(self):
        world = starting()
        world.pending_pods["js-workers-1"] = pending(1000)
        world.seconds = 1059
        world.settle()
        assert world.status.restarts == 0
        later(world, 3).settle()
        assert world.status.restarts == 1, "a twentieth of its time later at most"


class TestLooks:
    def test_none_before_a_pod_can_be_late(self):
        world = later(starting(), 45)
        decided = world.plan()
        assert (world.checks, decided.requeue_after) == (0, 15.0)

    def test_a_failure_of_another_kind_is_judged_as_ever(self):
        world = starting()
        restart(world, "js-workers-0")
        assert (world.status.restarts, world.checks) == (1, 0)

    @pytest.mark.parametrize(
        ("created", "seconds", "look"),
        [
            ([], 60, 160),
            ([50], 60, 110),
            ([90, 50, 70], 60, 110),
            ([40], 60, 103),
            ([0], 60, 103),
            ([41], 600, 641),
            ([41], 60, 103),
            ([100], 1, 101),
        ],
        ids=["none", "one", "first", "late", "very-late", "long", "no-more-than-twenty", "short"],
    )
    def test_the_next_look_is_when_the_first_pod_may_be_late(self, created, seconds, look):
        pods = [pending(second) for second in created]
        assert next_check(pods, StartLimits(start=seconds), at(100)).replace("+00:00", "Z") == at(look)

    @pytest.mark.parametrize(("created", "look"), [([], 160), ([0], 103), ([90], 150)])
    def test_a_pod_without_a_node_may_be_late_sooner(self, created, look):
        pods = [pending(99), *(replace(pending(99), nodeless=pending(second)) for second in created)]
        assert next_check(pods, StartLimits(start=900, node=60), at(100)).replace("+00:00", "Z") == at(look)

    def test_a_creation_that_cannot_be_read_makes_no_pod_late(self):
        world = starting()
        world.pending_pods["js-workers-1"] = PendingPod("p", "", "", WHY)
        later(world, 3600).settle()
        assert world.status.restarts == 0


class TestWithoutIt:
    def test_no_look_and_no_time_to_look(self):
        world = starting(startTimeoutSeconds=None)
        later(world, 3600)
        assert (world.plan().requeue_after, world.checks) == (None, 0)

    def test_without_the_gate_a_warning_says_so(self):
        world = later(starting(gates={}), 3600)
        world.settle()
        assert (world.status.restarts, world.checks) == (0, 0)
        assert {event.reason for event in world.warnings} == {"FeatureGateDisabled"}
