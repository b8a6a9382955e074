"""The ASGI application that serves admission reviews.

Bodies are read raw (`body.py`) and decoded explicitly: a typed body parameter of FastAPI would buffer any amount, and
answer an invalid body with an error that is not an AdmissionReview. An exception handler answers requests without a
valid review.
"""

import logging
import time
from collections.abc import Awaitable, Container, Mapping
from dataclasses import dataclass

from fastapi import FastAPI, Request, Response
from fastapi.telemetry import TelemetryConfig
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from kube.errors import leaves, raised_at
from kube.log_fields import log_fields
from webhooks.body import BODY_LIMITS, Bodies, Body, BodyLimits
from webhooks.metrics import WebhookMetrics
from webhooks.offload import compute
from webhooks.review import (
    AdmissionResponse,
    Handler,
    HandlerAnswer,
    Review,
    ReviewError,
    answer_of,
    encode_review,
    request_refusal,
)
from webhooks.review_log import Identity, identity_fields, log_review, loggable_text
from webhooks.work import TOO_MUCH_WORK, TooMuchWorkError

CLIENT_LEFT = 499
"""The code in metrics for a request whose client disconnected before the answer."""

NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}
"""The manager has metrics and logs of its own. FastAPI's would look for a configuration at each request."""

log = logging.getLogger(__name__)


def create_app(
    handlers: Mapping[str, Handler],
    *,
    metrics: WebhookMetrics | None = None,
    limits: BodyLimits = BODY_LIMITS,
    validating_paths: Container[str] = (),
) -> FastAPI:
    """An app that serves each handler by POST at its path, without a lifespan and pages of its own.

    Answers at `validating_paths` decide about objects: they are logged at info, and in the API server's audit log.
    """
    bodies = Bodies(limits)
    # Plain routes of ASGI applications: FastAPI's dependency injection, and wrappers of functions, would cost each
    # request some 40 microseconds.
    routes: list[BaseRoute] = [
        Route(path, _Webhook(path, handler, bodies, metrics, is_validating=path in validating_paths), methods=["POST"])
        for path, handler in handlers.items()
    ]
    app = FastAPI(
        routes=routes,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=NO_TELEMETRY,
        exception_handlers={ReviewError: _refuse},
    )
    app.state.bodies = bodies
    return app


async def _refuse(_: Request, error: ReviewError) -> Response:
    """The answer to a request without a review, as an AdmissionReview."""
    headers = {"connection": "close"} if error.close else None
    return Response(error.encode(), media_type="application/json", headers=headers)


_Answer = tuple[int, bytes]
"""The HTTP code that the answer contains, and the encoded answer."""


@dataclass(frozen=True, slots=True)
class _Webhook:
    """A handler, served at one path."""

    path: str
    handler: Handler
    bodies: Bodies
    metrics: WebhookMetrics | None
    is_validating: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request, whose body may arrive slowly, be large, or never end."""
        start, code = time.perf_counter(), CLIENT_LEFT
        if self.metrics:
            self.metrics.on_start(self.path)
        try:
            async with Body(self.bodies) as body:
                review = await body.review(scope, receive)
                identity = identity_fields(review.request)
                with log_fields(webhook=self.path, **identity):
                    code, data = await self._answer(review, identity, compute(self.handler, review.request))
        except ReviewError as error:
            code = error.code
            raise
        finally:
            if self.metrics:
                self.metrics.on_finish(self.path, code, time.perf_counter() - start)
        await send({"type": "http.response.start", "status": 200, "headers": _headers(data)})
        await send({"type": "http.response.body", "body": data})

    async def _answer(self, review: Review, identity: Identity, handler_answer: Awaitable[HandlerAnswer]) -> _Answer:
        """The answer of the handler, or an error if the handler fails."""
        try:
            response = await answer_of(await handler_answer)
            log_review(review.request, identity, response, is_validating=self.is_validating)
            answer = await compute(_encode, response, review, audit=self.is_validating)
        except TooMuchWorkError:
            return _encode(request_refusal(413, "RequestEntityTooLarge", TOO_MUCH_WORK), review)
        except Exception as error:  # noqa: BLE001 -- the boundary: a bug is answered, too
            return self._answer_failure(review, error)
        if self.metrics:
            for rule in response.rule_ids:
                self.metrics.on_refusal(self.path, rule)
        return answer

    def _answer_failure(self, review: Review, error: Exception) -> _Answer:
        if isinstance(error, RecursionError):
            return _encode(request_refusal(400, "BadRequest", "the object is nested too deeply"), review)
        uid = loggable_text(review.request.uid)
        for each in leaves(error):
            # The text of an exception may quote the object: its type and location are enough to find the fault.
            name, location = type(each).__name__, raised_at(each)
            log.error("webhook failed path=%s uid=%s error=%s at=%s", self.path, uid, name, location)
        message = f"internal error ({type(error).__name__}) in webhook {self.path}"
        return _encode(request_refusal(500, "InternalError", message), review)


def _headers(body: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]


def _encode(answer: AdmissionResponse, review: Review, *, audit: bool = False) -> _Answer:
    """The encoded answer, in the API version and with the UID of the review."""
    data = encode_review(answer, uid=review.request.uid, api_version=review.api_version, audit=audit)
    return answer.code, data
