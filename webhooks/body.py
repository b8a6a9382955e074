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

    large: int = 256 * 1024
    """Bytes above which a review is large. Ten times what people write; work on less takes a tenth of a second at
    worst."""

    large_at_once: int = 2
    """Large reviews that are held at once, some 200 MiB each at worst; the senders of others wait."""


BODY_LIMITS = BodyLimits()


class LargeReviews:
    """What the large reviews of an app share: few places to be held in, and one worker beside the event loop."""

    def __init__(self, limits: BodyLimits) -> None:
        self.limits = limits
        self.places = asyncio.Semaphore(limits.large_at_once)
        self.worker = asyncio.Lock()


@dataclass(slots=True)
class Place:
    """One request's place among the large reviews, if it turns out to be large; given back at the end of the block."""

    reviews: LargeReviews
    waiting: bool = field(default=False, init=False)
    taken: bool = field(default=False, init=False)

    async def __aenter__(self) -> Self:
        worker.set(None)  # a task may inherit the context of the connection's last request
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    async def take(self) -> None:
        """Wait until a large review may be held; from then on its work is done beside the event loop."""
        if not self.taken:
            self.waiting = True
            await self.reviews.places.acquire()
            self.waiting, self.taken = False, True
            worker.set(self.reviews.worker)

    def leave(self) -> None:
        if self.taken:
            self.taken = False
            self.reviews.places.release()


async def read_review(request: Request, place: Place) -> Review:
    """The review that a request brings. Raises `ReviewError` if it brings none, or too much, or too slowly."""
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise ReviewError(400, "BadRequest", "Content-Type must be application/json", close=True)
    try:
        async with asyncio.timeout(place.reviews.limits.body_timeout):
            body = await _body(request, place)
    except TimeoutError:
        raise _late(place) from None
    except ClientDisconnect:
        raise ReviewError(400, "BadRequest", "the client went away", close=True) from None
    return await compute(decode_review, body)


def _late(place: Place) -> ReviewError:
    limits = place.reviews.limits
    if place.waiting:
        message = f"other reviews of more than {limits.large} bytes are being worked on: try again"
        return ReviewError(429, "TooManyRequests", message, close=True)
    message = f"the request body did not arrive within {limits.body_timeout:g} s"
    return ReviewError(408, "Timeout", message, close=True)


async def _body(request: Request, place: Place) -> bytes:
    """The body, held up to the limit; what is beyond is dropped as it comes."""
    chunks: list[bytes] = []
    size = 0
    declared = request.headers.get("content-length", "")
    hold = not (declared.isdecimal() and int(declared[:20]) > MAX_BODY)
    async for chunk in request.stream():
        size += len(chunk)
        hold = hold and size <= MAX_BODY
        if not hold:
            chunks.clear()
            place.leave()
        else:
            chunks.append(chunk)
            if size > place.reviews.limits.large:
                await place.take()
        if size > _DISCARD:
            break
    if not hold:
        message = f"the request body is larger than {MAX_BODY} bytes"
        raise ReviewError(413, "RequestEntityTooLarge", message, close=True)
    return b"".join(chunks)
