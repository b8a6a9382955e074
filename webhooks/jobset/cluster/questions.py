"""Sends requests about one review to the API server, within bounds.

Every request counts, repeats included: a transport around the client's own enforces the bounds.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from kube.client import Client
from kube.errors import KubeError
from kube.model.field import FieldError
from kube.transport import Request, Response, Transport

PER_REVIEW = 16
"""Requests about one review."""
AT_ONCE = 4
"""Requests about one review that are in flight at once."""
REVIEWS = 16
"""Reviews about which requests are sent at once: together they send at most that many times `PER_REVIEW`."""
TURN_TIMEOUT = 0.5
"""Seconds that a review waits for its turn: if very many arrive at once, they are answered unchecked, not late."""

Ask = Callable[[], Awaitable[list[FieldError]]]


class NotAskedError(KubeError):
    """The request was not sent: the limit of requests about this review was reached."""


class BusyError(KubeError):
    """The request was not sent: the limit of reviews with requests in flight was reached."""

    def __init__(self) -> None:
        super().__init__("other JobSets are being checked")


@dataclass(slots=True)
class _Turn:
    """The transport of one review. Its first request waits for a slot among the reviews with requests."""

    transport: Transport
    slots: asyncio.Semaphore
    left: int
    in_flight: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    entering: asyncio.Lock = field(default_factory=asyncio.Lock)
    entered: bool = False
    busy: bool = False

    async def send(self, request: Request) -> Response:
        if not self.left:
            raise NotAskedError
        self.left -= 1
        async with self.entering:
            await self._enter()
        async with self.in_flight:
            return await self.transport.send(request)

    async def _enter(self) -> None:
        if not self.entered and not self.busy:
            try:
                async with asyncio.timeout(TURN_TIMEOUT):
                    self.entered = await self.slots.acquire()
            except TimeoutError:
                self.busy = True
        if self.busy:
            raise BusyError

    def stream(self, request: Request) -> contextlib.AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.transport.stream(request)

    async def close(self) -> None:
        """Release the slot; the inner transport stays open for others."""
        if self.entered:
            self.entered = False
            self.slots.release()


class Questions:
    """One instance for a process, since it limits the requests about all reviews in flight."""

    def __init__(self, client: Client, per_review: int) -> None:
        """`client`: its limits of rate and concurrency apply, too."""
        self._client = client
        self._per_review = per_review
        self._slots = asyncio.Semaphore(REVIEWS)

    @contextlib.asynccontextmanager
    async def about_one_review(self) -> AsyncIterator[Client]:
        """A client for the requests about one review. It does not repeat unanswered requests."""
        turn = _Turn(self._client.transport, self._slots, self._per_review)
        try:
            yield self._client.without_repeats(transport=turn)
        finally:
            await turn.close()


async def answers(asks: Sequence[Ask], deadline: float) -> list[list[FieldError] | Exception]:
    """The result of each coroutine, or its error; by the deadline (loop time)."""

    async def answer(ask: Ask) -> list[FieldError] | Exception:
        try:
            async with asyncio.timeout_at(deadline):
                return await ask()
        except (KubeError, TimeoutError) as error:
            return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(answer(ask)) for ask in asks]
    return [task.result() for task in tasks]
