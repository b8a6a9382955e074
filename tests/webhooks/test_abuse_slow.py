"""Senders that are slow or stand still: they keep nobody else from sending, and hold a bounded number of bytes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import engine
from tests.support.asgi import post
from tests.support.objects.jobsets import jobset, stored
from tests.support.objects.reviews import answer, encode, review
from webhooks.body import BODY_LIMITS, BodyLimits
from webhooks.jobset.handlers import VALIDATE_PATH, jobset_handlers
from webhooks.review import MAX_BODY
from webhooks.router import create_app

pytestmark = pytest.mark.looptime


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Model time does not wait for threads."""

    async def at_once(function: Callable[[], Any]) -> Any:
        return function()

    monkeypatch.setattr(asyncio, "to_thread", at_once)


GOOD = encode(review(stored(jobset())))
LARGE = GOOD + b" " * (300 * 1024 - len(GOOD))
PIECE = 64 * 1024


@dataclass
class Senders:
    """Clients of one app; each is a task that sends its pieces with pauses between them."""

    limits: BodyLimits = BODY_LIMITS
    app: Any = field(init=False)

    def __post_init__(self) -> None:
        self.app = create_app(jobset_handlers(engine(FeatureGates())), limits=self.limits)

    async def send(self, body: bytes, pauses: Iterable[float] = ()) -> int:
        """The code of the answer; the pauses follow the first pieces."""
        http = await post(self.app, VALIDATE_PATH, _pieces(body, iter(pauses)))
        code: int = answer(http.body)["status"]["code"]
        return code

    def stalled(self, count: int, sent: int) -> list[asyncio.Task[int]]:
        """Each has sent so many bytes, and sends no more."""
        pauses = [0.0] * (sent // PIECE - 1) + [1e6]
        return [asyncio.create_task(self.send(b" " * (sent + PIECE), pauses)) for _ in range(count)]


async def _pieces(body: bytes, pauses: Iterable[float]) -> AsyncIterator[bytes]:
    for start in range(0, len(body), PIECE):
        yield body[start : start + PIECE]
        for pause in pauses:
            await asyncio.sleep(pause)
            break


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_stalled_senders_do_not_make_a_large_review_wait():
    senders = Senders()
    stalled = senders.stalled(4, 5 * PIECE)
    await asyncio.sleep(0.1)
    begun = now()
    assert await senders.send(LARGE) == 200
    assert now() - begun < 0.1
    assert await asyncio.gather(*stalled) == [408] * 4


async def test_who_stands_still_is_given_up_when_the_bytes_it_sent_are_paid_for():
    begun = now()
    assert await asyncio.gather(*Senders().stalled(1, 16 * PIECE)) == [408]
    assert now() - begun == pytest.approx(BODY_LIMITS.grace_seconds + 16 * PIECE / BODY_LIMITS.min_rate)


async def test_who_sends_at_the_lowest_rate_is_answered_and_who_is_slower_is_not():
    body = GOOD + b" " * 2 * 2**20
    seconds = PIECE / BODY_LIMITS.min_rate
    assert await Senders().send(body, [seconds] * 100) == 200
    assert await Senders().send(body, [2 * seconds] * 100) == 408


async def test_nobody_may_take_longer_than_the_whole_time_for_a_body():
    begun = now()
    seconds = PIECE / BODY_LIMITS.min_rate
    assert await Senders(BodyLimits(min_rate=1)).send(b" " * MAX_BODY, [2 * seconds] * 1000) == 408
    assert now() - begun == pytest.approx(BODY_LIMITS.body_timeout)


@pytest.mark.parametrize("sizes", [(7, 6), (6, 7)])
async def test_of_too_many_bytes_the_largest_body_that_waits_is_dropped(sizes: tuple[int, int]):
    senders = Senders(BodyLimits(max_large_bytes=14 * PIECE))
    first, second = (
        [asyncio.create_task(senders.send(LARGE.ljust(2 * len(LARGE)), [0.0] * (n - 1) + [1.0]))] for n in sizes
    )
    await asyncio.sleep(0.1)
    assert await senders.send(LARGE) == 200
    codes = {size: await task for size, (task,) in zip(sizes, (first, second), strict=True)}
    assert codes == {7: 429, 6: 200}


async def test_of_bodies_of_one_size_the_one_that_waits_longest_for_its_sender_is_dropped():
    senders = Senders(BodyLimits(max_large_bytes=14 * PIECE))
    tasks = []
    for _ in range(2):
        tasks.append(asyncio.create_task(senders.send(LARGE.ljust(2 * len(LARGE)), [0.0] * 5 + [1.0])))
        await asyncio.sleep(0.1)
    assert await senders.send(LARGE) == 200
    assert await asyncio.gather(*tasks) == [429, 200]


@pytest.mark.parametrize(
    ("bodies", "most"),
    [
        pytest.param([GOOD.ljust(size) for size in (0, PIECE, BODY_LIMITS.large_bytes)], 0, id="small ones at once"),
        pytest.param([LARGE] * 5, 0.5, id="large ones soon"),
    ],
)
async def test_stalled_senders_that_hold_all_bytes_lock_nobody_out(bodies: list[bytes], most: float):
    senders = Senders()
    stalled = senders.stalled(3 * BODY_LIMITS.max_large_bytes // MAX_BODY, 96 * PIECE)
    await asyncio.sleep(0.1)
    begun = now()
    assert [await senders.send(body) for body in bodies] == [200] * len(bodies)
    assert now() - begun <= most
    assert set(await asyncio.gather(*stalled)) <= {408, 429}


async def test_bytes_are_given_back_however_a_review_ends():
    senders = Senders(BodyLimits(max_large_bytes=2 * len(LARGE)))
    for body in [LARGE, LARGE[:-1] + b"x", b" " * len(LARGE), b"{}" * MAX_BODY] * 3:
        await senders.send(body)
    for task in senders.stalled(3, 4 * PIECE):
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait([task])
    assert await senders.send(LARGE) == 200
