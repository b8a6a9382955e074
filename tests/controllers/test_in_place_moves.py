"""When a set that restarts in place does not move, or not yet, after a notice of maintenance (docs/concepts/node-maintenance.md)."""

from tests.controllers.test_node_maintenance import IN_PLACE, in_place, report, running, start, taint
from tests.support.model.lives import at, settled_later


def test_a_failure_with_no_restart_left_fails_the_set_and_moves_nothing():
    world = in_place(maxRestarts=0)
    world.seconds = 1
    taint(world, "n1")
    report(world, 1, 0)
    assert (world.status.terminal_state, world.status.maintenance.notice_time) == ("Failed", "")
    assert (world.moves(), world.deleted) == ([], [])


def test_a_failure_with_no_restart_in_place_left_creates_the_set_again_once():
    gates = {**IN_PLACE, "JobSetFailureEscalation": True}
    policy = {"restartStrategy": "InPlaceRestart", "inPlaceRestarts": 1, "maxRestarts": 3}
    world = running(gates=gates, signal="SIGUSR1", **policy)
    for attempts in ((0, 0), (1, 0), (1, 1)):
        report(world, *attempts)
    world.seconds = 1
    taint(world, "n1")
    report(world, 2, 1)
    assert (world.status.restarts, world.status.last_restart.reason) == (1, "InPlaceRestartsUsedUp")
    assert (world.moves(), world.deleted) == ([], [])
    start(world, "n0", "n1")
    report(world, 2, 2)
    assert settled_later(world, 300).status.restarts == 1, "it has left the node"


def test_agents_of_pods_of_this_second_are_heeded_in_the_next_one():
    """Replacement pods have to be younger."""
    world = in_place()
    taint(world, "n1")
    report(world, 0, 0, said=at(0))
    assert (world.deleted, world.plan().requeue_after) == ([], 1)
    settled_later(world, 1)
    assert world.deleted == ["js-workers-1-0-0"]
