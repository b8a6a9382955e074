"""Many writes side by side."""

import asyncio

import pytest

from kube.errors import Call, Conflict, TransportError, from_response
from kube.parallel import PARALLEL_WRITES, each
from tests.support.model.faults import status_body

pytestmark = pytest.mark.looptime

CONFLICT = from_response(409, {}, status_body(409, message="taken"), Call("patch", "/x"))


async def test_all_are_done_a_bounded_number_at_a_time():
    running, most, done = 0, 0, []

    async def act(item: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1
        done.append(item)

    began = asyncio.get_running_loop().time()
    assert await each(range(3 * PARALLEL_WRITES), act) == []
    assert sorted(done) == list(range(3 * PARALLEL_WRITES))
    assert most == PARALLEL_WRITES
    assert asyncio.get_running_loop().time() - began == pytest.approx(3, abs=0.1)


async def test_nothing_to_do():
    async def act(_: int) -> None:
        raise AssertionError

    assert await each([], act) == []


async def test_failures_in_the_order_of_the_items_and_the_rest_is_done():
    done = []

    async def act(item: int) -> None:
        await asyncio.sleep(10 - item)
        if item == 2:
            raise CONFLICT
        if item == 5:
            raise TransportError("reset")
        if item == 7:
            raise TimeoutError
        done.append(item)

    failures = await each(range(9), act, lambda item: f"item {item}: ")
    assert [type(failure.error) for failure in failures] == [Conflict, TransportError, TimeoutError]
    assert [str(failure) for failure in failures[:2]] == ["item 2: taken", "item 5: reset"]
    assert sorted(done) == [0, 1, 3, 4, 6, 8]


async def test_nothing_more_is_begun_once_there_is_no_use():
    begun = []

    async def act(item: int) -> None:
        begun.append(item)
        await asyncio.sleep(1)
        raise CONFLICT

    failures = await each(range(1000), act, until=lambda: len(begun) >= PARALLEL_WRITES)
    assert len(begun) == PARALLEL_WRITES
    assert len(failures) == PARALLEL_WRITES


async def test_a_bug_is_not_taken_for_a_failed_write():
    async def act(item: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        await each([1], act)


async def test_a_cancellation_reaches_all_of_them():
    ended = []

    async def act(item: int) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(item)

    task = asyncio.create_task(each(range(5), act))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == list(range(5))
