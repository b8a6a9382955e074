"""Looks something up in the cluster once for many reviews, and remembers the answer for a while."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from kube.model.expiring import Expiring

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lookups(Generic[K, V]):
    """Answers by key. Times are of the event loop."""

    def __init__(self, size: int) -> None:
        """`size`: answers that are remembered, the latest."""
        self._known: Expiring[K, V] = Expiring(size)
        self._asking: dict[K, asyncio.Lock] = {}

    async def get(self, key: K, look: Callable[[], Awaitable[V]], kept: Callable[[V], float]) -> V:
        """The cached answer, or that of `look`, which is then cached for `kept` seconds. Raises what `look` does.

        Concurrent callers of one key share one request.
        """
        now = asyncio.get_running_loop().time
        lock = self._asking.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                answer = self._known.get(key, now())
                if answer is None:
                    answer = await look()
                    self._known.put(key, answer, now() + kept(answer))
        finally:
            if not lock.locked():
                self._asking.pop(key, None)
        return answer
