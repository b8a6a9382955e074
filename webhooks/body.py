"""Reads the body of an admission review as it arrives, within limits of time and memory."""

import asyncio
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from starlette.types import Receive, Scope

from webhooks.offload import CostlyReview, Turn, Turns, compute, costly_review
from webhooks.review import MAX_BODY, Review, ReviewError, check_fields, decode_review, field_count

_MAX_DISCARDED_BYTES = 4 * MAX_BODY
"""Bytes of a too large body that are read and discarded: a sender reads the answer only after its last byte."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Limits of the time and memory of reviews. Large, medium and smaller bodies have their own limits."""

    body_timeout: float = 10.0
    """Seconds in which the whole body has to arrive: the API server waits as long."""

    grace_seconds: float = 3.0
    """Seconds added to the time that the bytes take at `min_rate`."""

    min_rate: int = 256 * 1024
    """The lowest rate, in bytes per second: a hundredth of the rate of a cluster's network."""

    max_large_bytes: int = 24 * 1024 * 1024
    """Bytes of large bodies held until they are decoded. Beyond them the largest waiting body is dropped."""

    max_small_bytes: int = 32 * 1024 * 1024
    """Bytes of smaller bodies held until they are decoded: enough for a medium body on every connection."""

    large_bytes: int = 256 * 1024
    """Bytes above which a review is large: ten times what people write."""

    large_fields: int = 16 * 1024
    """Fields and items above which a review is large, however few bytes it has."""

    max_large_reviews: int = 2
    """The most large reviews that are worked on at once. Each takes some 200 MiB at worst."""

    medium_bytes: int = 32 * 1024
    """Bytes above which a review waits for a slot among `max_medium_reviews`."""

    max_medium_reviews: int = 16

    costly_fields: int = 2048
    """Fields and items above which a review needs a slot and a thread, at 4 microseconds for each of them."""


BODY_LIMITS = BodyLimits()


class BodyPool:
    """Resources that bodies of about one size share: bytes, slots for processing, and one thread.

    If there are too many bytes, the largest body that is not being processed is dropped, even if it is the new body.
    """

    def __init__(self, max_bytes: int, max_reviews: int) -> None:
        self.slots = Turns(max_reviews)
        self.thread = Turns()
        self.held_bytes = 0
        self._max_bytes = max_bytes
        self._droppable: dict[Body, None] = {}
        """Bodies that may be dropped, in the order in which their last bytes arrived."""

    @property
    def is_idle(self) -> bool:
        """Whether no body is held, is processed, or waits."""
        return not self.held_bytes and self.slots.is_idle and self.thread.is_idle

    def hold(self, body: "Body", size: int) -> None:
        """Hold more bytes of a body, and drop the largest bodies if there are too many bytes."""
        self.held_bytes += size
        body.held_bytes += size
        self._droppable.pop(body, None)
        self._droppable[body] = None
        while self.held_bytes > self._max_bytes and self._droppable:
            max(self._droppable, key=lambda each: each.held_bytes).drop()

    def protect(self, body: "Body") -> None:
        """Protect a body from being dropped, because it is being processed."""
        self._droppable.pop(body, None)

    def release(self, body: "Body") -> None:
        """Release the bytes of a body."""
        self.protect(body)
        self.held_bytes -= body.held_bytes
        body.held_bytes = 0


class Bodies:
    """Resources that all reviews of an app share."""

    def __init__(self, limits: BodyLimits) -> None:
        self.limits = limits
        self.small = BodyPool(limits.max_small_bytes, limits.max_medium_reviews)
        self.large = BodyPool(limits.max_large_bytes, limits.max_large_reviews)

    @property
    def is_idle(self) -> bool:
        """Whether there is no review."""
        return self.small.is_idle and self.large.is_idle


