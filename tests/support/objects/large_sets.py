"""Sets that are large enough for collective deletion."""

from controllers.planning.actions import CreateJob
from tests.support.model.lives import of_type, started
from tests.support.model.world import World
from tests.support.objects.stored_sets import rjob

RESTARTS = {"maxRestarts": 9}
NAMES = [f"js-workers-{index}" for index in range(12)]


def twelve(**more):
    """Twelve Jobs that run."""
    return started(rjob("workers", 12), **{"failurePolicy": RESTARTS, **more})


def fail(world: World, name: str = "js-workers-0"):
    """A Job fails, the restart is counted; gives the plan that deletes."""
    world.fail(name)
    assert world.step().status.restarts == world.status.restarts
    return world.step()


def created(plan) -> list[str]:
    return [action.name for action in of_type(plan, CreateJob)]
