"""The ASGI application that serves admission reviews, and the fast path past it for those that need none of it.

Bodies are read raw and by hand, because a malformed one must get an AdmissionReview and not the framework's own error
page, and because memory must stay bounded whatever is sent. Nothing of a body is ever logged.
"""

import asyncio
import logging
import re
import socket
import ssl
import time
import traceback
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fastapi import FastAPI, Request, Response
from starlette.requests import ClientDisconnect

from httpserver.limits import DEFAULT, Limits
from httpserver.protocol import FastPath
from httpserver.server import Server
from webhooks.offload import compute, worker
from webhooks.review import (
    MAX_BODY,
    V1,
    AdmissionResponse,
    BadReviewError,
    Handler,
    HandlerAnswer,
    Review,
    decided,
    decode_review,
    denied,
    encode_review,
)

log = logging.getLogger(__name__)

BODY_TIMEOUT = 10.0
"""Seconds in which the whole body has to arrive: the API server gives up on us after as long."""

LARGE = 256 * 1024
"""Bytes from which a review is large. Ten times what people write; work on less takes a tenth of a second at worst."""

LARGE_AT_ONCE = 2
"""Large reviews that are held at once, some 200 MiB each at worst; the senders of others wait."""

_DISCARD = 4 * MAX_BODY
"""Bytes that are read and thrown away to let a sender of too much finish and hear the answer."""

_UID = re.compile(r"[0-9A-Za-z-]{1,64}")


class WebhookMetrics(Protocol):
    """Where requests are counted. `code` is that of the answer inside the review; times in seconds."""

    def started(self, path: str) -> None: ...

    def finished(self, path: str, code: int, seconds: float) -> None: ...


class _RefusedError(Exception):
    """The request cannot be handed to a handler; the response says why."""

    def __init__(self, response: AdmissionResponse, *, close: bool = False) -> None:
        super().__init__(response.code)
        self.response = response
        self.close = close


@dataclass(frozen=True, slots=True)
class _Room:
    """What the large reviews of an app share: places to be held in, and one worker."""

    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LARGE_AT_ONCE))
    worker: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class _Place:
    """One request's place among the few large ones, if it turns out to be large."""

    room: _Room
    waiting: bool = False
    taken: bool = False

    async def take(self) -> None:
        """Wait until a large review may be held; from then on its work is done beside the event loop."""
        if not self.taken:
            self.waiting = True
            await self.room.places.acquire()
            self.waiting, self.taken = False, True
            worker.set(self.room.worker)

    def leave(self) -> None:
        if self.taken:
            self.taken = False
            self.room.places.release()


class AdmissionApp(FastAPI):
    """What serves the handlers."""

    fast_paths: Mapping[bytes, FastPath]
    """By URL path: for reviews that are small and have arrived whole, past the framework."""

    def server(self, listener: socket.socket, tls: ssl.SSLContext, *, limits: Limits = DEFAULT) -> Server:
        """A server of this app that takes its fast paths."""
        return Server(self, listener, tls, fast_paths=self.fast_paths, limits=limits)


