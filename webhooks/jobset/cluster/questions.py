"""Sends requests about one review to the API server, within bounds.

A transport that wraps the client's transport enforces the bounds, so that every request counts, retries included.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from kube.client import Client
from kube.errors import KubeError
from kube.model.field import FieldError
from kube.transport import Request, Response, Transport

MAX_REQUESTS = 16
"""The most requests about one review."""
MAX_REQUESTS_IN_FLIGHT = 4
"""The most requests about one review that are in flight at the same time."""
MAX_ASKING_REVIEWS = 16
"""The most reviews about which requests are sent at the same time."""
SLOT_TIMEOUT = 0.5
"""Seconds that a review waits for its slot. If very many reviews arrive at once, some are answered without requests."""

Question = Callable[[], Awaitable[list[FieldError]]]
"""Sends requests about one object, and returns the findings about it. Raises `KubeError` without an answer."""


class NotAskedError(KubeError):
    """The request was not sent: the limit of requests about this review was reached."""


class BusyError(KubeError):
    """The request was not sent: the limit of reviews with requests in flight was reached."""

    def __init__(self) -> None:
        super().__init__("other JobSets are being checked")


@dataclass(slots=True)
class _ReviewTransport:
    """The transport of one review. The first request waits for one of the `slots` of reviews (`MAX_ASKING_REVIEWS`)."""

    transport: Transport
    slots: asyncio.Semaphore
    requests_left: int
    in_flight: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_REQUESTS_IN_FLIGHT))
    slot_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    has_slot: bool = False
    is_refused: bool = False

    async def send(self, request: Request) -> Response:
        if not self.requests_left:
            raise NotAskedError
        self.requests_left -= 1
        async with self.slot_lock:
            await self._require_slot()
        async with self.in_flight:
            return await self.transport.send(request)

    async def _require_slot(self) -> None:
        if not self.has_slot and not self.is_refused:
            try:
                async with asyncio.timeout(SLOT_TIMEOUT):
                    self.has_slot = await self.slots.acquire()
            except TimeoutError:
                self.is_refused = True
        if self.is_refused:
            raise BusyError

    def stream(self, request: Request) -> contextlib.AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.transport.stream(request)

    async def close(self) -> None:
        """Release the slot. The wrapped transport stays open, as other reviews use it, too."""
        if self.has_slot:
            self.has_slot = False
            self.slots.release()


class ReviewClients:
    """Gives each review a client with limits. A process has one instance, which limits all reviews together."""

    def __init__(self, client: Client, max_requests: int) -> None:
        """`max_requests`: the most requests about one review. The limits of `client` apply, too."""
        self._client = client
        self._max_requests = max_requests
        self._slots = asyncio.Semaphore(MAX_ASKING_REVIEWS)

    @contextlib.asynccontextmanager
    async def client_for_review(self) -> AsyncIterator[Client]:
        """A client for the requests about one review, without retries of unanswered requests."""
        transport = _ReviewTransport(self._client.transport, self._slots, self._max_requests)
        try:
            yield self._client.without_retries(transport=transport)
        finally:
            await transport.close()


async def answers(questions: Sequence[Question], deadline: float) -> list[list[FieldError] | Exception]:
    """Ask all questions at once until the deadline (loop time). Returns the findings or the error of each question."""

    async def answer(question: Question) -> list[FieldError] | Exception:
        try:
            async with asyncio.timeout_at(deadline):
                return await question()
        except (KubeError, TimeoutError) as error:
            return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(answer(question)) for question in questions]
    return [task.result() for task in tasks]
