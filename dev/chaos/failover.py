"""A TCP relay at the address of admission, which passes each connection to a ready replica, as a Service does.

It is more tolerant than a Service in two ways, so that remaining failures are failures of the manager. A connection
that a replica refuses goes to the next replica, and connections to a replica that hangs are broken.
"""

import asyncio
import contextlib
from collections import defaultdict
from itertools import count

CHUNK = 64 * 1024


class Failover:
    """Listens on `port`. Call its methods only in its event loop."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._ready: list[int] = []
        self._turn = count()
        self._server: asyncio.Server | None = None
        self._open: dict[int, set[asyncio.StreamWriter]] = defaultdict(set)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=512)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for port in list(self._open):
            self.drop(port)

    def set_ready(self, ports: list[int]) -> None:
        """Pass new connections to the replicas on these ports from now on."""
        self._ready = ports

    def drop(self, port: int) -> None:
        """Break the connections to a replica."""
        for writer in self._open.pop(port, ()):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = next(self._turn) % max(1, len(self._ready))
        for port in self._ready[first:] + self._ready[:first]:
            try:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue
            ends = {writer, far_writer}
            self._open[port] |= ends
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
            self._open[port] -= ends
            return
        writer.transport.abort()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Copy until the source ends. Then the target is closed, which also ends the other direction."""
    with contextlib.suppress(ConnectionError):
        while data := await source.read(CHUNK):
            target.write(data)
            await target.drain()
    target.close()
