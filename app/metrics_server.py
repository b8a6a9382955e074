"""Serves metrics and debug pages over HTTPS to users who have the right to the path.

See docs/reference/manager.md#servers.

TokenReview checks tokens and SubjectAccessReview checks rights, so that a scraper needs only a ClusterRole. Tokens are
neither stored nor logged. The caches hold digests of tokens.
"""

import asyncio
import hashlib
import itertools
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from app.debug.pages import Debug
from app.metrics import Metrics
from app.settings import TLSSettings
from certs.child_process import FIRST_PAUSE, call_in_process, retry_pause
from certs.files import POLL_SECONDS, FileCertificates
from certs.source import LiveContext
from certs.tls import CertificateError, install, server_context
from httpserver.address import Address, bind
from httpserver.asgi import Message, Receive, Send, respond
from httpserver.limits import ENDPOINT_LIMITS
from httpserver.server import Server
from kube.errors import KubeError
from kube.model.expiring import Expiring
from kube.reviews import REVIEW_TIMEOUT, Reviewer, User

log = logging.getLogger(__name__)

PATH: Final = "/metrics"

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class ScrapeLimits:
    """How many reviews are sent to the API server, and how long its answers are cached."""

    authenticated_for: float = 60.0
    """Seconds for which a valid token is cached."""

    allowed_for: float = 300.0
    """Seconds for which a granted right is cached."""

    denied_for: float = 30.0
    """Seconds for which a refusal is cached."""

    cache_size: int = 256
    """Answers in each cache: far more than there are scrapers."""

    reviews_at_once: int = 4
    """Reviews sent in parallel, few enough that clients of this port cannot overload the API server."""

    review_timeout: float = REVIEW_TIMEOUT
    """Seconds for one review, including the wait for its turn."""

    max_token: int = 16 << 10
    """Characters of a token. A longer token is refused without a review."""


SCRAPE_LIMITS = ScrapeLimits()


class RefusedError(Exception):
    """The request is refused with this HTTP status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Guard:
    """Lets requests pass or raises `RefusedError`. `clock` is monotonic seconds."""

    def __init__(
        self, reviewer: Reviewer, *, limits: ScrapeLimits = SCRAPE_LIMITS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reviewer = reviewer
        self._limits = limits
        self._turns = asyncio.Semaphore(limits.reviews_at_once)
        self._clock = clock
        self._users: Expiring[bytes, User] = Expiring(limits.cache_size)
        self._rights: Expiring[bytes, bool] = Expiring(limits.cache_size)

    async def admit(self, authorization: str, method: str, path: str) -> User:
        """The user of the request. `authorization` is the value of the header, "" without one."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > self._limits.max_token:
            raise RefusedError(401, "Unauthorized")
        user = await self._authenticate(token)
        if not await self._is_allowed(user, method.lower(), path):
            raise RefusedError(403, f"Authorization denied for user {user.username}")
        return user

    async def _authenticate(self, token: str) -> User:
        key = hashlib.sha256(token.encode()).digest()
        user = self._users.get(key, self._clock())
        if user is None:
            user = await self._review(lambda: self._reviewer.authenticate(token), "Authentication failed")
            if user is None:
                raise RefusedError(401, "Unauthorized")
            self._users.put(key, user, self._clock() + self._limits.authenticated_for)
        return user

    async def _is_allowed(self, user: User, verb: str, path: str) -> bool:
        key = hashlib.sha256(msgspec.json.encode([user, verb, path])).digest()
        is_allowed = self._rights.get(key, self._clock())
        if is_allowed is None:
            failure = f"Authorization for user {user.username} failed"
            is_allowed = await self._review(lambda: self._reviewer.authorize(user, verb, path), failure)
            cache_seconds = self._limits.allowed_for if is_allowed else self._limits.denied_for
            self._rights.put(key, is_allowed, self._clock() + cache_seconds)
        return is_allowed

    async def _review(self, review: Callable[[], Awaitable[V]], failure: str) -> V:
        try:
            async with asyncio.timeout(self._limits.review_timeout), self._turns:
                return await review()
        except (KubeError, TimeoutError) as error:
            log.warning("metrics: %s: %s", failure, str(error) or "no answer in time")
            raise RefusedError(500, failure) from error


