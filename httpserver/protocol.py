"""The HTTP protocol of one connection: uvicorn's protocol with limits that it lacks.

A connection is always in one of these states. Each state has a time limit (`ConnectionLimits`):

| State | Begins with | Ends with | Limit |
|---|---|---|---|
| HEAD | the connection, or the first byte after IDLE | a complete head | `head_timeout` |
| REQUEST | a complete head | the last byte of the answer is written | `request_timeout` |
| REST_OF_REQUEST | the answer, if the request has not arrived completely | the end of the request | `rest_timeout` |
| IDLE | the end of request and answer | the next byte | `keep_alive` |
| CLOSING | the last answer, a protocol error, or the limit of another state | the last byte is sent | `close_timeout` |

When the time limit of CLOSING is reached, the connection is cut. The task that handles a request ends with its
connection.
"""

import asyncio
import enum
import itertools
from collections import Counter
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from httpserver.address import network_of
from httpserver.limits import ConnectionLimits

_MAX_FRAMING_BYTES = 8
"""The most bytes of chunk framing for each byte of a body. A sender with chunks of one byte needs five."""

_MAX_PIPELINED = 16
"""The most requests on a connection that wait for the answers to earlier requests."""

_MAX_UNREAD_BYTES = 512 * 1024
"""To notice a disconnected client, reading continues while a request is handled, up to so many unread bytes."""

_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

_numbers = itertools.count()
"""Numbers the connections of all servers in the order in which they came."""


class State(enum.Enum):
    """What a connection waits for."""

    HEAD = enum.auto()
    REQUEST = enum.auto()
    REST_OF_REQUEST = enum.auto()
    IDLE = enum.auto()
    CLOSING = enum.auto()


