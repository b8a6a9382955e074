"""Limits of the connections of a server, so that memory and time stay bounded whatever its clients send."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of the connections of one server."""

    handshake_timeout: float = 10.0
    """Seconds for the TLS handshake."""

    max_handshakes: int = 500
    """Unfinished TLS handshakes. One more cuts the oldest one of the network that has most. An API server sends 200
    writes at once."""

    head_timeout: float = 32.0
    """Seconds in which request line and headers have to arrive on a connection; the Go JobSet waits as long."""

    request_timeout: float = 40.0
    """Seconds from the head of a request to the end of its answer. The API server waits 30 for a webhook, at most."""

    rest_timeout: float = 10.0
    """Seconds in which a client has to finish a request that was answered already."""

    keep_alive: int = 120
    """Seconds that an idle connection is kept. API servers close theirs after 90; a server that closes earlier may do
    so while a request is on its way, which then fails."""

    close_timeout: float = 5.0
    """Seconds that a client has to receive the last answer before its connection is cut."""

    max_head: int = 64 * 1024
    """Bytes of request line and headers; the API server sends a few hundred, a token a few thousand."""

    max_connections: int = 1000
    """Open connections. One more cuts a connection that waits for its client: the longest waiting one of the network
    with most of them. So a stranger with many connections does not cut those of the API server. If none waits, requests
    of the new one are answered with 503."""


WEBHOOK_LIMITS = ConnectionLimits()
"""The API server keeps its connections, and opens as many as it has requests to send."""

ENDPOINT_LIMITS = ConnectionLimits(max_handshakes=64, head_timeout=10.0, keep_alive=10, max_connections=64)
"""For probes and metrics: few clients, short answers. The kubelet opens a connection for each probe."""
