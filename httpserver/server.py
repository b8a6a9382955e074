"""A server that runs in the event loop of the program. It takes a bound socket, and leaves signals to the manager.

The certificate may change under a running server (`certs.tls.install`).
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import uvicorn

from httpserver.address import BACKLOG
from httpserver.asgi import App, Message, Receive, Send, respond
from httpserver.handshakes import Handshakes
from httpserver.limits import WEBHOOK_LIMITS, ConnectionLimits
from httpserver.protocol import Connection


class Server:
    """Serves `app` on a bound socket. `started` is set once it answers. `run` ends after `stop` or cancellation.

    `tls` None means plain HTTP. `is_exempt` returns whether a path is answered however many requests and connections
    there are. The answer for such a path must be cheap.
    """

    def __init__(
        self,
        app: App,
        listener: socket.socket,
        tls: ssl.SSLContext | None = None,
        *,
        limits: ConnectionLimits = WEBHOOK_LIMITS,
        is_exempt: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.started = asyncio.Event()
        self.port: int = listener.getsockname()[1]
        self._listener = listener
        new_connection = partial(Connection, limits=limits)
        config = uvicorn.Config(
            self._with_limits(app),
            interface="asgi3",
            http=new_connection,  # type: ignore[arg-type] # uvicorn only calls it
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            ssl_context_factory=(lambda _config, _default: tls) if tls else None,
        )
        self._server = _Server(config, limits, self.started)
        self._is_winding_down = False
        self._limits = limits
        self._is_exempt = is_exempt

    @property
    def requests(self) -> int:
        """The number of requests since the start."""
        return self._server.server_state.total_requests

    def wind_down(self) -> None:
        """End each connection with its next answer, by `Connection: close`.

        Otherwise `stop` closes idle connections while requests are on their way, and these requests fail.
        """
        self._is_winding_down = True

    def stop(self) -> None:
        """Accept no more connections and requests. `run` ends with the requests that are running."""
        self._server.should_exit = True

    async def run(self) -> None:
        """Serve until `stop` and the end of running requests. Cancellation drops the running requests."""
        try:
            await self._server.serve(sockets=[self._listener])
        finally:
            self._server.drop()
            self._listener.close()

    def _with_limits(self, app: App) -> App:
        """The application within the limits. Unlike in uvicorn, a dropped request is not logged as an error."""

        async def answer_within_limits(scope: Message, receive: Receive, send: Send) -> None:
            async def answer(message: Message) -> None:
                if self._is_winding_down and message["type"] == "http.response.start":
                    message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
                await send(message)

            with contextlib.suppress(asyncio.CancelledError):
                if self._is_full and not self._is_exempt(scope["path"]):
                    await respond(answer, 503, "Service Unavailable", headers={"connection": "close"})
                else:
                    await app(scope, receive, answer)

        return answer_within_limits

    @property
    def _is_full(self) -> bool:
        """Whether there are more connections or requests than allowed, including the current ones."""
        state, limit = self._server.server_state, self._limits.max_connections
        return len(state.connections) > limit or len(state.tasks) > limit


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits, started: asyncio.Event) -> None:
        super().__init__(config)
        self.servers: list[asyncio.Server] = []
        self._handshakes: list[Handshakes] = []
        self._limits = limits
        self._started_event = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections. Unlike in uvicorn, unfinished TLS handshakes, which may take 60 s, are counted."""
        await self.lifespan.startup()
        tls, loop = self.config.ssl, asyncio.get_running_loop()
        for listener in sockets or ():
            if tls is None:
                self.servers.append(await loop.create_server(self._new_connection, sock=listener, backlog=BACKLOG))
            else:
                self._handshakes.append(Handshakes(listener, tls, self._limits, self._new_connection))
        self.started = True
        self._started_event.set()

    async def on_tick(self, counter: int) -> bool:
        """Detect disconnected clients, ten times a second."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection):
                connection.detect_disconnect()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and wait for running requests."""
        for handshakes in self._handshakes:
            handshakes.close()
        await super().shutdown(sockets)

    def _new_connection(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        protocol_class: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = protocol_class(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not capture signals, which the manager handles."""
        yield

    def drop(self) -> None:
        """Close everything that is still open. After a clean stop, nothing is open."""
        for server in self.servers:
            server.close()
        for handshakes in self._handshakes:
            handshakes.drop()
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection):
                connection.drop()
        for task in self.server_state.tasks:
            task.cancel()
