"""The types of ASGI, and a function that sends a whole answer."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

App = Callable[[Message, Receive, Send], Awaitable[None]]
"""An ASGI application; its first argument is the scope."""


async def respond(
    send: Send,
    status: int,
    body: bytes | str,
    content_type: str = "text/plain; charset=utf-8",
    *,
    headers: Mapping[str, str] = {},
) -> None:
    """Send a whole answer, which must not be cached, and whose type must not be guessed."""
    data = body.encode() if isinstance(body, str) else body
    sent = {
        "content-type": content_type,
        "content-length": str(len(data)),
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        **headers,
    }
    raw = [(name.encode(), value.encode()) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": data})
