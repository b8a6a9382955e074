"""The HTTPS server of the webhooks, inside our own event loop.

The socket is bound by us, so that a taken port is an error to be told and not an exit; signals stay with the manager;
the certificate may change under a running server (`certs.tls.install`).
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import uvicorn

BACKLOG = 2048


class BindError(OSError):
    """The address cannot be listened on; one line says which and why."""


def bind(host: str, port: int) -> socket.socket:
    """A bound socket; `host` "" is every interface, `port` 0 is any free one. Raises `BindError`."""
    family, address = _address(host)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((address, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        where = f"{host or '*'}:{port}"
        hint = (
            "another process has it: stop that one or set webhook.port"
            if error.errno == errno.EADDRINUSE
            else "check webhook.host"
        )
        raise BindError(f"cannot listen on {where} for webhooks: {error.strerror} ({hint})") from error
    return listener


def _address(host: str) -> tuple[socket.AddressFamily, str]:
    if ":" in host:
        return socket.AF_INET6, host
    if not host and socket.has_dualstack_ipv6():
        return socket.AF_INET6, "::"
    return socket.AF_INET, host


class WebhookServer:
    """One server over one socket. `started` is set once connections are taken; `run` ends after `stop` was called."""

    def __init__(self, app: Any, listener: socket.socket, context: ssl.SSLContext, *, drain_seconds: int = 8) -> None:
        self.started = asyncio.Event()
        self.port: int = listener.getsockname()[1]
        self._listener = listener
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=drain_seconds,
            ssl_context_factory=lambda _config, _default: context,
        )
        self._server = _Server(config, self.started)

    def stop(self) -> None:
        """Take no more connections, finish the requests that run (within `drain_seconds`), then end `run`."""
        self._server.should_exit = True

    async def run(self) -> None:
        """Serve. Cancelling drops what is running; prefer `stop`."""
        try:
            await self._server.serve(sockets=[self._listener])
        finally:
            self._listener.close()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: asyncio.Event) -> None:
        super().__init__(config)
        self._started_event = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._started_event.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the manager."""
        yield
