"""What failures cost, as the status keeps it: phases of each recovery, seconds that ran and that were lost."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from api.features import FeatureGates
from api.jobset_status import AttemptTimes, Recovery
from controllers.planning import recovery
from controllers.planning.recovery import HISTORY, elapsed_seconds, goodput
from tests.controllers.test_in_place import pod
from tests.controllers.test_node_failure import NodeWorld, on_failed_node
from tests.support.model.ledger import Ledger
from tests.support.model.lives import resume, suspend
from tests.support.model.replica import Fault, ModelTimeLoop, Replica
from tests.support.model.stale import Server
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

GATE = {"JobSetRecoveryTimes": True}
POLICY = {"maxRestarts": 20}
IN_PLACE = {**POLICY, "restartStrategy": "InPlaceRestart"}


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


def test_pods_that_are_not_ready_for_a_while_lose_seconds():
    world = life()
    world.run("js-workers-1", ready=False)
    world.settle()
    world.seconds += 6
    world.run()
    world.settle()
    assert account(world) == (100, 11, "90.0%")
    assert len(times(world)) == 1, "that is no recovery: nothing was decided"


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


def test_the_times_of_a_large_set_wait_for_its_old_pods():
    world = life(rjob("workers", 12))
    world.fail("js-workers-0")
    world.settle()
    world.seconds += 8
    world.end_pods()
    world.settle()
    world.seconds += 4
    world.run()
    world.settle()
    assert times(world)[1] == (1, 0, 8, 8, 12, 0)


def test_a_restart_in_place_drains_and_creates_nothing():
    world = life(rjob("workers", 2, parallelism=1, completions=1), policy=IN_PLACE, InPlaceRestart=True)
    report(world, 0, 0)
    world.settle()
    world.run("js-workers-0", ready=False)
    world.settle()
    world.seconds += 3
    report(world, 0, 1)
    world.settle()
    world.seconds += 4
    report(world, 1, 1)
    world.run()
    world.settle()
    assert times(world) == [(0, None, None, 0, 5, 100), (0, 3, None, None, 7, 0)]
    assert account(world)[:2] == (100, 12)


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
    for _ in range(HISTORY + 2):
        world.fail("js-workers-0")
        recover(world, drain=1, start=1)
    assert [of[0] for of in times(world)] == list(range(3, HISTORY + 3))
    assert account(world)[:2] == (100, 5 + 2 * (HISTORY + 2))


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
        running_seconds=seconds, lost_seconds=seconds, goodput="99.9%", running=True, since=entry.since,
        attempts=(entry,) * HISTORY,
    )  # fmt: skip
    assert len(msgspec.json.encode(whole)) <= 2_500


def without(plan: Any) -> tuple[Any, ...]:
    """A plan as it is without what was noted."""
    bare = [None if of is None else msgspec.structs.replace(of, recovery=None) for of in (plan.status, plan.counters)]
    actions = [replace(of, build=None) if hasattr(of, "build") else of for of in plan.actions]
    return actions, *bare, plan.events, plan.requeue_after, plan.status_first, plan.warnings


def test_with_the_gate_every_plan_writes_when_it_would_without_it():
    both = [life(JobSetRecoveryTimes=on) for on in (True, False)]
    for world in both:
        world.fail("js-workers-0")
        world.seconds += 2
        recover(world, drain=10, start=7)
        suspend(world)
        world.halt()
        resume(world)
    noting, bare = both
    assert [without(plan) for plan in noting.plans] == [without(plan) for plan in bare.plans]
    assert all(plan.status is None or plan.status.recovery is None for plan in bare.plans)
    assert noting.status.recovery is not None


def test_what_was_noted_goes_with_the_next_write_once_the_gate_is_off():
    world = life()
    world.gates = World(world.js).gates
    assert world.step().status is None, "no write for that alone"
    assert world.status.recovery is not None
    world.fail("js-workers-0")
    world.step()
    assert world.status.recovery is None


def test_a_set_that_runs_when_the_gate_is_turned_on_is_counted_from_its_next_write():
    world = life(JobSetRecoveryTimes=False)
    world.gates = World(world.js, **GATE).gates
    assert world.step().status is None
    world.finish("js-workers-0")
    world.settle()
    assert (world.status.recovery.running, times(world), account(world)) == (True, [], (0, 0, ""))
    world.seconds += 30
    world.finish("js-workers-1")
    world.settle()
    assert account(world) == (30, 0, "100.0%")


def test_a_second_that_passes_between_the_plan_and_its_write_is_counted_once():
    """The ledger judges the sums of both writes."""
    gates = FeatureGates(GATE)
    server = Server(Ledger(gates, create_suspended=True))

    def later() -> None:
        server.seconds += 1

    with contextlib.closing(ModelTimeLoop(lambda: float(server.seconds))) as loop:
        server.new_jobset(jobset(rjob("a", 1, parallelism=1, completions=1)))
        replica = Replica(server, loop, gates, create_suspended=True)
        replica.reconcile(Fault("meanwhile", 0), later)
        assert server.jobset.status.recovery.since == "2026-01-01T00:00:00Z", "when it was planned"
        server.seconds = 8
        server.run("js-a-0", ready=True)
        replica.catch_up()
        replica.reconcile()
    recovery = server.jobset.status.recovery
    assert (recovery.since, recovery.lost_seconds, recovery.running) == ("2026-01-01T00:00:08Z", 8, True)


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


def test_no_job_counts_as_created_before_the_old_ones_were_gone(monkeypatch: pytest.MonkeyPatch):
    """As where the Job that was missing when they were gone is not wanted any more, and the others came before."""
    monkeypatch.setattr(recovery, "_lacks_jobs", lambda _: False)
    job = SimpleNamespace(metadata=SimpleNamespace(creation_timestamp="2026-01-01T00:00:03Z"))
    ctx: Any = SimpleNamespace(
        now="2026-01-01T00:00:09Z",
        observed=SimpleNamespace(jobs=(job,)),
        children=SimpleNamespace(previous=()),
        leftovers=frozenset(),
    )
    entry = AttemptTimes(attempt=1, since="2026-01-01T00:00:00Z", detected_after_seconds=1, drained_after_seconds=6)
    assert recovery._gone_on(ctx, entry, runs=False).created_after_seconds == 6