class Connection(HttpToolsProtocol):
    """The connection of one client. uvicorn alone would wait forever for most data, and buffer all that a client sends.

    The limit of the head (`max_head_bytes`) also counts trailers and chunk extensions of a message. `_message_bytes`
    and `_body_bytes` count bytes of the current message. `_read_bytes` counts bytes of the current read, without the
    parts of bodies that are parsed already. A message that begins in this read is charged with all of these bytes.

    A client may send up to `_MAX_PIPELINED` requests before earlier requests are answered. Without this limit one read
    could bring thousands. If a client sends more, its connection ends with the answer to the last request within the
    limit.
    """

    _timer: asyncio.TimerHandle | None = None
    _message_bytes = 0
    _body_bytes = 0
    _read_bytes = 0
    _is_in_head = True
    """Whether the head of the current request has not arrived completely."""
    _is_complete = False
    """Whether the current request has arrived completely."""
    _is_ignored = False
    """Whether the received data belong to a request beyond `_MAX_PIPELINED`."""
    network = ""
    """The network of the client."""
    waiting_since: float | None = None
    """The loop's time since which this connection has waited for its client; None while it works on an answer."""

    def __init__(self, *args: Any, limits: ConnectionLimits, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.number = next(_numbers)
        self._limits = limits
        self._running_cycles: dict[asyncio.Task[None], RequestResponseCycle] = {}
        self._unread_bytes = 0
        self._seconds_by_state = {
            State.HEAD: limits.head_timeout,
            State.REQUEST: limits.request_timeout,
            State.REST_OF_REQUEST: limits.rest_timeout,
            State.IDLE: limits.keep_alive,
            State.CLOSING: limits.close_timeout,
        }
        self.state = State.HEAD

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self.network = network_of(self.client[0]) if self.client else ""
        self._make_room()
        self._enter(State.HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)
        self._cancel_requests()

    def drop(self) -> None:
        """Cut the connection, and end the handling of its requests."""
        self._cancel_requests()
        if self.transport is not None:
            self.transport.abort()

    def detect_disconnect(self) -> None:
        """Continue reading while a request is handled, since a disconnected client is not noticed otherwise.

        uvicorn pauses reading when the rest of the body, or the next request, arrives before it is needed. Only
        `_MAX_UNREAD_BYTES` bytes of such data are kept. A client that has sent more is cut if the application has read
        nothing since the last check.
        """
        if not (self._running_cycles and self.flow.read_paused):
            return
        cycles = {*self._running_cycles.values(), *(cycle for cycle, _ in self.pipeline)}
        unread_before, self._unread_bytes = self._unread_bytes, sum(len(cycle.body) for cycle in cycles)
        if self._unread_bytes <= _MAX_UNREAD_BYTES:
            self.flow.resume_reading()
        elif self._unread_bytes == unread_before:
            self.drop()

    def _cancel_requests(self) -> None:
        self.pipeline.clear()
        for task, cycle in self._running_cycles.items():
            cycle.disconnected = True  # else uvicorn would log that a request was not answered
            task.cancel()

    def data_received(self, data: bytes) -> None:
        if self.state is State.IDLE:
            self._enter(State.HEAD)
        self._message_bytes += len(data)
        self._read_bytes = len(data)
        super().data_received(data)
        outside_body = self._message_bytes - self._body_bytes
        if (
            outside_body > self._limits.max_head_bytes + _MAX_FRAMING_BYTES * self._body_bytes
            and not self.transport.is_closing()
        ):
            self.transport.write(_HEAD_TOO_LARGE)
            self.transport.close()
        if self.transport.is_closing() and self.state is not State.CLOSING:
            self._enter(State.CLOSING)

    def pause_writing(self) -> None:
        self.waiting_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        if self.state is State.REQUEST and self._is_complete:
            self.waiting_since = None
        super().resume_writing()

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        self._message_bytes = self._read_bytes
        self._body_bytes = 0
        self._is_ignored = len(self.pipeline) >= _MAX_PIPELINED
        if self._is_ignored:
            self.cycle.keep_alive = False
        else:
            self._is_in_head, self._is_complete = True, False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if self._is_ignored:
            return
        self._is_in_head = False
        self._enter(State.REQUEST)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._read_bytes -= len(body)
        if not self._is_ignored:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._is_ignored:
            return
        self._is_complete = True
        if self.state is State.REST_OF_REQUEST:
            self._enter(State.IDLE)
        else:
            self.waiting_since = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        cycle: RequestResponseCycle = self.cycle
        if self.transport.is_closing():
            self._enter(State.CLOSING)
        elif not cycle.response_complete:
            self._enter(State.REQUEST)
        elif self._is_in_head:
            self._enter(State.HEAD)
        else:
            self._enter(State.IDLE if self._is_complete else State.REST_OF_REQUEST)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Start the task of a request as uvicorn does, and remember the task for this connection."""
        task = self.loop.create_task(cycle.run_asgi(app))
        self.tasks.add(task)
        self._running_cycles[task] = cycle
        task.add_done_callback(self.tasks.discard)
        task.add_done_callback(self._running_cycles.pop)

    def _unsupported_upgrade_warning(self) -> None:
        """Answer in HTTP/1.1 and end the connection, since data after the request are of another protocol.

        Does not log a warning: uvicorn would write two lines for each of thousands of requests on a connection.
        """
        if not self._is_ignored:
            self.cycle.keep_alive = False

    # Limits of time and number

    def timeout_keep_alive_handler(self) -> None:
        """Do nothing: IDLE and HEAD have timers. A single byte would stop uvicorn's own timer for good."""

    def _enter(self, state: State) -> None:
        self.state = state
        self.waiting_since = None if state is State.REQUEST and self._is_complete else self.loop.time()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(self._seconds_by_state[state], self._time_is_over)

    def _time_is_over(self) -> None:
        if self.transport.is_closing():
            self.transport.abort()
            return
        self.transport.close()
        self._enter(State.CLOSING)

    def _make_room(self) -> None:
        """If there are more than `max_connections`, cut one that waits for its client.

        It is the one that has waited longest, of the network that has the most waiting connections.
        """
        if len(self.connections) <= self._limits.max_connections:
            return
        waiting_connections = [
            connection
            for connection in self.connections
            if isinstance(connection, Connection) and connection is not self and connection.waiting_since is not None
        ]
        if waiting_connections:
            counts = Counter(connection.network for connection in waiting_connections)
            # The clock of a loop may stand still for some milliseconds in which many connections come.
            connection_to_cut = min(
                waiting_connections,
                key=lambda connection: (-counts[connection.network], connection.waiting_since, connection.number),
            )
            # The loop reports the end of the connection later. Unlike `abort`, `close` would wait for the client.
            self.connections.discard(connection_to_cut)
            connection_to_cut.transport.abort()
