"""One HTTP exchange with the API server: limits, timeouts, credentials.

A transport makes one attempt; `kube.client` retries and decodes. The session of aiohttp does not look for proxies,
since it would search for proxies and passwords, in a thread, for each request.
"""

import asyncio
import contextlib
import os
import socket
import ssl
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import aiohttp

from kube import calls
from kube.config import Credentials
from kube.errors import Call, TransportError, from_response

MAX_LINE = 16 << 20
"""Bytes of one watch event. The API server accepts objects up to about 3 MiB; a longer line is an error."""

READ_BUFFER = 256 << 10
"""Bytes of one answer that are buffered before reading pauses. At most twice as many are in memory."""

MAX_IN_FLIGHT = 64
"""Requests in flight at once. Watches are not counted, so that they cannot starve writes."""

CONNECT_TIMEOUT = 10.0
"""Seconds to get a connection, TLS included."""

CLOSE_TIMEOUT = 2.0
"""Seconds for a graceful close of TLS connections; a server that is gone never answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call. `timeout` is in seconds: of the whole exchange, or of silence on a stream. `path` is not encoded.

    `limited` False: the client-side limits of rate and concurrency do not apply (a lease renewal must not queue behind
    a burst of creates). `limits` replaces the limits of the transport, except for streams. `accept`: media type of the
    answer. `guard` is called right before the request is sent, after all waiting, and prevents the request by raising.
    `break_after`: 0 for a watch. Any other stream splits lines into pieces of about that many bytes, and text after its
    last newline is a line, too.
    """

    method: str
    path: str
    verb: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = "application/json"
    timeout: float = 30.0
    limited: bool = True
    limits: "RequestLimits | None" = None
    accept: str = "application/json"
    guard: Callable[[], None] | None = None
    break_after: int = 0

    @property
    def call(self) -> Call:
        return Call(self.verb, self.path)


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, whatever its status. Header names are lower-case; values of a repeated header are joined by commas."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """The transport of `Client`. Tests wrap it to inject faults."""

    async def send(self, request: Request) -> Response:
        """Send a request. Any status is an answer. Raises `TransportError`, or the error of the request's guard."""

    def stream(self, request: Request) -> contextlib.AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Lines of a watch or a log. Entering raises `ApiError` for any status but 200.

        Entering and reading raise `TransportError` if the connection fails.
        """

    async def close(self) -> None: ...


class RequestMetrics(Protocol):
    """Hook for `rest_client_requests_total{code,method,host}`; `code` is "<error>" when there was no answer."""

    def on_request(self, code: str, method: str, host: str) -> None: ...


class TokenBucket:
    """Client-side rate limit: `burst` at once, then `qps` per second, first come first served.

    Each request gets a slot, an interval after the slot of the request before. Slots may lie `_burst_seconds` in the
    past, and a request waits for a slot in the future.
    """

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1.0 / qps
        self._burst_seconds = (max(burst, 1) - 1) * self._interval
        self._last_slot = float("-inf")

    async def acquire(self) -> None:
        now = asyncio.get_running_loop().time()
        self._last_slot = max(self._last_slot + self._interval, now - self._burst_seconds)
        if self._last_slot > now:
            await asyncio.sleep(self._last_slot - now)


class RequestLimits:
    """Limits on the client side: a rate, and `MAX_IN_FLIGHT` requests at once. Create them inside the event loop."""

    def __init__(self, qps: float, burst: int) -> None:
        self.rate = TokenBucket(qps, burst)
        self.in_flight = asyncio.Semaphore(MAX_IN_FLIGHT)


class HttpTransport:
    """The real transport. Create and close it inside one running event loop. `max_line`: bytes of one watch event."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        user_agent: str,
        qps: float = 500.0,
        burst: int = 500,
        metrics: RequestMetrics | None = None,
        max_line: int = MAX_LINE,
    ) -> None:
        self._max_line = max_line
        self._credentials = credentials
        self._user_agent = user_agent
        self._limits = RequestLimits(qps, burst)
        self._metrics = metrics
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, socket_factory=self._socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER,
        )

    async def send(self, request: Request) -> Response:
        if not request.limited:
            return await self._send_authorized(request)
        limits = request.limits or self._limits
        async with limits.in_flight:
            await limits.rate.acquire()
            return await self._send_authorized(request)

    async def _send_authorized(self, request: Request) -> Response:
        generation = self._credentials.generation
        response = await self._exchange(request)
        if response.status == 401 and await self._credentials.renew(generation):
            return await self._exchange(request)
        return response

    async def _exchange(self, request: Request) -> Response:
        timeouts = aiohttp.ClientTimeout(total=request.timeout, sock_connect=CONNECT_TIMEOUT)
        async with self._open(request, timeouts) as response:
            body = await response.read()
            return Response(response.status, _lower_case_names(response.headers), body)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        await self._limits.rate.acquire()
        timeouts = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=request.timeout)
        for is_last_try in (False, True):
            generation = self._credentials.generation
            async with self._open(request, timeouts) as response:
                if response.status == 200:
                    line_stream = _lines(response.content, self._max_line, request.break_after)
                    async with contextlib.aclosing(line_stream) as lines:
                        yield lines
                    return
                body = await response.read()
                if response.status != 401 or is_last_try or not await self._credentials.renew(generation):
                    raise from_response(response.status, _lower_case_names(response.headers), body, request.call)

    @contextlib.asynccontextmanager
    async def _open(self, request: Request, timeouts: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and yield the answer. Every error of aiohttp becomes a TransportError."""
        headers = {"User-Agent": self._user_agent, "Accept": request.accept, **await self._credentials.headers()}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        code = "<error>"
        if request.guard is not None:
            request.guard()
        calls.count_request()
        try:
            async with self._session.request(
                request.method,
                self._credentials.server + request.path,
                params=request.query,
                data=request.body,
                headers=headers,
                timeout=timeouts,
                allow_redirects=False,
                **self._credentials.connection(),
            ) as response:
                code = str(response.status)
                yield response
        except aiohttp.ClientConnectorError as error:
            untrusted = isinstance(error, aiohttp.ClientConnectorCertificateError)
            target = f"{error.host}:{error.port}"
            message = f"{request.verb} {request.path}: cannot connect to {target}: {_fault_text(error.os_error)}"
            raise TransportError(message, sent=False, untrusted=untrusted) from error
        except (aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            raise TransportError(f"{request.verb} {request.path}: no connection: {error}", sent=False) from error
        except TimeoutError as error:
            raise TransportError(f"{request.verb} {request.path}: no answer in {request.timeout:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(
                f"{request.verb} {request.path}: the connection broke: {_fault_text(error)}"
            ) from error
        finally:
            if self._metrics is not None:
                self._metrics.on_request(code, request.method, self._credentials.host)

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        new_socket = socket.socket(*address[:3])
        self._sockets.add(new_socket)
        return new_socket

    async def close(self) -> None:
        """Close all connections, and wait until they are closed.

        The session does not wait for connections in the middle of an answer, such as watches: it closes them in the
        background, and never if the event loop ends before.
        """
        await self._session.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                while any(sock.fileno() >= 0 for sock in self._sockets):  # noqa: ASYNC110 - no event says when
                    await asyncio.sleep(0.005)


def _fault_text(error: Exception) -> str:
    """The fault of a connection in words, such as `connection refused`, without numbers and names of Python's types."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be verified: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return f"TLS: {error.reason.replace('_', ' ').lower()}"
    if isinstance(error, socket.gaierror) and error.strerror:
        return error.strerror.lower()
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer ended in the middle"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return str(error) or "no reason was given"


def _lower_case_names(headers: Mapping[str, str]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined


async def _lines(content: aiohttp.StreamReader, max_line: int, break_after: int) -> AsyncGenerator[bytes]:
    """The lines of a stream. A partial last line of a watch, whose connection was cut, is dropped."""
    partial_line = bytearray()
    async for chunk in content.iter_any():
        begin = 0
        while (end := chunk.find(b"\n", begin)) >= 0:
            line = bytes(partial_line) + chunk[begin:end]
            partial_line.clear()
            begin = end + 1
            if line:
                yield line
        partial_line += memoryview(chunk)[begin:]
        if break_after and len(partial_line) > break_after:
            yield bytes(partial_line)
            partial_line.clear()
        if len(partial_line) > max_line:
            raise TransportError(f"a watch event is longer than {max_line} bytes")
    if break_after and partial_line:
        yield bytes(partial_line)
