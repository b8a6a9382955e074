"""Accepts TLS connections. At the limit of unfinished handshakes, an old handshake is cut for a new connection.

`loop.create_server` reports a connection only after its handshake, so this module accepts connections itself.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable

from httpserver.address import network_of
from httpserver.limits import ConnectionLimits

log = logging.getLogger(__name__)

ACCEPT_PAUSE = 1.0
"""Seconds until connections are accepted again after the system had no resources for a connection, as in asyncio."""


class Handshakes:
    """Accepts connections on one socket, until `close`. `new_protocol` makes the protocol of a connection."""

    def __init__(
        self,
        listener: socket.socket,
        tls: ssl.SSLContext,
        limits: ConnectionLimits,
        new_protocol: Callable[[], asyncio.Protocol],
    ) -> None:
        self._listener = listener
        self._tls = tls
        self._limits = limits
        self._new_protocol = new_protocol
        self._unfinished: dict[asyncio.Task[None], str] = {}
        """The unfinished handshakes with the networks of their clients, the oldest first."""
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        listener.setblocking(False)
        self._resume_accepting()

    def close(self) -> None:
        """Accept no more connections. Accepted connections continue. The socket may be closed at once."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._listener)

    def drop(self) -> None:
        """Accept no more connections, and cut unfinished handshakes, whose clients have sent no request yet."""
        self.close()
        for task in self._unfinished:
            task.cancel()

    def _resume_accepting(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        try:
            connection, address = self._listener.accept()
        except (BlockingIOError, ConnectionError):  # another process has accepted the connection, or its client is gone
            return
        except OSError as error:
            log.warning("cannot accept connections for %g s: %s", ACCEPT_PAUSE, error)
            self._loop.remove_reader(self._listener)
            self._loop.call_later(ACCEPT_PAUSE, self._resume_accepting)
            return
        connection.setblocking(False)
        if len(self._unfinished) >= self._limits.max_handshakes:
            counts = Counter(self._unfinished.values())
            # `max` returns the first, and so the oldest, of the network with most handshakes.
            oldest = max(self._unfinished, key=lambda handshake: counts[self._unfinished[handshake]])
            del self._unfinished[oldest]
            oldest.cancel()
        task = self._loop.create_task(self._shake_hands(connection))
        self._unfinished[task] = network_of(address[0])
        task.add_done_callback(lambda done: self._unfinished.pop(done, None))

    async def _shake_hands(self, connection: socket.socket) -> None:
        """Complete the handshake. Returns when the protocol has taken over, or the client has failed."""
        with contextlib.suppress(OSError):  # includes errors of TLS and timeouts
            await self._loop.connect_accepted_socket(
                self._new_protocol,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=self._limits.handshake_timeout,
                ssl_shutdown_timeout=self._limits.close_timeout,
            )
