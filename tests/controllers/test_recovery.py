"""What failures cost, as the status keeps it: phases of each recovery, seconds that ran and that were lost."""

from typing import Any

import msgspec
import pytest

from api.recovery_times import AttemptTimes, Recovery
from controllers.planning.recovery import MAX_HISTORY, elapsed_seconds, goodput
from tests.controllers.test_in_place import pod
from tests.controllers.test_node_failure import NodeWorld, on_failed_node
from tests.support.model.lives import resume, suspend
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

GATE = {"JobSetRecoveryTimes": True}
POLICY = {"maxRestarts": 20}


def life(*rjobs: dict[str, Any], kind: type[World] = World, policy: dict[str, Any] | None = None, **gates: bool) -> Any:
    """A set of two Jobs that all became ready after 5 s, and have run for 100 s."""
    world = kind(jobset(*rjobs or [rjob("workers", 2)], failurePolicy=policy or POLICY), **{**GATE, **gates})
    world.settle()
    world.seconds += 5
    world.run()
    world.settle()
    world.seconds += 100
    return world


def recover(world: World, drain: int, start: int) -> None:
    """The old Jobs go after so many seconds, and so many later the pods of the new ones are ready."""
    world.settle()
    world.seconds += drain
    world.collect()
    world.settle()
    world.seconds += start
    world.run()
    world.settle()


def report(world: World, *attempts: int) -> None:
    """The agents of the Jobs' pods report these attempts."""
    uids = [job["metadata"]["uid"] for job in world.jobs.values()]
    world.pods = [pod(attempt, owner=uid) for attempt, uid in zip(attempts, uids, strict=True)]


def times(world: World) -> list[tuple[int | None, ...]]:
    """Attempt, detected, drained, created, ready and running of each entry."""
    return [
        (
            of.attempt,
            of.detected_after_seconds,
            of.drained_after_seconds,
            of.created_after_seconds,
            of.ready_after_seconds,
            of.running_seconds,
        )
        for of in world.status.recovery.attempts
    ]


def account(world: World) -> tuple[int, int, str]:
    of = world.status.recovery
    return of.running_seconds, of.lost_seconds, of.goodput


def test_a_restart_is_measured_from_the_failure_of_the_job():
    world = life()
    world.fail("js-workers-0")
    world.seconds += 2
    recover(world, drain=10, start=7)
    assert times(world) == [(0, None, None, 0, 5, 100), (1, 2, 12, 12, 19, 0)]
    assert account(world) == (100, 24, "80.6%"), "5 s until it was ready first, and 19 s for the restart"
    assert world.status.recovery.attempts[1].since == "2026-01-01T00:01:45Z"


def test_a_start_that_was_over_before_the_first_write_is_measured_from_its_first_job():
    world = World(jobset(rjob("workers", 2), failurePolicy=POLICY), **GATE)
    world.counts_waited = 0.0
    world.settle()
    assert not world.status.replicated_jobs_status, "the first counts wait for the pods"
    world.seconds += 3
    world.run()
    world.settle()
    assert times(world) == [(0, None, None, 0, 3, 0)]
    world.seconds += 7
    world.fail("js-workers-0")
    recover(world, drain=1, start=1)
    assert times(world) == [(0, None, None, 0, 3, 7), (1, 0, 1, 1, 2, 0)], "the failure is a recovery of its own"


def test_all_seconds_are_counted_when_the_set_completes():
    world = life()
    world.finish("js-workers-0")
    world.settle()
    world.seconds += 20
    world.finish("js-workers-1")
    world.settle()
    assert account(world) == (120, 5, "96.0%")
    assert (world.status.recovery.running, world.status.recovery.since) == (False, "")


def test_seconds_from_the_failure_on_are_lost_when_the_set_fails():
    world = life(policy={"maxRestarts": 0})
    world.fail("js-workers-0")
    world.seconds += 9
    world.settle()
    assert account(world) == (100, 14, "87.7%")
    assert times(world) == [(0, None, None, 0, 5, 100)]


def test_a_failure_of_a_node_counts_from_its_taint():
    world = life(kind=NodeWorld, policy={**POLICY, "nodeFailure": {"afterSeconds": 30}}, JobSetNodeFailure=True)
    on_failed_node(world)
    world.seconds += 30
    world.step()
    assert times(world)[1][:2] == (1, 30)
    assert account(world) == (100, 35, "74.0%"), "what was not noticed is lost all the same"


