"""The ASGI application that serves admission reviews.

Bodies are read raw and by hand, because a malformed one must get an AdmissionReview and not the framework's own error
page, and because memory must stay bounded whatever is sent. Nothing of a body is ever logged.
"""

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from fastapi import FastAPI, Request, Response
from starlette.requests import ClientDisconnect

from webhooks.review import (
    MAX_BODY,
    AdmissionResponse,
    BadReviewError,
    Handler,
    Review,
    decode_review,
    denied,
    encode_review,
)

log = logging.getLogger(__name__)

BODY_TIMEOUT = 10.0
"""Seconds in which the whole body has to arrive: the API server gives up on us after as long."""

_DISCARD = 4 * MAX_BODY
"""Bytes that are read and thrown away to let a sender of too much finish and hear the answer."""


Endpoint = Callable[[Request], Awaitable[Response]]


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


def create_app(handlers: Mapping[str, Handler], *, metrics: WebhookMetrics | None = None) -> FastAPI:
    """Serve each handler by POST at its path. The app has no lifespan and no pages of its own."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    for path, handler in handlers.items():
        app.add_api_route(path, _endpoint(path, handler, metrics), methods=["POST"], response_model=None)
    return app


def _endpoint(path: str, handler: Handler, metrics: WebhookMetrics | None) -> Endpoint:
    async def serve(request: Request) -> Response:
        begun = time.perf_counter()
        if metrics:
            metrics.started(path)
        code = 500
        try:
            answer, http = await _answer(request, path, handler)
            code = answer.code
            return http
        finally:
            if metrics:
                metrics.finished(path, code, time.perf_counter() - begun)

    return serve


async def _answer(request: Request, path: str, handler: Handler) -> tuple[AdmissionResponse, Response]:
    uid, version, close = "", "admission.k8s.io/v1", False
    try:
        review = await _review(request)
        uid, version = review.request.uid, review.api_version
        answer = await _handle(path, handler, review)
    except _RefusedError as refused:
        answer, close = refused.response, refused.close
    except BadReviewError as error:
        answer, version = denied(400, "BadRequest", str(error)), error.api_version
    headers = {"connection": "close"} if close else None
    body = encode_review(answer, uid=uid, api_version=version)
    return answer, Response(body, media_type="application/json", headers=headers)


async def _review(request: Request) -> Review:
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise _RefusedError(denied(400, "BadRequest", "Content-Type must be application/json"), close=True)
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            body = await _body(request)
    except TimeoutError:
        message = f"the request body did not arrive within {BODY_TIMEOUT:g} s"
        raise _RefusedError(denied(408, "Timeout", message), close=True) from None
    except ClientDisconnect:
        raise _RefusedError(denied(400, "BadRequest", "the client went away"), close=True) from None
    return decode_review(body)


async def _body(request: Request) -> bytes:
    """The body, held up to the limit; what is beyond is dropped as it comes."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= MAX_BODY:
            chunks.append(chunk)
        else:
            chunks.clear()
        if size > _DISCARD:
            break
    if size > MAX_BODY:
        message = f"the request body is larger than {MAX_BODY} bytes"
        raise _RefusedError(denied(413, "RequestEntityTooLarge", message), close=True)
    return b"".join(chunks)


async def _handle(path: str, handler: Handler, review: Review) -> AdmissionResponse:
    try:
        return await handler(review.request)
    except RecursionError:
        return denied(400, "BadRequest", "the object is nested too deeply")
    except Exception as error:  # noqa: BLE001 -- the boundary: any fault of ours is an answer too
        # The text of an exception may quote the object: its type and place are enough to find the fault.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.name}:{frame.lineno}"
        log.error("webhook failed path=%s uid=%s error=%s at=%s", path, review.request.uid, type(error).__name__, where)  # noqa: TRY400 -- see above
        return denied(500, "InternalError", f"internal error ({type(error).__name__}) in webhook {path}")
