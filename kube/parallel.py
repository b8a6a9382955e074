"""Sends writes concurrently, a limited number at a time. A failed write stops no other write."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kube.errors import ApiError, KubeError

T = TypeVar("T")

PARALLEL_WRITES = 24
"""The most requests in flight for one call of `each`. The rate limit of the client applies, too."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of a write; `label` begins its text."""

    label: str
    error: Exception

    def __str__(self) -> str:
        return self.label + (self.error.message if isinstance(self.error, ApiError) else str(self.error))


async def each(
    items: Sequence[T],
    act: Callable[[T], Awaitable[None]],
    label: Callable[[T], str] = lambda _: "",
    *,
    until: Callable[[], bool] = lambda: False,
) -> list[Failure]:
    """Act on every item, at most `PARALLEL_WRITES` at a time. Returns the failures in the order of the items.

    Once `until` returns True, no further item is started.
    """
    if not items:
        return []
    queue = enumerate(items)
    failures: dict[int, Failure] = {}

    async def worker() -> None:
        for number, item in queue:
            if until():
                return
            try:
                await act(item)
            except (KubeError, TimeoutError) as error:
                failures[number] = Failure(label(item), error)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(PARALLEL_WRITES, len(items))):
            group.create_task(worker())
    return [failures[number] for number in sorted(failures)]
