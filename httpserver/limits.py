"""What a server grants the connections of its clients, so that memory and time stay bounded whatever they send."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Of one server."""

    head_timeout: float = 32.0
    """Seconds in which request line and headers have to arrive on a connection; the Go JobSet waits as long."""

    max_head: int = 64 * 1024
    """Bytes of request line and headers; the API server sends some hundred, a token some thousand."""

    max_fast_body: int = 64 * 1024
    """Bytes of a body that may take the fast path; larger ones do not arrive at once anyway."""

    keep_alive: int = 75
    """Seconds that an idle connection is kept: longer than the pauses between the API server's calls."""

    max_connections: int | None = None
    """Open connections. One more closes the one that has been idle longest; if none is idle, its requests are answered
    with 503. None: no limit."""


WEBHOOK_LIMITS = ConnectionLimits()
"""The API server keeps its connections, and opens as many as it has requests to send."""

ENDPOINT_LIMITS = ConnectionLimits(head_timeout=10.0, keep_alive=10, max_connections=64)
"""For probes and metrics: few clients, short answers. The kubelet opens a connection for each probe."""
