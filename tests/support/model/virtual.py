"""Virtual time for tests: an hour of waiting takes no time, and what would hang for ever ends as a TimeoutError.

`run` makes a loop of its own, so that it can be used inside Hypothesis examples; tests that are plain coroutines can use
`@pytest.mark.looptime` instead.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import looptime

T = TypeVar("T")

FOREVER = 10_000_000.0
"""Virtual seconds after which a test counts as hanging."""


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function on a fresh loop whose clock jumps to the next timer."""

    async def body() -> T:
        async with asyncio.timeout(FOREVER):
            return await main()

    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0.0, noop_cycles=2)) as runner:
        return runner.run(body())
