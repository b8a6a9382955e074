"""A set of three stages."""

from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob


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


INITIALIZERS = ["js-initializer-0", "js-initializer-1"]
TRAINERS = ["js-trainer-0", "js-trainer-1"]
ALONE = {"maxRestarts": 3, "rules": [{"name": "alone", "action": "RestartJob"}]}
