"""Sends the API server several questions side by side, within bounds; none is awaited beyond the deadline."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from api.field import FieldError
from kube.errors import KubeError

MAX_IN_FLIGHT = 16
"""Questions in flight at once, of all admission requests of this process."""
PER_REQUEST = 8
"""Questions in flight of one admission request, so that a JobSet with many children does not make others wait."""

Ask = Callable[[], Awaitable[list[FieldError]]]


class Questions:
    """One for a process: it bounds what is in flight."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)

    async def answers(
        self, asks: Sequence[Ask], deadline: float, *, turn_timeout: float = math.inf
    ) -> list[list[FieldError] | Exception]:
        """The answer to each question, or why there is none. Never later than the deadline.

        `turn_timeout` is how long, in seconds, a question waits for its turn.
        """
        answers: list[list[FieldError] | Exception] = [TimeoutError() for _ in asks]
        queue = enumerate(asks)

        async def worker() -> None:
            for number, ask in queue:
                try:
                    async with asyncio.timeout_at(deadline), self._turn(turn_timeout):
                        answers[number] = await ask()
                except (KubeError, TimeoutError) as error:
                    answers[number] = error

        async with asyncio.TaskGroup() as group:
            for _ in range(min(PER_REQUEST, len(asks))):
                group.create_task(worker())
        return answers

    @contextlib.asynccontextmanager
    async def _turn(self, turn_timeout: float) -> AsyncIterator[None]:
        async with asyncio.timeout(None if math.isinf(turn_timeout) else turn_timeout):
            await self._slots.acquire()
        try:
            yield
        finally:
            self._slots.release()
