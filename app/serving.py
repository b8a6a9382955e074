"""What the small servers for metrics and probes have in common: reading an address, sending a whole answer."""

from collections.abc import Awaitable, Callable

from webhooks.server import Address, BindError, Message

MAX_CONNECTIONS = 64
"""Open connections of one server; the next one is answered with 503, so that memory stays bounded."""

DRAIN_SECONDS = 2
"""Seconds that a stop waits for the answers that are being sent."""


def parse_bind_address(text: str) -> Address | None:
    """`host:port`, `:port` or `[ipv6]:port`; `0` gives None: do not listen. Anything else raises `BindError`."""
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    plain = host[1:-1] if bracketed else host
    if not colon or (":" in plain) != bracketed or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise BindError(f"cannot listen on {text!r}: write host:port, :port or [ipv6]:port, or 0 to switch it off")
    return plain, int(port)


async def respond(
    send: Callable[[Message], Awaitable[None]],
    status: int,
    body: bytes | str,
    content_type: str = "text/plain; charset=utf-8",
) -> None:
    """Send a whole answer; nothing of it may be cached or guessed at."""
    data = body.encode() if isinstance(body, str) else body
    headers = {
        "content-type": content_type,
        "content-length": str(len(data)),
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
    }
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": data})
