"""HTTP servers inside our own event loop: for the webhooks, and for whatever else the manager serves.

The socket is bound by us, so that a taken port is an error to be told and not an exit; signals stay with the manager;
the certificate may change under a running server (`certs.tls.install`). Must not know what is served.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from functools import partial
from typing import Any

import uvicorn

from webhooks.protocol import Connection

Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
"""An ASGI application."""

Address = tuple[str, int]
"""Host ("" = every interface) and TCP port (0 = any free one)."""

BACKLOG = 2048

KEEP_ALIVE = 75
"""Seconds that an idle connection is kept: longer than the pauses between the API server's calls."""


class BindError(OSError):
    """The address cannot be listened on; one line says which and why."""


def bind(address: Address, purpose: str) -> socket.socket:
    """A listening socket. Raises `BindError` with one line that says where, why, and for what (`purpose`)."""
    host, port = address
    try:
        listener = _listen(host, port)
    except OSError as error:
        where = f"[{host}]:{port}" if ":" in host else f"{host or '*'}:{port}"
        hint = "another process has it: stop that one or choose another port"
        hint = hint if error.errno == errno.EADDRINUSE else "give an address of this machine and a port you may use"
        raise BindError(f"cannot listen on {where} for {purpose}: {error.strerror} ({hint})") from error
    # Connections inherit it. asyncio does not set it on sockets made like this one, and an answer, whose head and body
    # are written apart, would wait 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _listen(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # the kernel knows IPv6 but the machine has it switched off
            return socket.create_server(("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
    family = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)[0][0]  # noqa: S104 (all = asked for)
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


class Server:
    """Serves `app` on a bound socket. `started` is set once it answers; `run` ends after `stop` or cancellation.

    An app may have `posts`, paths that `webhooks.protocol.Connection` answers by itself.
    `tls` None means plain HTTP. Beyond `max_connections` the next one is answered with 503.
    """

    def __init__(
        self,
        app: App,
        listener: socket.socket,
        tls: ssl.SSLContext | None = None,
        *,
        drain_seconds: int = 8,
        max_connections: int | None = None,
    ) -> None:
        self.started = asyncio.Event()
        self.port: int = listener.getsockname()[1]
        self._listener = listener
        config = uvicorn.Config(
            app,
            interface="asgi3",
            http=partial(Connection, posts=getattr(app, "posts", {})),  # type: ignore[arg-type] # it is called, no more
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            limit_concurrency=max_connections,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=drain_seconds,
            ssl_context_factory=(lambda _config, _default: tls) if tls else None,
        )
        self._server = _Server(config, self.started)

    def stop(self) -> None:
        """Take no more connections, finish requests within `drain_seconds`, then end `run`."""
        self._server.should_exit = True

    def close(self) -> None:
        """Give up a server that never ran."""
        self._listener.close()

    async def run(self) -> None:
        """Serve. Cancelling drops the requests that are running."""
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