def create_app(handlers: Mapping[str, Handler], *, metrics: WebhookMetrics | None = None) -> AdmissionApp:
    """Serve each handler by POST at its path. The app has no lifespan and no pages of its own."""
    app = AdmissionApp(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    room = _Room()
    webhooks = {path: _Webhook(path, handler, room, metrics) for path, handler in handlers.items()}
    for path, webhook in webhooks.items():
        # A plain route: there is nothing for FastAPI to inject, and finding that out costs a tenth of a request.
        app.add_route(path, webhook.serve, methods=["POST"])
    app.fast_paths = {path.encode(): webhook.answer_whole for path, webhook in webhooks.items()}
    return app


_Answer = tuple[int, bytes]
"""The code inside an answer, and the answer."""


@dataclass(frozen=True, slots=True)
class _Webhook:
    """One path. Whichever way a review comes, it gets the same answer."""

    path: str
    handler: Handler
    room: _Room
    metrics: WebhookMetrics | None

    async def serve(self, request: Request) -> Response:
        """The ASGI request, in which a body may come slowly, or be large, or never end."""
        begun = self._begin()
        code = 500
        place = _Place(self.room)
        worker.set(None)  # a task may inherit the context of the connection's last request
        headers = None
        try:
            review = await _review(request, place)
            code, body = await self._answer(review, compute(self.handler, review.request))
        except _RefusedError as refused:
            code, body = _encoded(refused.response)
            headers = {"connection": "close"} if refused.close else None
        except BadReviewError as error:
            code, body = _unread(error)
        finally:
            place.leave()
            self._end(begun, code)
        return Response(body, media_type="application/json", headers=headers)

    def answer_whole(self, body: bytes) -> bytes | Awaitable[bytes]:
        """The fast path, for a small body that is there: no request, no task, no place."""
        begun = self._begin()
        try:
            review = decode_review(body)
            answer = self.handler(review.request)
            if not isinstance(answer, AdmissionResponse):
                return self._later(begun, review, answer)
            code, data = _encoded(answer, review)
        except BadReviewError as error:
            code, data = _unread(error)
        except Exception as error:  # noqa: BLE001 -- the boundary: any fault of ours is an answer too
            code, data = self._failed(review, error)
        self._end(begun, code)
        return data

    async def _later(self, begun: float, review: Review, answer: Awaitable[AdmissionResponse]) -> bytes:
        code = 500
        worker.set(None)  # as above
        try:
            code, body = await self._answer(review, answer)
        finally:
            self._end(begun, code)
        return body

    async def _answer(self, review: Review, answer: Awaitable[HandlerAnswer]) -> _Answer:
        """A handler's answer, or the one that it failed."""
        try:
            return await compute(_encoded, await decided(await answer), review)
        except Exception as error:  # noqa: BLE001 -- as above
            return self._failed(review, error)

    def _failed(self, review: Review, error: Exception) -> _Answer:
        if isinstance(error, RecursionError):
            return _encoded(denied(400, "BadRequest", "the object is nested too deeply"), review)
        # The text of an exception may quote the object: its type and place are enough to find the fault.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.name}:{frame.lineno}"
        uid = review.request.uid
        shown = uid if _UID.fullmatch(uid) else "?"
        log.error("webhook failed path=%s uid=%s error=%s at=%s", self.path, shown, type(error).__name__, where)
        message = f"internal error ({type(error).__name__}) in webhook {self.path}"
        return _encoded(denied(500, "InternalError", message), review)

    def _begin(self) -> float:
        if self.metrics:
            self.metrics.started(self.path)
        return time.perf_counter()

    def _end(self, begun: float, code: int) -> None:
        if self.metrics:
            self.metrics.finished(self.path, code, time.perf_counter() - begun)


def _encoded(answer: AdmissionResponse, review: Review | None = None) -> _Answer:
    """In the words of the review that it answers, if that could be read."""
    uid, version = (review.request.uid, review.api_version) if review else ("", V1)
    return answer.code, encode_review(answer, uid=uid, api_version=version)


def _unread(error: BadReviewError) -> _Answer:
    answer = denied(400, "BadRequest", str(error))
    return answer.code, encode_review(answer, uid="", api_version=error.api_version)


async def _review(request: Request, place: _Place) -> Review:
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise _RefusedError(denied(400, "BadRequest", "Content-Type must be application/json"), close=True)
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            body = await _body(request, place)
    except TimeoutError:
        raise _RefusedError(_late(place), close=True) from None
    except ClientDisconnect:
        raise _RefusedError(denied(400, "BadRequest", "the client went away"), close=True) from None
    return await compute(decode_review, body)


def _late(place: _Place) -> AdmissionResponse:
    if place.waiting:
        message = f"other reviews of more than {LARGE} bytes are being worked on: try again"
        return denied(429, "TooManyRequests", message)
    return denied(408, "Timeout", f"the request body did not arrive within {BODY_TIMEOUT:g} s")


async def _body(request: Request, place: _Place) -> bytes:
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
            if size > LARGE:
                await place.take()
        if size > _DISCARD:
            break
    if not hold:
        message = f"the request body is larger than {MAX_BODY} bytes"
        raise _RefusedError(denied(413, "RequestEntityTooLarge", message), close=True)
    return b"".join(chunks)
