"""The work queue, alone and under random load on virtual time."""

import asyncio
import random

import pytest
import uvloop
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kube.workqueue import COUNTED, EARLY_SECONDS, LOW_PRIORITY, OLDEST_EVERY, WorkQueue
from tests.support.model.virtual import run

pytestmark = pytest.mark.looptime


async def drain(queue: WorkQueue[str]) -> list[str]:
    """Take everything that is ready, without waiting."""
    keys = []
    while (key := queue._take()) is not None:
        keys.append(key)
        queue.done(key)
    return keys


def clock() -> float:
    return asyncio.get_running_loop().time()


async def test_a_key_waits_once_however_often_it_is_added():
    queue = WorkQueue[str]()
    for _ in range(3):
        queue.add("a")
    queue.add("b")
    assert len(queue) == 2
    assert await drain(queue) == ["a", "b"]


async def test_a_long_delay_costs_the_same_however_often_the_key_is_added_meanwhile():
    queue = WorkQueue[str]()
    for _ in range(10_000):
        queue.add_after("a", 604_800)
        queue.add("a")
        assert await drain(queue) == ["a"]
    queue.add_after("a", 604_800)
    assert len(queue) == 1
    assert len(queue._delayed) < 200
    await asyncio.sleep(604_800)
    assert await drain(queue) == ["a"]


async def test_a_delay_may_be_longer_than_anybody_lives():
    queue = WorkQueue[str]()
    queue.add_after("a", float(2**63 - 1))
    queue.add_after("b", 1)
    await asyncio.sleep(1)
    assert await drain(queue) == ["b"]


async def test_higher_priority_first_then_first_come():
    queue = WorkQueue[str]()
    queue.add("initial-1", LOW_PRIORITY)
    queue.add("initial-2", LOW_PRIORITY)
    queue.add("changed")
    assert queue.depth() == {LOW_PRIORITY: 2, 0: 1}
    assert await drain(queue) == ["changed", "initial-1", "initial-2"]


@pytest.mark.parametrize("priority", [COUNTED.priority, LOW_PRIORITY])
async def test_a_flood_of_higher_priority_holds_up_no_key_for_long(priority: int):
    """A key behind n older ones is among the next OLDEST_EVERY * (n + 1), and a flood goes before most of them."""
    queue, taken = WorkQueue[str](), list[str]()
    for number in range(5):
        queue.add(f"old-{number}", priority)
    for number in range(5 * OLDEST_EVERY):
        queue.add(f"new-{number}")
        queue.add(f"newer-{number}")
        key = await queue.get()
        taken.append(key)
        queue.done(key)
    places = [taken.index(f"old-{number}") + 1 for number in range(5)]
    assert places == [OLDEST_EVERY * (number + 1) for number in range(5)]


async def test_a_key_gets_the_highest_priority_it_was_added_with():
    queue = WorkQueue[str]()
    queue.add("a", LOW_PRIORITY)
    queue.add("b", LOW_PRIORITY)
    queue.add("b", 0)
    queue.add("b", LOW_PRIORITY)
    assert await drain(queue) == ["b", "a"]


async def test_a_key_added_while_in_flight_is_handed_out_once_more_afterwards():
    queue = WorkQueue[str]()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):
            await queue.get()
    queue.done("a")
    assert await drain(queue) == ["a"]


