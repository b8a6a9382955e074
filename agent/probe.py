"""The startup probe of sidecar mode: 503 while the barrier is up, 200 once it is lifted.

The kubelet starts the other containers of the pod when the probe succeeds. The probe serves one small request at a
time, each with a deadline, so that other clients of the port can neither fill the agent's memory nor delay the kubelet
for long.
"""

from __future__ import annotations

import socket
import threading

REQUEST_SECONDS = 1.0
LONGEST_REQUEST = 4096
"""Bytes of a request that are read."""


class Probe:
    """Listens from the start, so that a port in use is reported at once and not when the barrier is lifted."""

    def __init__(self, port: int, path: str) -> None:
        """Listen on `port`, or on a free port if it is 0. Raises OSError."""
        has_dual_stack = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if has_dual_stack else socket.AF_INET
        self._server = socket.create_server(("", port), family=family, dualstack_ipv6=has_dual_stack, backlog=16)
        self.port: int = self._server.getsockname()[1]
        self._path = path.encode()
        self._barrier_lifted = threading.Event()

    def lift(self) -> None:
        self._barrier_lifted.set()

    def serve(self) -> None:
        """Answer requests forever; for a thread of its own."""
        while True:
            connection, _ = self._server.accept()
            with connection:
                try:
                    connection.settimeout(REQUEST_SECONDS)
                    connection.sendall(self._answer(connection.recv(LONGEST_REQUEST)))
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # the client disconnected or was too slow; the kubelet repeats its probe

    def _answer(self, request: bytes) -> bytes:
        words = request.split(b" ", 2)
        if len(words) < 3 or words[0] != b"GET" or words[1].partition(b"?")[0] != self._path:
            status, text = b"404 Not Found", b"no such probe\n"
        elif self._barrier_lifted.is_set():
            status, text = b"200 OK", b"the barrier is down\n"
        else:
            status, text = b"503 Service Unavailable", b"the barrier is up\n"
        length = str(len(text)).encode()
        return (
            b"HTTP/1.1 " + status + b"\r\nContent-Type: text/plain\r\nContent-Length: " + length
            + b"\r\nConnection: close\r\n\r\n" + text
        )  # fmt: skip
