"""A Job that has failed starts nothing: what waits for it to be ready goes on waiting, whichever field orders the set."""

from typing import Any

import pytest

from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

RESTART_JOB = {"maxRestarts": 3, "rules": [{"name": "again", "action": "RestartJob"}]}
READY = {"dependsOn": [{"name": "driver", "status": "Ready"}]}
ORDERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "dependsOn": (READY, {}),
    "startupPolicy": ({}, {"startupPolicy": {"startupPolicyOrder": "InOrder"}}),
    "executionPolicy ready": (
        {},
        {"executionPolicy": {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Ready"}},
    ),
    "executionPolicy active": (
        {},
        {"executionPolicy": {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Active"}},
    ),
}


def ordered(order: str, **spec: Any) -> World:
    waits, policy = ORDERS[order]
    world = World(jobset(rjob("driver", 2), rjob("workers", **waits), **policy, **spec), RestartJob=True)
    world.settle()
    return world


@pytest.mark.parametrize("order", ORDERS)
def test_a_failed_job_that_is_restarted_alone_does_not_release_what_waits(order: str):
    world = ordered(order, failurePolicy=RESTART_JOB)
    world.finish("js-driver-0")
    world.fail("js-driver-1")
    world.replace_jobs()
    assert world.live() == ["js-driver-0", "js-driver-1"], "the second has never been ready"
    world.run("js-driver-1")
    world.settle()
    assert "js-workers-0" in world.live()


@pytest.mark.parametrize("order", ORDERS)
def test_nor_does_one_that_nothing_is_decided_about(order: str):
    """The gate that its rule needs was turned off meanwhile: a warning says so, and the set waits for somebody."""
    world = ordered(order, failurePolicy=RESTART_JOB)
    world.gates = type(world.gates)({})
    world.finish("js-driver-0")
    world.fail("js-driver-1")
    world.settle()
    assert "js-workers-0" not in world.live()


@pytest.mark.parametrize("order", ORDERS)
def test_what_was_ready_once_stays_so_when_it_fails_and_is_restarted_alone(order: str):
    world = ordered(order, failurePolicy=RESTART_JOB)
    world.run()
    world.settle()
    assert "js-workers-0" in world.live()
    world.fail("js-driver-1")
    world.replace_jobs()
    assert world.live() == ["js-driver-0", "js-driver-1", "js-workers-0"]
