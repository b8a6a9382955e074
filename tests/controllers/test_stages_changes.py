"""spec.executionPolicy over failures, suspension and resizing."""

import msgspec

from tests.support.model.lives import resume
from tests.support.model.world import World
from tests.support.objects.stages import INITIALIZERS, TRAINERS, finish, notes, three


class TestFailure:
    def test_blocking_recreate_waits_for_every_stage_that_was_there(self):
        world = three(failurePolicy={"maxRestarts": 1, "restartStrategy": "BlockingRecreate"})
        world.settle()
        finish(world, *INITIALIZERS)
        world.run()
        world.fail(TRAINERS[0])
        world.settle()
        held = world.jobs[TRAINERS[1]]
        world.collect()
        world.jobs[TRAINERS[1]] = held
        world.settle()
        assert world.live() == []
        world.collect()
        world.settle()
        assert world.live() == INITIALIZERS


class TestSuspension:
    def test_a_suspended_set_has_the_jobs_of_its_first_stage_only(self):
        world = three(suspend=True)
        world.settle()
        assert world.live() == INITIALIZERS
        assert notes(world) == []
        resume(world)
        assert notes(world) == ["stage 1 of 3 is released: initializer (2 Jobs)"]
        finish(world, *INITIALIZERS)
        assert world.live() == [*INITIALIZERS, *TRAINERS]


class TestElastic:
    def test_a_stage_that_shrinks_to_what_has_succeeded_lets_the_next_one_start(self):
        world = three(gates={"ElasticJobSet": True})
        world.settle()
        finish(world, INITIALIZERS[0])
        grow(world, "initializer", 1)
        world.settle()
        assert [name for name in world.live() if "trainer" in name] == TRAINERS


def grow(world: World, name: str, replicas: int) -> None:
    rjobs = world.js.spec.replicated_jobs
    world.edit(
        replicated_jobs=tuple(msgspec.structs.replace(r, replicas=replicas) if r.name == name else r for r in rjobs)
    )
