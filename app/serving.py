"""Small HTTP servers inside the manager's event loop, for metrics and probes.

The socket is bound by us, so that a taken port is an error to be told and not an exit; signals stay with the manager.
Must not know what is served.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

import uvicorn

from webhooks.server import BindError

Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
"""An ASGI application."""

BACKLOG = 128
MAX_CONNECTIONS = 64
"""Open connections of one server; the next one is answered with 503, so that memory stays bounded."""

Address = tuple[str, int]
"""Host ("" = every interface) and TCP port (0 = any free one)."""


def parse_bind_address(text: str) -> Address | None:
    """`host:port`, `:port` or `[ipv6]:port`; `0` gives None: do not listen. Anything else raises `BindError`."""
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    plain = host[1:-1] if bracketed else host
    if not colon or (":" in plain) != bracketed or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise BindError(f"cannot listen on {text!r}: write host:port, :port or [ipv6]:port, or 0 to switch it off")
    return plain, int(port)


def bind(address: Address, purpose: str) -> socket.socket:
    """A listening socket. Raises `BindError` with one line that says where, why, and for what (`purpose`)."""
    host, port = address
    try:
        return _listen(host, port)
    except OSError as error:
        where = f"[{host}]:{port}" if ":" in host else f"{host or '*'}:{port}"
        hint = "another process has it: stop that one or choose another port"
        cause = f"{error.strerror} ({hint})" if error.errno == errno.EADDRINUSE else error.strerror
        raise BindError(f"cannot listen on {where} for {purpose}: {cause}") from error


def _listen(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # the kernel knows IPv6 but the machine has it switched off
            return socket.create_server(("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
    family = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)[0][0]  # noqa: S104 (all = asked for)
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


class Server:
    """Serves `app` on a bound socket. `started` is set once it answers; `run` ends after `stop` or cancellation."""

    def __init__(
        self, app: App, listener: socket.socket, *, tls: ssl.SSLContext | None = None, drain_seconds: int = 2
    ) -> None:
        self.started = asyncio.Event()
        self.port: int = listener.getsockname()[1]
        self._listener = listener
        config = uvicorn.Config(
            app,
            interface="asgi3",
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            limit_concurrency=MAX_CONNECTIONS,
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


async def respond(
    send: Callable[[Message], Awaitable[None]],
    status: int,
    body: bytes | str,
    content_type: str = "text/plain; charset=utf-8",
) -> None:
    """Send a whole answer; nothing of it may be cached or guessed at."""
    data = body.encode() if isinstance(body, str) else body
    headers = {
        "content-type": content_type,
        "content-length": str(len(data)),
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
    }
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": data})
