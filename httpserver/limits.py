"""Limits of the connections of a server, so that memory and time stay bounded whatever its clients send."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of the connections of one server."""

    handshake_timeout: float = 10.0
    """Seconds for the TLS handshake."""

    max_handshakes: int = 500
    """The most unfinished TLS handshakes. A further handshake cuts the oldest handshake of the network that has most.
    An API server sends 200 writes at once."""

    head_timeout: float = 32.0
    """Seconds in which request line and headers have to arrive on a connection, as in the Go JobSet."""

    request_timeout: float = 40.0
    """Seconds from the head of a request to the end of its answer. The API server waits at most 30 s for a webhook."""

    rest_timeout: float = 10.0
    """Seconds in which a client has to finish sending a request that has its answer already."""

    keep_alive: int = 120
    """Seconds that an idle connection is kept. API servers close idle connections after 90 s. If the server closed a
    connection earlier, a request that is on its way at that moment would fail."""

    close_timeout: float = 5.0
    """Seconds that a client has to receive the last answer before its connection is cut."""

    max_head_bytes: int = 64 * 1024
    """The most bytes of request line and headers. The API server sends a few hundred; a token has a few thousand."""

    max_connections: int = 1000
    """The most open connections. A further connection cuts a connection that waits for its client: in the network with
    most waiting connections, the connection that has waited longest. So another client with many connections does not
    cut connections of the API server. If no connection waits, requests of the new connection are answered with 503."""


WEBHOOK_LIMITS = ConnectionLimits()
"""Limits for webhooks. The API server keeps its connections, and opens as many as it has requests to send."""

ENDPOINT_LIMITS = ConnectionLimits(max_handshakes=64, head_timeout=10.0, keep_alive=10, max_connections=64)
"""Limits for probes and metrics, which have few clients. The kubelet opens a connection for each probe."""
