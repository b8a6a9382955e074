"""An event loop in a thread of its own, beside a program that blocks."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
END_SECONDS = 30


class Loop:
    """Runs coroutines and functions in the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin, without waiting here for the end."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 30) -> T:
        return self.start(work).result(seconds)

    def call(self, act: Callable[[], None]) -> None:
        """Schedule a call in the loop."""
        self._loop.call_soon_threadsafe(act)


@contextlib.contextmanager
def running_loop() -> Iterator[Loop]:
    """A loop for the length of the block; what still runs there at its end is cancelled."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def wait_until_stopped() -> None:
        stop = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(wait_until_stopped()), name="loop", daemon=True)
    thread.start()
    loop, stop = started.result(END_SECONDS)
    try:
        yield Loop(loop)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(END_SECONDS)
