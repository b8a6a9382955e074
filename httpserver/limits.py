"""What a server grants its clients, so that memory and time stay bounded whatever they send."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
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
    """Open connections; the next one is answered with 503. None: no limit."""

    drain_seconds: int = 8
    """Seconds that a stop waits for the requests that run."""


DEFAULT = Limits()
"""For webhooks."""

SMALL = Limits(max_connections=64, drain_seconds=2)
"""For probes and metrics: few clients, short answers."""