async def test_a_delayed_key_comes_in_time_and_the_earliest_delay_wins():
    queue = WorkQueue[str]()
    start = clock()
    queue.add_after("a", 60)
    queue.add_after("a", 10)
    queue.add_after("a", 30)
    assert queue.depth() == {}
    assert await queue.get() == "a"
    assert clock() - start == pytest.approx(10)
    queue.done("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):
            await queue.get()


def test_a_key_that_is_due_takes_one_call_of_a_timer():
    """The clock of uvloop counts milliseconds: a delay may end between two of them."""

    async def main() -> int:
        queue, calls = WorkQueue[int](), 0
        promote = queue._release_due_keys

        def count() -> None:
            nonlocal calls
            calls += 1
            promote()

        queue._release_due_keys = count
        for number in range(20):
            queue.add_after(number, 0.0054)
            queue.done(await queue.get())
        return calls

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == 20


async def test_a_higher_priority_does_not_put_a_key_off():
    queue = WorkQueue[str]()
    start = clock()
    queue.add_after("a", 10, LOW_PRIORITY)
    queue.add_after("a", 60, 0)
    await queue.get()
    assert clock() - start == pytest.approx(10)


async def test_an_add_overtakes_a_delay():
    queue = WorkQueue[str]()
    queue.add_after("a", 3600)
    queue.add("a")
    assert await drain(queue) == ["a"]


async def test_a_delay_that_ends_while_the_key_is_in_flight_waits_for_done():
    queue = WorkQueue[str]()
    queue.add("a")
    await queue.get()
    queue.add_after("a", 5)
    await asyncio.sleep(6)
    assert await drain(queue) == []
    queue.done("a")
    assert await drain(queue) == ["a"]


async def test_back_off_doubles_to_its_cap_and_is_forgotten():
    queue = WorkQueue[str]()
    waits = []
    for _ in range(20):
        start = clock()
        queue.add_rate_limited("a")
        assert await queue.get() == "a"
        waits.append(clock() - start)
        queue.done("a")
    assert waits[:4] == pytest.approx([0.005, 0.01, 0.02, 0.04], abs=1e-5)
    assert waits[-1] == pytest.approx(1000)
    assert queue.failures("a") == 20
    queue.forget("a")
    start = clock()
    queue.add_rate_limited("a")
    await queue.get()
    assert clock() - start == pytest.approx(0.005, abs=1e-5)


async def test_the_server_may_ask_for_a_longer_back_off():
    queue = WorkQueue[str]()
    start = clock()
    queue.add_rate_limited("a", at_least=7)
    await queue.get()
    assert clock() - start == pytest.approx(7)


async def test_shutdown_releases_workers_and_takes_nothing_more():
    queue = WorkQueue[str]()
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(queue.get()) for _ in range(3)]
        await asyncio.sleep(1)
        queue.shutdown()
    assert [task.result() for task in waiting] == [None] * 3
    queue.add("a")
    assert await queue.get() is None


async def test_a_cancelled_worker_does_not_swallow_the_wake_up_of_another():
    queue = WorkQueue[str]()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(queue.get())
        second = group.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        async with asyncio.timeout(10):
            assert await second == "a"


async def test_metrics_and_gauges():
    reported = []

    class Metrics:
        def on_add(self):
            reported.append("added")

        def on_take(self, waited):
            reported.append(("taken", round(waited, 3)))

        def on_done(self, worked):
            reported.append(("finished", round(worked, 3)))

        def on_retry(self):
            reported.append("retried")

    queue = WorkQueue[str](metrics=Metrics())
    queue.add("a")
    queue.add("a")
    queue.add("b")
    await asyncio.sleep(2)
    await queue.get()
    await asyncio.sleep(3)
    await queue.get()
    await asyncio.sleep(1)
    assert (queue.unfinished_seconds(), queue.longest_running_seconds()) == (pytest.approx(5), pytest.approx(4))
    queue.done("a")
    queue.add_rate_limited("a")
    assert reported == ["added", "added", ("taken", 2), ("taken", 5), ("finished", 4), "retried", "added"]


PLAN = st.lists(
    st.tuples(
        st.sampled_from(["add", "low", "after", "limited", "sleep"]),
        st.integers(0, 3),
        st.floats(0, 20, allow_nan=False),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(plan=PLAN, workers=st.integers(1, 3), seed=st.integers(0, 2**32))
@example(plan=[("limited", 1, 0.0), ("sleep", 0, 0.001), ("limited", 0, 0.0)], workers=1, seed=1)
def test_never_twice_at_once_and_no_add_is_lost(plan, workers, seed):
    """Whatever is added when, a key is never with two workers, and work starts for it after every add of it."""

    async def main():
        rng = random.Random(seed)  # noqa: S311
        queue: WorkQueue[int] = WorkQueue()
        in_flight: set[int] = set()
        owed: dict[int, float] = {}
        late: list[float] = []

        async def worker():
            while (key := await queue.get()) is not None:
                assert key not in in_flight
                in_flight.add(key)
                late.append(clock() - owed.pop(key, clock()))
                await asyncio.sleep(rng.choice([0, 0, 0.5, 7]))
                in_flight.discard(key)
                queue.done(key)

        def owe(key, seconds):
            owed[key] = min(owed.get(key, float("inf")), clock() + seconds)

        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(worker())
            for verb, key, seconds in plan:
                match verb:
                    case "add" | "low":
                        queue.add(key, 0 if verb == "add" else LOW_PRIORITY)
                        owe(key, 0)
                    case "after":
                        queue.add_after(key, seconds)
                        owe(key, seconds)
                    case "limited":
                        wait = min(1000, 0.005 * 2 ** queue.failures(key))
                        queue.add_rate_limited(key)
                        owe(key, wait)
                    case "sleep":
                        await asyncio.sleep(seconds)
            await asyncio.sleep(20_000)
            assert not owed, "an add was lost"
            assert len(queue) == 0
            assert max(late, default=0) <= 7 * (len(plan) + 1), "only busy workers may make a key late"
            assert min(late, default=0) >= -EARLY_SECONDS - 1e-5, "handed out before its time"
            queue.shutdown()

    run(main)
