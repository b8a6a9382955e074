"""HTTP on one connection: uvicorn's protocol, with limits that it lacks, and with a fast path for simple requests.

Ordinarily a request goes to the ASGI application, in a task of its own. One that is simple in every respect and has
arrived whole takes the fast path, which saves the task and the framework: its body is given to a function, and what
that returns is sent. Whatever is not surely simple goes to the application. Must not know what is served.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from httpserver.limits import ConnectionLimits

_MAX_FRAMING = 8
"""Bytes of chunk framing for each byte of a body; the worst honest sender, one byte a chunk, needs five."""

_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

FastPath = Callable[[bytes], bytes | Awaitable[bytes]]
"""Answers the body of a POST of JSON with JSON, at once or later. Must not raise."""


class Connection(HttpToolsProtocol):
    """Hangs up on who sends a head too slowly or without end: uvicorn itself would wait and keep what came, for ever.

    What a message has beside its body is counted, trailers and chunk extensions included. `_received` and `_body` are
    bytes of the present message, `_fed` those of the present read that may belong to it.

    `_fast_path` answers the present message if that takes it; `_chunks` are its body then. `idle_since` is the loop's
    time at which the connection was opened, or its last answer was complete.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _received = 0
    _body = 0
    _fed = 0
    _fast_path: FastPath | None = None
    _chunks: list[bytes]
    idle_since = 0.0

    def __init__(
        self, *args: Any, fast_paths: Mapping[bytes, FastPath], limits: ConnectionLimits, **kwargs: Any
    ) -> None:
        """`fast_paths` by URL path."""
        super().__init__(*args, **kwargs)
        self._fast_paths = fast_paths
        self._limits = limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self.idle_since = self.loop.time()
        self._make_room()
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        self._fed = len(data)
        super().data_received(data)
        if self._fast_path:
            self._give_to_application()
        beside = self._received - self._body
        if beside > self._limits.max_head + _MAX_FRAMING * self._body and not self.transport.is_closing():
            self.transport.write(_HEAD_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        self._received = self._fed
        self._body = 0
        self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_arrived()
        self._fast_path = self._find_fast_path()
        self._chunks = []
        if self._fast_path is None:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        self._fed -= len(body)
        if self._fast_path:
            self._chunks.append(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._fast_path is None:
            super().on_message_complete()
            return
        answer = self._fast_path(b"".join(self._chunks))
        if isinstance(answer, bytes):
            self._fast_path = None
            self.transport.write(b"".join(self._answer(answer)))
            self.on_response_complete()
        else:
            application, self.app = self.app, _later(answer)
            self._give_to_application()
            super().on_message_complete()
            self.app = application

    def on_response_complete(self) -> None:
        self.idle_since = self.loop.time()
        super().on_response_complete()

    @property
    def idle(self) -> bool:
        """No request is in flight; the head of the next one may have begun."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _make_room(self) -> None:
        """If this connection is one too many, close the one that was idle longest. If none is, uvicorn answers 503."""
        limit = self._limits.max_connections
        if limit is None or len(self.connections) <= limit:
            return
        others = (other for other in self.connections if isinstance(other, Connection) and other is not self)
        longest = min((other for other in others if other.idle), key=lambda other: other.idle_since, default=None)
        if longest is not None:
            # It is not counted any more, though the loop reports its end only later. A close would wait for the client.
            self.connections.discard(longest)
            longest.transport.abort()

    def _find_fast_path(self) -> FastPath | None:
        """What answers the message whose head is there, if it is a POST like any other and nothing is before it."""
        found = self._fast_paths.get(self.url.partition(b"?")[0])
        before: RequestResponseCycle | None = self.cycle
        if found is None or self.flow.write_paused or (before is not None and not before.response_complete):
            return None
        headers = dict(self.headers)
        length = headers.get(b"content-length", b"")
        simple = (
            self.parser.get_method() == b"POST"
            and headers.get(b"content-type") == b"application/json"
            and length.isdigit()
            and int(length[:20]) <= self._limits.max_fast_body
            and len(headers) == len(self.headers)
            and not self.parser.should_upgrade()
            and self.parser.should_keep_alive()
            and self.parser.get_http_version() == "1.1"
        )
        return found if simple else None

    def _give_to_application(self) -> None:
        """Begin the present message again as a request of the application, which awaits what is missing of it."""
        self._fast_path = None
        super().on_headers_complete()
        for chunk in self._chunks:
            super().on_body(chunk)

    def _answer(self, body: bytes) -> list[bytes]:
        lines = [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ", str(len(body)).encode()]
        for name, value in self.server_state.default_headers:
            lines += [b"\r\n", name, b": ", value]
        return [*lines, b"\r\n\r\n", body]

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self._limits.head_timeout, self.transport.close)

    def _head_arrived(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _later(answer: Awaitable[bytes]) -> Callable[..., Awaitable[None]]:
    """An ASGI application that sends what an awaitable gives."""

    async def app(_scope: object, _receive: object, send: Callable[[Mapping[str, Any]], Awaitable[None]]) -> None:
        body = await answer
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app
