"""Reading the body of a review as it comes, within limits of time and memory."""

import asyncio
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from fastapi import Request
from starlette.requests import ClientDisconnect

from webhooks.offload import compute, worker
from webhooks.review import MAX_BODY, Review, ReviewError, decode_review

_DISCARD = 4 * MAX_BODY
"""Bytes that are read and thrown away to let a sender of too much finish and hear the answer."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """What reviews may take of the process."""

    body_timeout: float = 10.0
    """Seconds in which the whole body has to arrive: the API server gives up on us after as long."""

    grace: float = 3.0
    """Seconds that a sender has beside those which its bytes take at the lowest rate."""

    min_rate: int = 256 * 1024
    """The lowest rate, in bytes per second: a hundredth of what a network inside a cluster gives."""

    held: int = 48 * 1024 * 1024
    """Bytes of bodies that are held at once. More drop the body that has waited longest for its sender."""

    large: int = 256 * 1024
    """Bytes above which a review is large: ten times what people write."""

    large_at_once: int = 2
    """Large reviews that are worked on at once, some 200 MiB each at worst; others wait, whole."""

    costly: int = 2048
    """Fields and items above which a review is worked on beside the event loop: each may take 4 microseconds."""


BODY_LIMITS = BodyLimits()


class Bodies:
    """What the reviews of an app share: the bytes that are held, the places of large ones, a worker beside the loop."""

    def __init__(self, limits: BodyLimits) -> None:
        self.limits = limits
        self.places = asyncio.Semaphore(limits.large_at_once)
        self.worker = asyncio.Lock()
        self.arriving: dict[Body, None] = {}
        """In the order of their last bytes, the oldest first."""
        self._held = 0

    def hold(self, size: int) -> None:
        """Count bytes; where they are too many, drop bodies that are still arriving."""
        self._held += size
        while self._held > self.limits.held and self.arriving:
            next(iter(self.arriving)).drop()

    def release(self, size: int) -> None:
        self._held -= size


@dataclass(slots=True, eq=False)
class Body:
    """The body of one request. What it takes of the process is given back at the end of the block."""

    bodies: Bodies
    chunks: list[bytes] = field(default_factory=list, init=False)
    size: int = field(default=0, init=False)
    held: int = field(default=0, init=False)
    dropped: bool = field(default=False, init=False)
    placed: bool = field(default=False, init=False)

    async def __aenter__(self) -> Self:
        worker.set(None)  # a task may inherit the context of the connection's last request
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()
        if self.placed:
            self.bodies.places.release()

    async def review(self, request: Request) -> Review:
        """The review that a request brings. Raises `ReviewError` if it brings none, or too much, or too slowly."""
        content_type = request.headers.get("content-type", "")
        if content_type.partition(";")[0].strip().lower() != "application/json":
            raise ReviewError(400, "BadRequest", "Content-Type must be application/json", close=True)
        limits, begun = self.bodies.limits, asyncio.get_running_loop().time()
        try:
            await self._arrive(request, begun)
        except TimeoutError:
            message = f"the request body did not arrive within {limits.body_timeout:g} s, at {limits.min_rate} bytes/s"
            raise ReviewError(408, "Timeout", f"{message} or more", close=True) from None
        except ClientDisconnect:
            raise ReviewError(400, "BadRequest", "the client went away", close=True) from None
        data = b"".join(self.chunks)
        self.chunks.clear()
        if self.size > limits.large:
            await self._take_place(begun + limits.body_timeout)
        if _fields(data) > limits.costly or self.size > limits.large:
            worker.set(self.bodies.worker)
        return await compute(decode_review, data)

    async def _arrive(self, request: Request, begun: float) -> None:
        """Hold the body as it comes. What is too much is read, too, so that its sender hears the answer."""
        limits = self.bodies.limits
        declared = request.headers.get("content-length", "")
        too_large = declared.isdecimal() and int(declared[:20]) > MAX_BODY
        self.dropped = too_large
        async with asyncio.timeout_at(begun + min(limits.grace, limits.body_timeout)) as deadline:
            async for chunk in request.stream():
                self.size += len(chunk)
                deadline.reschedule(begun + min(limits.grace + self.size / limits.min_rate, limits.body_timeout))
                too_large = too_large or self.size > MAX_BODY
                if too_large:
                    self.drop()
                elif not self.dropped:
                    self._hold(chunk)
                if self.size > _DISCARD:
                    break
        self.bodies.arriving.pop(self, None)
        if too_large:
            message = f"the request body is larger than {MAX_BODY} bytes"
            raise ReviewError(413, "RequestEntityTooLarge", message, close=True)
        if self.dropped:
            message = f"other reviews hold {limits.held} bytes: try again"
            raise ReviewError(429, "TooManyRequests", message, close=True)

    def _hold(self, chunk: bytes) -> None:
        self.chunks.append(chunk)
        self.held += len(chunk)
        self.bodies.arriving.pop(self, None)
        self.bodies.arriving[self] = None
        self.bodies.hold(len(chunk))

    def drop(self) -> None:
        """Hold nothing of the body any more."""
        self.dropped = True
        self.bodies.arriving.pop(self, None)
        self.bodies.release(self.held)
        self.held = 0
        self.chunks.clear()

    async def _take_place(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                self.placed = await self.bodies.places.acquire()
        except TimeoutError:
            message = f"other reviews of more than {self.bodies.limits.large} bytes are being worked on: try again"
            raise ReviewError(429, "TooManyRequests", message, close=True) from None


def _fields(data: bytes) -> int:
    """About how many fields and items there are in a text of JSON: what work on it takes goes by that, not by size."""
    return data.count(b":") + data.count(b",")