def test_a_suspension_is_neither_running_nor_lost():
    world = life()
    suspend(world)
    world.halt()
    world.seconds += 1000
    world.settle()
    assert world.status.recovery.since == ""
    resume(world)
    world.seconds += 4
    world.run()
    world.settle()
    assert account(world) == (100, 9, "91.7%")
    assert times(world) == [(0, None, None, 0, 5, 100), (1, None, None, None, 4, 0)]


def test_a_restart_of_one_job_is_an_entry_of_the_same_attempt():
    world = life(
        policy={**POLICY, "rules": [{"name": "alone", "action": "RestartJob"}]},
        RestartJob=True,
    )
    world.fail("js-workers-0")
    world.seconds += 1
    recover(world, drain=3, start=5)
    assert times(world) == [(0, None, None, 0, 5, 100), (0, 1, 4, 4, 9, 0)]


def test_a_stage_that_waits_for_another_does_not_keep_the_set_from_running():
    waits = [{"name": "first", "status": "Complete"}]
    world = life(rjob("first", 1), rjob("second", 1, dependsOn=waits))
    assert world.status.recovery.running
    world.finish("js-first-0")
    world.settle()
    assert account(world) == (100, 5, "95.2%")
    assert not world.status.recovery.running, "the second is to run now, and does not yet"


def test_another_failure_before_the_set_was_ready_is_a_recovery_of_its_own():
    world = life()
    world.fail("js-workers-0")
    world.settle()
    world.seconds += 3
    world.collect()
    world.settle()
    world.run("js-workers-0")
    world.fail("js-workers-0")
    recover(world, drain=2, start=2)
    assert times(world)[1:] == [(1, 0, 3, 3, None, 0), (2, 0, 2, 2, 4, 0)]
    assert account(world) == (100, 12, "89.2%")


def test_only_the_last_entries_are_kept_and_all_seconds_count():
    world = life()
    for _ in range(MAX_HISTORY + 2):
        world.fail("js-workers-0")
        recover(world, drain=1, start=1)
    assert [of[0] for of in times(world)] == list(range(3, MAX_HISTORY + 3))
    assert account(world)[:2] == (100, 5 + 2 * (MAX_HISTORY + 2))


def test_it_takes_less_than_two_kib_of_the_status():
    seconds = 10**9
    entry = AttemptTimes(
        attempt=2**31 - 1,
        since="2026-01-01T00:00:00Z",
        detected_after_seconds=seconds,
        drained_after_seconds=seconds,
        created_after_seconds=seconds,
        ready_after_seconds=seconds,
        running_seconds=seconds,
    )
    whole = Recovery(
        running_seconds=seconds, lost_seconds=seconds, spare_seconds=seconds, goodput="99.9%", running=True,
        since=entry.since, attempts=(entry,) * MAX_HISTORY,
    )  # fmt: skip
    assert len(msgspec.json.encode(whole)) <= 2_500


def test_what_was_noted_goes_with_the_next_write_once_the_gate_is_off():
    world = life()
    world.gates = World(world.js).gates
    assert world.step().status is None, "no write for that alone"
    assert world.status.recovery is not None
    world.fail("js-workers-0")
    world.step()
    assert world.status.recovery is None


@pytest.mark.parametrize("since", ["", "yesterday", "2026-01-01T00:00:00", "2027-01-01T00:00:00Z"])
def test_a_time_that_cannot_be_is_no_time(since):
    """Such as one that a manager whose clock was ahead has written."""
    world = life()
    world.js = msgspec.structs.replace(
        world.js,
        status=msgspec.structs.replace(
            world.status, recovery=msgspec.structs.replace(world.status.recovery, since=since)
        ),
    )
    world.fail("js-workers-0")
    recover(world, drain=0, start=0)
    assert account(world)[0] == 0
    assert elapsed_seconds(since, world.now) == 0


@pytest.mark.parametrize(
    ("running", "lost", "share"), [(0, 0, ""), (1, 0, "100.0%"), (99_999, 1, "99.9%"), (0, 7, "0.0%"), (2, 1, "66.6%")]
)
def test_goodput_is_rounded_down(running, lost, share):
    assert goodput(running, lost) == share
