"""The types of ASGI, and a function that sends a complete answer."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

App = Callable[[Message, Receive, Send], Awaitable[None]]
"""An ASGI application. Its first argument is the scope."""


async def respond(
    send: Send,
    status: int,
    body: bytes | str,
    content_type: str = "text/plain; charset=utf-8",
    *,
    headers: Mapping[str, str] = {},
) -> None:
    """Send a complete answer. Its headers forbid clients to cache it and to guess its type."""
    data = body.encode() if isinstance(body, str) else body
    all_headers = {
        "content-type": content_type,
        "content-length": str(len(data)),
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        **headers,
    }
    raw_headers = [(name.encode(), value.encode()) for name, value in all_headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw_headers})
    await send({"type": "http.response.body", "body": data})
