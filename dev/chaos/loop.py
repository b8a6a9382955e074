"""An event loop in a thread of its own, for relays beside a program that blocks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class Loop:
    """Runs coroutines and functions over there, and waits for them here."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 30) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def call(self, act: Callable[[], None]) -> None:
        """Do something there, some time soon."""
        self._loop.call_soon_threadsafe(act)


@contextlib.contextmanager
def running_loop() -> Iterator[Loop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="relays", daemon=True)
    thread.start()
    try:
        yield Loop(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()
