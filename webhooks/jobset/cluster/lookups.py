"""Caches answers of the cluster, so that many reviews share one request."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from kube.model.expiring import Expiring

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lookups(Generic[K, V]):
    """The last `max_answers` answers by key. Times are of the event loop."""

    def __init__(self, max_answers: int) -> None:
        self._answers: Expiring[K, V] = Expiring(max_answers)
        self._locks: dict[K, asyncio.Lock] = {}

    async def get(self, key: K, look_up: Callable[[], Awaitable[V]], cache_seconds: Callable[[V], float]) -> V:
        """The cached answer, or the answer of `look_up`, which is then cached for `cache_seconds(answer)` seconds.

        Concurrent callers with one key share one request. Raises the errors of `look_up`.
        """
        now = asyncio.get_running_loop().time
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                answer = self._answers.get(key, now())
                if answer is None:
                    answer = await look_up()
                    self._answers.put(key, answer, now() + cache_seconds(answer))
        finally:
            if not lock.locked():
                self._locks.pop(key, None)
        return answer
