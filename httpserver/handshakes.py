"""Accepts TLS connections: the number of unfinished handshakes is limited, and the oldest is cut for a new one.

`loop.create_server` reports a connection only after its handshake, so this file accepts connections itself.
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
"""Seconds until connections are accepted again if the system has no resources for one; the same as in asyncio."""


class Handshakes:
    """Accepts connections on one socket, until `close`. `make` returns the protocol of a connection."""

    def __init__(
        self,
        listener: socket.socket,
        tls: ssl.SSLContext,
        limits: ConnectionLimits,
        make: Callable[[], asyncio.Protocol],
    ) -> None:
        self._listener = listener
        self._tls = tls
        self._limits = limits
        self._make = make
        self._unfinished: dict[asyncio.Task[None], str] = {}
        """Handshakes and the networks of their clients, the oldest first."""
        self._loop = asyncio.get_running_loop()
        self._closed = False
        listener.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Accept no more connections. Accepted ones continue. The socket may be closed at once."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._listener)

    def drop(self) -> None:
        """Also cut unfinished handshakes. Their clients have sent no request yet."""
        self.close()
        for task in self._unfinished:
            task.cancel()

    def _resume(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        try:
            connection, address = self._listener.accept()
        except (BlockingIOError, ConnectionError):  # another process has accepted it, or the client is gone
            return
        except OSError as error:
            log.warning("cannot accept connections for %g s: %s", ACCEPT_PAUSE, error)
            self._loop.remove_reader(self._listener)
            self._loop.call_later(ACCEPT_PAUSE, self._resume)
            return
        connection.setblocking(False)
        if len(self._unfinished) >= self._limits.max_handshakes:
            count = Counter(self._unfinished.values())
            oldest = max(self._unfinished, key=lambda each: count[self._unfinished[each]])
            del self._unfinished[oldest]
            oldest.cancel()
        task = self._loop.create_task(self._shake_hands(connection))
        self._unfinished[task] = network_of(address[0])
        task.add_done_callback(lambda done: self._unfinished.pop(done, None))

    async def _shake_hands(self, connection: socket.socket) -> None:
        """Ends when the protocol has taken over, or the client has failed."""
        with contextlib.suppress(OSError):  # of TLS and of time, too
            await self._loop.connect_accepted_socket(
                self._make,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=self._limits.handshake_timeout,
                ssl_shutdown_timeout=self._limits.close_timeout,
            )
