"""HTTP/1.1 for the simulated API server, as light as it can be: it must not be what is measured.

Answers are given at once, in memory; watches are streams of chunks, written once per turn of the event loop.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import parse_qsl, unquote, urlsplit

import httptools

from dev.simulator.rest import Answer, Request, Stream

REASONS = {200: "OK", 201: "Created"}


Handler = Callable[[Request], Answer | Stream]


@dataclass(eq=False)
class Connection(asyncio.Protocol):
    """One client."""

    handler: Handler
    transport: asyncio.WriteTransport | None = None
    end: Callable[[], None] | None = None
    url: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    body: list[bytes] = field(default_factory=list)
    pending: list[bytes] = field(default_factory=list)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.WriteTransport", transport)
        self.parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's signature
        if self.end is not None:
            self.end()
        self.transport = None

    def on_message_begin(self) -> None:
        self.url, self.headers, self.body = b"", {}, []

    def on_url(self, part: bytes) -> None:
        self.url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode().lower()] = value.decode()

    def on_body(self, part: bytes) -> None:
        self.body.append(part)

    def on_message_complete(self) -> None:
        parts = urlsplit(self.url.decode())
        answer = self.handler(
            Request(
                method=self.parser.get_method().decode(),
                path=unquote(parts.path),
                query=dict(parse_qsl(parts.query, keep_blank_values=True)),
                headers=self.headers,
                body=b"".join(self.body),
            )
        )
        if isinstance(answer, Answer):
            head = f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Refused')}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(answer.body)}\r\n\r\n"
            self._write(head.encode() + answer.body)
            return
        self._write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.end = answer.begin(self._add)

    def _add(self, line: bytes) -> None:
        """Lines of one turn of the event loop go out together."""
        if not self.pending:
            asyncio.get_running_loop().call_soon(self._flush)
        self.pending.append(line)

    def _flush(self) -> None:
        data = b"".join(self.pending)
        self.pending = []
        self._write(b"%x\r\n%b\r\n" % (len(data), data))

    def _write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)
