"""A server inside our own event loop: it takes a socket that is bound, and leaves signals to the manager.

The certificate may change under a running server (`certs.tls.install`).
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator, Mapping
from functools import partial

import uvicorn

from httpserver.address import BACKLOG
from httpserver.asgi import App
from httpserver.limits import WEBHOOK_LIMITS, ConnectionLimits
from httpserver.protocol import Connection, FastPath


class Server:
    """Serves `app` on a bound socket. `started` is set once it answers; `run` ends after `stop` or cancellation.

    `tls` None means plain HTTP. `fast_paths` are answered by the connection itself (`httpserver.protocol`).
    """

    def __init__(
        self,
        app: App,
        listener: socket.socket,
        tls: ssl.SSLContext | None = None,
        *,
        fast_paths: Mapping[bytes, FastPath] | None = None,
        limits: ConnectionLimits = WEBHOOK_LIMITS,
    ) -> None:
        self.started = asyncio.Event()
        self.port: int = listener.getsockname()[1]
        self._listener = listener
        connection = partial(Connection, fast_paths=fast_paths or {}, limits=limits)
        config = uvicorn.Config(
            app,
            interface="asgi3",
            http=connection,  # type: ignore[arg-type] # it is called, no more
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            # uvicorn counts the connection that asks: below this many open ones it answers.
            limit_concurrency=limits.max_connections and limits.max_connections + 1,
            timeout_keep_alive=limits.keep_alive,
            ssl_context_factory=(lambda _config, _default: tls) if tls else None,
        )
        self._server = _Server(config, self.started)

    def stop(self) -> None:
        """Take no more connections and no more requests; `run` ends with the requests that are running."""
        self._server.should_exit = True

    async def run(self) -> None:
        """Serve until `stop`, however long its last requests take. Cancelling drops them."""
        try:
            await self._server.serve(sockets=[self._listener])
        finally:
            self._server.drop()
            self._listener.close()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: asyncio.Event) -> None:
        super().__init__(config)
        self.servers: list[asyncio.Server] = []
        self._started_event = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._started_event.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the manager."""
        yield

    def drop(self) -> None:
        """Close whatever is still open; nothing after a clean stop."""
        for server in self.servers:
            server.close()
        for task in self.server_state.tasks:
            task.cancel()
        for connection in list(self.server_state.connections):
            transport: asyncio.Transport | None = connection.transport
            if transport is not None:
                transport.abort()
