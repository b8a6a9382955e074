"""Clients that read one condition, the True one that changed last, read the state of a set at every moment of its life.

Of several that changed in one second they take the last of the list.
"""

from collections.abc import Callable
from typing import Any

import pytest

from api import keys
from api.jobset import JobSet
from api.jobset_status import JobSetStatus
from tests.support.model.lives import restart, resume, suspend
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

STATES = {keys.COMPLETED, keys.FAILED, keys.SUSPENDED}
STAGED = [rjob("first", 2), rjob("second", dependsOn=[{"name": "first", "status": "Ready"}])]
IN_ORDER = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
GROUPS = {"scheduling": {"schedulingPolicy": {"gang": {}}}}


def newest(status: JobSetStatus) -> str:
    """The type of the True condition that changed last; empty for none."""
    true = [each for each in status.conditions if each.status == "True"]
    return max(enumerate(true), key=lambda at: (at[1].last_transition_time or "", at[0]))[1].type if true else ""


class Watched(World):
    """Each status that is stored is read as such a client does, and compared with what the set is told to do."""

    def __init__(self, js: JobSet, **gates: bool) -> None:
        super().__init__(js, **gates)
        self.read: list[str] = []

    def step(self) -> Any:
        self.seconds += 1
        return super().step()

    def _store(self, new: JobSetStatus) -> None:
        super()._store(new)
        assert self.js is not None
        state = newest(new) if newest(new) in STATES else ""
        assert state == (new.terminal_state or (keys.SUSPENDED if self.js.spec.suspend else ""))
        self.read += [state] if self.read[-1:] != [state] else []


def up(world: World) -> None:
    for _ in range(3):
        world.release()
        world.settle()
        world.schedule()
        world.run()
    world.settle()


def end(world: World) -> None:
    for name in sorted(world.jobs):
        world.finish(name)
    world.settle()


def queue(world: World) -> None:
    """Created suspended, admitted, evicted, admitted again, ended."""
    world.settle()
    for _ in range(2):
        resume(world)
        up(world)
        suspend(world)
    resume(world)
    up(world)
    end(world)


def retry(world: World) -> None:
    """Restarted, suspended while it restarts, resumed, and failed for good."""
    up(world)
    restart(world, "js-first-0")
    suspend(world)
    resume(world)
    up(world)
    world.fail("js-first-0")
    world.settle()


QUEUED = ["Suspended", "", "Suspended", "", "Suspended", "", "Completed"]
FLOWS: dict[str, tuple[Callable[[World], None], JobSet, list[str]]] = {
    "queued": (queue, jobset(rjob("first", 2), suspend=True), QUEUED),
    "staged": (queue, jobset(*STAGED, suspend=True), QUEUED),
    "in order": (queue, jobset(rjob("first", 2), rjob("second"), suspend=True, **IN_ORDER), QUEUED),
    "groups": (queue, jobset(rjob("first", 2), suspend=True, **GROUPS), QUEUED),
    "retried": (retry, jobset(*STAGED, failurePolicy={"maxRestarts": 1}), ["", "Suspended", "", "Failed"]),
}


@pytest.mark.parametrize("flow", FLOWS)
def test_the_condition_that_changed_last_says_the_state(flow: str):
    play, js, read = FLOWS[flow]
    world = Watched(js, JobSetWorkloadAwareSchedulingAPI=True) if flow == "groups" else Watched(js)
    play(world)
    assert world.read == read
