"""The relay serves watches as of some seconds ago, in model time."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dev.chaos.relay import Relay

pytestmark = pytest.mark.looptime


class Watch:
    """Parts of an answer, one a second; then it ends, or breaks."""

    def __init__(self, parts: int, error: Exception | None = None) -> None:
        self.parts = parts
        self.error = error

    async def iter_any(self) -> AsyncIterator[bytes]:
        for number in range(self.parts):
            await asyncio.sleep(1)
            yield b"%d" % number
        if self.error:
            raise self.error


@pytest.fixture
def relay() -> Relay:
    return Relay(1, 2, Path(), "lease", random.SystemRandom())


async def shown(relay: Relay, watch: Watch) -> list[tuple[float, bytes]]:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    return [(round(loop.time() - begun, 1), part) async for part in relay._delayed_chunks(watch)]


async def test_all_of_a_watch_comes_at_once_from_an_api_server_that_is_not_behind(relay: Relay):
    assert await shown(relay, Watch(3)) == [(1, b"0"), (2, b"1"), (3, b"2")]


async def test_an_api_server_that_is_behind_shows_everything_late_and_in_its_order(relay: Relay):
    relay.conditions.watch_delay = 5.0
    assert await shown(relay, Watch(3)) == [(6, b"0"), (7, b"1"), (8, b"2")]


async def test_it_catches_up_at_once(relay: Relay):
    relay.conditions.watch_delay = 60.0
    asyncio.get_running_loop().call_later(10, setattr, relay.conditions, "watch_delay", 0.0)
    assert {at for at, _ in await shown(relay, Watch(3))} == {10}


async def test_a_watch_that_breaks_does_so_after_all_it_had_to_show(relay: Relay):
    relay.conditions.watch_delay = 5.0
    with pytest.raises(ConnectionError):
        await shown(relay, Watch(1, ConnectionError()))
