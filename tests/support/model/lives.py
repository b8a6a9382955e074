"""Stages in the life of a set on the model of tests/support/model/world.py: up, suspended, resumed, restarted."""

from typing import Any, TypeVar

from api.jobset_status import ReplicatedJobStatus
from controllers.planning.actions import Plan
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset

A = TypeVar("A")
W = TypeVar("W", bound=World)

ONE_BY_ONE = {"maxRestarts": 2, "rules": [{"name": "one", "action": "RestartJob"}]}
"""A failure policy that restarts failed Jobs alone (gate RestartJob)."""


def at(second: int) -> str:
    """A moment of the model, whose clock begins with 2026."""
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"


def later(world: W, seconds: int) -> W:
    """The world when its clock has gone on."""
    world.seconds += seconds
    return world


def settled_later(world: W, seconds: int) -> W:
    """The same when all has been done that is due by then."""
    later(world, seconds).settle()
    return world


def of_type(plan: Plan, kind: type[A]) -> list[A]:
    return [action for action in plan.actions if isinstance(action, kind)]


def started(*rjobs: dict[str, Any], gates: dict[str, bool] | None = None, **spec: Any) -> World:
    """A set that has come all the way up, stage after stage."""
    world = World(jobset(*rjobs, **spec), **(gates or {}))
    for _ in range(len(rjobs) + 1):
        world.settle()
        world.run()
    world.settle()
    return world


def suspend(world: World) -> None:
    """Suspend, until the Job controller has ended the pods and recorded it."""
    world.edit(suspend=True)
    world.settle()
    world.halt()
    world.settle()


def resume(world: World, **spec: Any) -> None:
    """Resume, with what else the user changes in the same update."""
    world.edit(suspend=False, **spec)
    world.settle()


def restart(world: World, name: str, message: str = "boom") -> None:
    """Fail a Job and let the garbage collector remove the old attempt."""
    world.fail(name, message=message)
    world.replace_jobs()


def counts_of(world: World, name: str = "workers") -> ReplicatedJobStatus:
    """The stored entry of a ReplicatedJob."""
    return next(s for s in world.status.replicated_jobs_status if s.name == name)
