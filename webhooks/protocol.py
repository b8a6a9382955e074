"""HTTP on one connection: uvicorn's protocol, with limits that it lacks, and with a short way for simple requests.

The ordinary way is an ASGI application in a task of its own. A request that is simple in every respect and has arrived
whole takes the short way, which costs a third of the ordinary one: its body is given to a function, and what that gives
back is sent. Whatever is not surely simple goes the ordinary way. Must not know what is served.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_TIMEOUT = 32.0
"""Seconds in which request line and headers have to arrive on a connection; the Go JobSet waits as long."""

MAX_HEAD = 64 * 1024
"""Bytes of request line and headers; the API server sends some hundred, a token some thousand."""

_MAX_FRAMING = 8
"""Bytes of chunk framing for each byte of a body; the worst honest sender, one byte a chunk, needs five."""

MAX_POST = 64 * 1024
"""Bytes of a body that may take the short way; larger ones do not arrive at once anyway."""

_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

Post = Callable[[bytes], bytes | Awaitable[bytes]]
"""What answers the body of a POST of JSON with JSON, at once or later. Must not raise."""


class Connection(HttpToolsProtocol):
    """Hangs up on who sends a head too slowly or without end: uvicorn itself would wait and keep what came, for ever.

    What a message has beside its body is counted, trailers and chunk extensions included. `_received` and `_body` are
    bytes of the present message, `_fed` those of the present read that may belong to it.

    `_post` answers the present message if that takes the short way, on which `_chunks` are its body.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _received = 0
    _body = 0
    _fed = 0
    _post: Post | None = None
    _chunks: list[bytes]

    def __init__(self, *args: Any, posts: Mapping[bytes, Post], **kwargs: Any) -> None:
        """`posts` are the paths that have a short way."""
        super().__init__(*args, **kwargs)
        self._posts = posts

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        self._fed = len(data)
        super().data_received(data)
        if self._post:
            self._go_the_ordinary_way()
        if self._received - self._body > MAX_HEAD + _MAX_FRAMING * self._body and not self.transport.is_closing():
            self.transport.write(_HEAD_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        self._received = self._fed
        self._body = 0
        self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_arrived()
        self._post = self._short_way()
        self._chunks = []
        if self._post is None:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        self._fed -= len(body)
        if self._post:
            self._chunks.append(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._post is None:
            super().on_message_complete()
            return
        answer = self._post(b"".join(self._chunks))
        if isinstance(answer, bytes):
            self._post = None
            self.transport.write(b"".join(self._answer(answer)))
            self.on_response_complete()
        else:
            ordinary, self.app = self.app, _later(answer)
            self._go_the_ordinary_way()
            super().on_message_complete()
            self.app = ordinary

    def _short_way(self) -> Post | None:
        """What answers the message whose head is there, if it is a POST like any other and nothing is before it."""
        post = self._posts.get(self.url.partition(b"?")[0])
        before: RequestResponseCycle | None = self.cycle
        if post is None or self.flow.write_paused or (before is not None and not before.response_complete):
            return None
        headers = dict(self.headers)
        length = headers.get(b"content-length", b"")
        simple = (
            self.parser.get_method() == b"POST"
            and headers.get(b"content-type") == b"application/json"
            and length.isdigit()
            and int(length[:20]) <= MAX_POST
            and len(headers) == len(self.headers)
            and not self.parser.should_upgrade()
            and self.parser.should_keep_alive()
            and self.parser.get_http_version() == "1.1"
        )
        return post if simple else None

    def _go_the_ordinary_way(self) -> None:
        """Begin the present message again, where it is awaited whatever is missing of it."""
        self._post = None
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
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT, self.transport.close)

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