class MetricsApp:
    """An ASGI application with the page /metrics and the pages of `debug`. Each path needs a right of its own."""

    def __init__(self, metrics: Metrics, guard: Guard, debug: Debug | None = None) -> None:
        self.metrics = metrics
        self._guard = guard
        self._debug = debug

    @property
    def paths(self) -> list[str]:
        """All paths that this application serves."""
        return [PATH, *(sorted(self._debug.paths) if self._debug else ())]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        path = scope["path"]
        debug = self._debug if path != PATH else None
        if path not in self.paths:
            await respond(send, 404, f"metrics are at {PATH}\n")
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        try:
            await self._guard.admit(headers.get(b"authorization", b"").decode("latin-1"), scope["method"], path)
        except RefusedError as refused:
            await respond(send, refused.status, refused.text + "\n")
            return
        if debug is not None:
            await debug(scope, receive, send)
            return
        body, content_type = self.metrics.render()
        await respond(send, 200, body, content_type)


class MetricsServer:
    """Serves metrics and debug pages, and reads the files of its certificate when they change. Stops like a `Server`.

    It serves nothing until it has a certificate. `problem` is the reason while it has none.
    """

    def __init__(
        self,
        server: Server,
        context: ssl.SSLContext,
        certificates: FileCertificates | None,
        retry_after: float,
    ) -> None:
        self.problem: str | None = None
        self._retry_after = retry_after
        self._server = server
        self._context = context
        self._certificates = certificates

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def started(self) -> asyncio.Event:
        return self._server.started

    def stop(self) -> None:
        self._server.stop()

    async def run(self) -> None:
        await self._make_certificate()
        if self._certificates is None:
            await self._server.run()
            return
        async with asyncio.TaskGroup() as group:
            follower = group.create_task(self._certificates.run(), name="metrics-certificate")
            try:
                await self._server.run()
            finally:
                follower.cancel()

    async def unready(self) -> str | None:
        """A check of readiness, which fails while no certificate can be made."""
        return self.problem

    async def _make_certificate(self) -> None:
        """Make a self-signed certificate and use it. Retries until a certificate is made."""
        for failures in itertools.count(1):
            try:
                install(self._context, *await asyncio.to_thread(call_in_process, "certs.renewal", "self_signed"))
            except CertificateError as error:
                problem = f"metrics certificate: {error}"
                if problem != self.problem:
                    log.warning("%s", problem)
                self.problem = problem
                await asyncio.sleep(retry_pause(failures, self._retry_after))
            else:
                self.problem = None
                return


def metrics_server(
    app: MetricsApp,
    address: Address,
    *,
    cert_dir: str,
    tls: TLSSettings,
    poll_seconds: float = POLL_SECONDS,
    retry_after: float = FIRST_PAUSE,
) -> MetricsServer:
    """A server that is bound to `address`; its `run` serves. Raises `BindError`.

    `poll_seconds` is the time between two checks of `cert_dir`, `retry_after` the first pause in seconds after a
    self-signed certificate could not be made.

    The server uses a self-signed certificate for localhost until a usable certificate appears in `cert_dir`. A folder
    that is missing at the start counts as not mounted, and is not checked again.
    """
    context = server_context(tls.min_version, tls.cipher_suites)
    listener = bind(address, "metrics")
    server = Server(app, listener, context, limits=ENDPOINT_LIMITS)
    if not Path(cert_dir).is_dir():
        return MetricsServer(server, context, None, retry_after)
    live = LiveContext(context, app.metrics.certificate("metrics"))
    files = FileCertificates(Path(cert_dir), live, poll_seconds=poll_seconds, first_pair_timeout=None)
    return MetricsServer(server, context, files, retry_after)
