"""Nodes that restart: their kubelet says that containers have failed, with a reason and exit code no program gave."""

import pytest

from controllers.planning.observed import Ended, FailedPod
from tests.support.model.world import World
from tests.support.objects.exit_codes import at
from tests.support.objects.stored_sets import jobset, rjob

POD = "js-workers-1-0-abcde"


def restart_node(*pods: FailedPod, action: str = "RestartJobSet", rules: list[dict] | None = None) -> World:
    """A set of two Jobs, of which one has failed with these failed pods."""
    policy = {"maxRestarts": 2, "nodeFailure": {"afterSeconds": 30, "action": action}, "rules": rules or []}
    return fail_job(pods, policy)


def fail_job(pods: tuple[FailedPod, ...], policy: dict) -> World:
    world = World(jobset(rjob("workers", 2, backoffLimit=0), failurePolicy=policy), JobSetNodeFailure=True)
    world.start_jobs()
    world.failed_pods["js-workers-1"] = pods
    world.fail("js-workers-1")
    return world


@pytest.mark.parametrize(
    ("reason", "code"), [("Unknown", 255), ("ContainerStatusUnknown", 137)], ids=["runtime", "kubelet"]
)
def test_its_action_decides_and_the_history_names_node_and_code(reason, code):
    pod = FailedPod(POD, "n1", (Ended("main", code),), reasons=(reason,))
    world = restart_node(pod, action="RestartJobSetAndIgnoreMaxRestarts")
    world.settle()
    assert (world.status.restarts, world.status.restarts_count_towards_max) == (1, 0)
    [attempt] = world.status.attempt_history
    assert (attempt.pod, attempt.node, attempt.container, attempt.exit_code) == (POD, "n1", "main", code)
    assert attempt.message == f"NodeFailure: pod {POD} was on node n1, which restarted"


def test_rules_by_job_reason_see_node_failure():
    rule = {"name": "r", "action": "FailJobSet", "onJobFailureReasons": ["NodeFailure"]}
    pod = FailedPod(POD, "n1", (Ended("main", 255),), reasons=("Unknown",))
    world = restart_node(pod, rules=[rule])
    world.settle()
    assert world.status.terminal_state == "Failed"


@pytest.mark.parametrize(
    "pods",
    [
        [FailedPod(POD, "n1", (Ended("main", 255),), reasons=("Error",))],
        [FailedPod(POD, "n1", (Ended("main", 137),), reasons=("ContainerStatusUnknown",), deleting=True)],
        [
            FailedPod(POD, "n1", (Ended("main", 1, at(1)),), at(1), reasons=("Error",)),
            FailedPod("later", "n1", (Ended("main", 255, at(2)),), at(2), reasons=("Unknown",)),
        ],
        [],
    ],
    ids=["the program gave the code", "deleted", "another pod decided", "pods gone"],
)
def test_any_other_end_is_that_of_the_program(pods):
    world = restart_node(*pods, action="RestartJobSetAndIgnoreMaxRestarts")
    world.settle()
    assert (world.status.restarts, world.status.restarts_count_towards_max) == (1, 1)


def test_without_node_failure_pods_are_not_waited_for():
    world = fail_job((), {"maxRestarts": 2})
    assert world.observe().failed_pods == {}
    world.settle()
    assert world.status.restarts_count_towards_max == 1
