"""Calling an ASGI application without a network, body chunk by chunk."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass
class Answer:
    """An HTTP answer, and how many chunks of the request were read for it."""

    status: int
    headers: dict[str, str]
    body: bytes
    chunks_read: int


async def post(
    app: Any, path: str, body: bytes | Iterable[bytes] | AsyncIterable[bytes], *, method: str = "POST", **headers: str
) -> Answer:
    """POST as `application/json` unless `content_type` says otherwise; `path` may end in a query."""
    path, _, query = path.partition("?")
    chunks = _chunks([body] if isinstance(body, bytes) else body)
    read = 0
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        nonlocal read
        async for chunk in chunks:
            read += 1
            return {"type": "http.request", "body": chunk, "more_body": True}
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = {"content-type": headers.pop("content_type", "application/json"), **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
    }
    await app(scope, receive, send)
    start = sent[0]
    got = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], got, b"".join(message.get("body", b"") for message in sent[1:]), read)


async def _chunks(source: Iterable[bytes] | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(source, AsyncIterable):
        async for chunk in source:
            yield chunk
    else:
        for chunk in source:
            yield chunk