@dataclass(slots=True, eq=False)
class Body:
    """The body of one request, as a context manager that releases the bytes and the slot of the body.

    If the client has disconnected while a thread processes the body, they are released when the thread is done.
    """

    bodies: Bodies
    pool: BodyPool = field(init=False)
    chunks: list[bytes] = field(default_factory=list, init=False)
    size: int = field(default=0, init=False)
    held_bytes: int = field(default=0, init=False)
    is_dropped: bool = field(default=False, init=False)
    slot: Turn | None = field(default=None, init=False)
    costly: CostlyReview | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.pool = self.bodies.small

    async def __aenter__(self) -> Self:
        costly_review.set(None)  # a task may inherit the context of the connection's last request
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.costly is None:
            self.drop()
        else:
            self.costly.call_when_idle(self.drop)

    async def review(self, scope: Scope, receive: Receive) -> Review:
        """The review in an ASGI request. Raises `ReviewError` if the body is no review, is too large, or too slow."""
        headers = dict(scope["headers"])
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
            raise ReviewError(400, "BadRequest", "Content-Type must be application/json", close=True)
        limits, start = self.bodies.limits, asyncio.get_running_loop().time()
        header = headers.get(b"content-length", b"")
        try:
            await self._receive(receive, int(header[:20]) if header.isdigit() else 0, start)
        except TimeoutError:
            message = f"the request body did not arrive within {limits.body_timeout:g} s, at {limits.min_rate} bytes/s"
            raise ReviewError(408, "Timeout", f"{message} or more", close=True) from None
        data = b"".join(self.chunks)
        self.chunks.clear()
        fields = field_count(data)
        check_fields(data, fields)
        if fields > limits.large_fields:
            self._move_to(self.bodies.large)
        is_costly = self.pool is self.bodies.large or fields > limits.costly_fields
        if is_costly or self.size > limits.medium_bytes:
            await self._wait_for_slot(fields, start + limits.body_timeout)
        if is_costly:
            self.costly = CostlyReview(self.pool.thread, fields)
            costly_review.set(self.costly)
        review = await compute(decode_review, data)
        self.pool.release(self)
        return review

    async def _receive(self, receive: Receive, length: int, start: float) -> None:
        """Receive the body and hold its bytes. Bytes of a too large body are discarded (`_MAX_DISCARDED_BYTES`).

        `length` is the announced number of bytes; 0 if it is unknown.
        """
        limits, is_too_large = self.bodies.limits, length > MAX_BODY
        self.is_dropped = is_too_large
        if length > limits.large_bytes:
            self.pool = self.bodies.large
        async with asyncio.timeout_at(start + min(limits.grace_seconds, limits.body_timeout)) as deadline:
            has_more = True
            while has_more and self.size <= _MAX_DISCARDED_BYTES:
                event = await receive()
                if event["type"] == "http.disconnect":
                    raise ReviewError(400, "BadRequest", "the client went away", close=True)
                chunk, has_more = event.get("body", b""), event.get("more_body", False)
                self.size += len(chunk)
                if has_more:
                    seconds = limits.grace_seconds + self.size / limits.min_rate
                    deadline.reschedule(start + min(seconds, limits.body_timeout))
                is_too_large = is_too_large or self.size > MAX_BODY
                if is_too_large:
                    self.drop()
                elif chunk and not self.is_dropped:
                    self._hold(chunk)
        if is_too_large:
            message = f"the request body is larger than {MAX_BODY} bytes"
            raise ReviewError(413, "RequestEntityTooLarge", message, close=True)
        self._refuse_if_dropped()

    def _hold(self, chunk: bytes) -> None:
        if self.size > self.bodies.limits.large_bytes:
            self._move_to(self.bodies.large)
        if not self.is_dropped:
            self.chunks.append(chunk)
            self.pool.hold(self, len(chunk))

    def _move_to(self, pool: BodyPool) -> None:
        if pool is not self.pool:
            size = self.held_bytes
            self.pool.release(self)
            self.pool = pool
            pool.hold(self, size)

    def drop(self) -> None:
        """Release the bytes of the body, and its slot or its wait for a slot."""
        self.is_dropped = True
        self.pool.release(self)
        self.chunks.clear()
        if self.slot is not None:
            self.pool.slots.end_turn(self.slot)

    def _refuse_if_dropped(self) -> None:
        if self.is_dropped:
            message = "other reviews hold all the bytes that there are for reviews of this size: try again"
            raise ReviewError(429, "TooManyRequests", message, close=True)

    async def _wait_for_slot(self, fields: int, deadline: float) -> None:
        """Wait until the body may be processed. A waiting body may be dropped."""
        self._refuse_if_dropped()
        self.slot = self.pool.slots.request_turn(fields)
        try:
            async with asyncio.timeout_at(deadline):
                await self.slot.begun
        except TimeoutError:
            message = "other reviews of this size are being worked on: try again"
            raise ReviewError(429, "TooManyRequests", message, close=True) from None
        self._refuse_if_dropped()
        self.pool.protect(self)
