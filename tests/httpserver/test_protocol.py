"""The states of a connection: on a model of time whatever a client sends, and the answers over real sockets and TLS."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState

from httpserver.limits import ConnectionLimits
from httpserver.protocol import Connection, State
from tests.support.tls import context_with, serving
from tests.webhooks.test_abuse_tls import PAIR, connected
from tests.webhooks.test_abuse_tls import Connection as Client

HEAD = b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
LENGTH = b"content-length: 2\r\n"
SIMPLE = HEAD + LENGTH + b"\r\n{}"
LIMITS = ConnectionLimits(
    head_timeout=5.0, request_timeout=7.0, rest_timeout=3.0, keep_alive=11, close_timeout=2.0, max_head_bytes=300
)
SECONDS = {
    State.HEAD: 5.0,
    State.REQUEST: 7.0,
    State.REST_OF_REQUEST: 3.0,
    State.IDLE: 11.0,
    State.CLOSING: 2.0,
}


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers with what it was sent. At /early it does not wait for the body, at /late it waits 100 s."""
    body, more = b"", scope["path"] != "/early"
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if scope["path"] == "/late":
        await asyncio.sleep(100)
    answer = b"application %s %s %s" % (scope["method"].encode(), scope["raw_path"], body)
    headers = [(b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time passes when it is told to."""

    seconds = 0.0

    def time(self) -> float:
        return self.seconds

    def turn(self, seconds: float = 0.0) -> None:
        """Let time pass, and do all there is to do then."""
        self.seconds += seconds
        for _ in range(10):
            self.run_until_complete(asyncio.sleep(0))


class Wire(asyncio.Transport):
    """A transport as asyncio's: what is not taken is kept, and a close waits until all is taken; an abort does not."""

    HIGH = 64 * 1024

    def __init__(self, loop: Clock) -> None:
        super().__init__()
        self._loop = loop
        self.protocol: Any = None
        self.taking = True
        self.kept = 0
        self.closing = self.ended = self.reading_paused = False

    def write(self, data: Any) -> None:
        if not self.taking:
            before, self.kept = self.kept, self.kept + len(data)
            if before <= self.HIGH < self.kept:
                self.protocol.pause_writing()

    def take(self) -> None:
        """The client takes what there is."""
        if self.kept > self.HIGH:
            self.protocol.resume_writing()
        self.kept = 0
        if self.closing:
            self._end()

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True
        if not self.kept:
            self._end()

    def abort(self) -> None:
        self.closing = True
        self._end()

    def pause_reading(self) -> None:
        self.reading_paused = True

    def resume_reading(self) -> None:
        self.reading_paused = False

    def _end(self) -> None:
        if not self.ended:
            self.ended = True
            self._loop.call_soon(self.protocol.connection_lost, None)


@contextlib.contextmanager
def model() -> Iterator[tuple[Clock, Wire, Connection]]:
    loop = Clock()
    asyncio.set_event_loop(loop)
    try:
        config = uvicorn.Config(application, interface="asgi3", ws="none", lifespan="off", log_config=None)
        wire = Wire(loop)
        connection = Connection(config, ServerState(), {}, loop, limits=LIMITS)
        wire.protocol = connection
        connection.connection_made(wire)
        yield loop, wire, connection
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.turn()
    finally:
        asyncio.set_event_loop(None)
        loop.close()


PIECES = st.sampled_from(
    [
        SIMPLE,
        HEAD,
        LENGTH,
        b"\r\n",
        b"{",
        b"{}",
        b"POST /early HTTP/1.1\r\n",
        b"POST /late HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"transfer-encoding: chunked\r\n",
        b"1\r\n{\r\n",
        b"0\r\n\r\n",
        b"0\r\nx: y\r\n",
        b"connection: close\r\n",
        b"connection: upgrade\r\nupgrade: h2c\r\n",
        b"expect: 100-continue\r\n",
        b"x: " + b"x" * 100,
        SIMPLE * 40,
        b"\x00",
    ]
) | st.binary(max_size=20)
MOVES = st.lists(
    st.tuples(st.sampled_from(["send", "send", "send", "wait", "stall", "take"]), PIECES, st.floats(0.01, 6)),
    max_size=30,
)


@pytest.mark.no_cover
@settings(max_examples=300, deadline=None)
@given(MOVES)
def test_whatever_a_client_does_its_connection_ends_within_the_limit_of_its_state(
    moves: list[tuple[str, bytes, float]],
):
    with model() as (loop, wire, connection):
        entered, state = loop.seconds, connection.state
        for move, piece, seconds in moves:
            if wire.ended:
                break
            match move:
                case "send" if not wire.reading_paused and not wire.closing:
                    connection.data_received(piece)
                    loop.turn()
                case "wait":
                    loop.turn(seconds)
                case "stall":
                    wire.taking = False
                case "take":
                    wire.taking = True
                    wire.take()
                    loop.turn()
            if connection.state is not state:
                entered, state = loop.seconds, connection.state
            assert wire.ended or loop.seconds - entered <= SECONDS[state] + 6, "a wait may pass the limit, no more"
        last = SECONDS[connection.state] + SECONDS[State.CLOSING]
        for _ in range(int(last) + 1):
            loop.turn(1.0)
        assert wire.ended, connection.state


def test_a_byte_begins_the_next_head():
    with model() as (loop, _, connection):
        connection.data_received(SIMPLE)
        loop.turn()
        connection.data_received(b"\r")
        assert connection.state is State.HEAD


@pytest.mark.parametrize(
    ("sent", "state"),
    [
        (b"", State.HEAD),
        (b"\r\n", State.HEAD),
        (HEAD, State.HEAD),
        (HEAD + LENGTH + b"\r\n", State.REQUEST),
        (HEAD + LENGTH + b"\r\n{", State.REQUEST),
        (b"POST /late HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}", State.REQUEST),
        (b"POST /early HTTP/1.1\r\ncontent-length: 2\r\n\r\n{", State.REST_OF_REQUEST),
        (SIMPLE, State.IDLE),
        (b"POST /early HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}", State.IDLE),
        (SIMPLE * 3, State.IDLE),
        (SIMPLE + HEAD, State.HEAD),
        (SIMPLE * 2 + HEAD, State.HEAD),
    ],
)
def test_the_state_after_what_was_sent_and_its_limit(sent: bytes, state: State):
    with model() as (loop, wire, connection):
        connection.data_received(sent)
        loop.turn()
        assert connection.state is state
        loop.turn(SECONDS[state] - 0.1)
        assert not wire.ended
        loop.turn(0.2)
        assert wire.ended


@pytest.mark.parametrize("byte", [b"{", b"\r"], ids=["of the body", "of no message"])
def test_bytes_do_not_stop_the_limit(byte: bytes):
    """A request that was answered before its end, and a byte now and then: such a connection stayed for ever."""
    with model() as (loop, wire, connection):
        connection.data_received(b"POST /early HTTP/1.1\r\ncontent-length: 100\r\n\r\n" if byte == b"{" else SIMPLE)
        for _ in range(20):
            loop.turn(1.0)
            if not wire.ended:
                connection.data_received(byte)
        assert wire.ended


def test_an_answer_that_is_not_taken_is_cut():
    with model() as (loop, wire, connection):
        wire.taking = False
        connection.data_received(SIMPLE.replace(b"host: x", b"connection: close"))
        loop.turn()
        assert (wire.closing, wire.ended, connection.state) == (True, False, State.CLOSING)
        loop.turn(SECONDS[State.CLOSING] + 0.1)
        assert wire.ended


def test_bytes_after_the_last_answer_do_not_keep_a_connection():
    with model() as (loop, wire, connection):
        wire.taking = False
        connection.data_received(SIMPLE.replace(b"host: x", b"connection: close"))
        loop.turn()
        for _ in range(int(SECONDS[State.CLOSING]) + 1):
            loop.turn(1.0)
            if not wire.ended:
                connection.data_received(b"x")  # TLS may deliver what came before its end
        assert wire.ended


def test_requests_ahead_of_their_answers_are_bounded():
    with model() as (loop, wire, connection):
        for _ in range(50):
            connection.data_received(b"POST /late HTTP/1.1\r\ncontent-length: 0\r\n\r\n" * 1000)
        assert len(connection.pipeline) <= 16
        for _ in range(20):
            loop.turn(100.0)
        assert wire.ended


def test_what_waits_for_its_client_can_be_cut_for_others_and_what_works_cannot():
    with model() as (loop, _, connection):
        assert connection.waiting_since == 0.0
        loop.turn(1.0)
        connection.data_received(b"POST /late HTTP/1.1\r\ncontent-length: 1\r\n\r\n")
        assert connection.waiting_since == 1.0
        connection.pause_writing()
        connection.resume_writing()
        assert connection.waiting_since == 1.0, "the client still owes the rest of its request"
        connection.data_received(b"x")
        assert connection.waiting_since is None
        connection.pause_writing()
        assert connection.waiting_since == 1.0
        connection.resume_writing()
        assert connection.waiting_since is None


@contextlib.asynccontextmanager
async def asking() -> AsyncIterator[Client]:
    """A connection to the application."""
    async with serving(application, context_with(PAIR)) as server, connected(server) as connection:
        yield connection


async def said(connection: Client) -> bytes:
    """The body of the next answer."""
    lines = (await asyncio.wait_for(connection.reader.readuntil(b"\r\n\r\n"), 10)).split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 200 OK"
    headers = dict(line.lower().split(b": ", 1) for line in lines[1:-2])
    return await connection.reader.readexactly(int(headers[b"content-length"]))


BODIES = {
    "length": SIMPLE,
    "chunks": HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "the last one": SIMPLE.replace(b"host: x", b"connection: close"),
    "old HTTP": SIMPLE.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "an upgrade that is not offered": SIMPLE.replace(b"host: x", b"connection: upgrade\r\nupgrade: h2c"),
}


@pytest.mark.parametrize("case", BODIES)
async def test_the_application_gets_the_body(case: str):
    async with asking() as connection:
        await connection.send(BODIES[case])
        body = b"" if "upgrade" in case else b"{}"
        assert await said(connection) == b"application POST /x " + body


async def test_expect_100_continue_is_answered():
    async with asking() as connection:
        await connection.send(HEAD + LENGTH + b"expect: 100-continue\r\n\r\n")
        assert await connection.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await connection.send(b"{}")
        assert await said(connection) == b"application POST /x {}"


@pytest.mark.parametrize("cut", [20, -2, -1])
async def test_a_request_that_comes_in_pieces_reaches_the_application_whole(cut: int):
    async with asking() as connection:
        for _ in range(2):
            await connection.send(SIMPLE[:cut])
            # A piece of its own, for nothing is sent together with what an answer was waited for.
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(connection.reader.read(1), 0.05)
            await connection.send(SIMPLE[cut:])
            assert await said(connection) == b"application POST /x {}"


async def test_answers_keep_the_order_of_requests_that_did_not_wait_for_each_other():
    async with asking() as connection:
        requests = [SIMPLE.replace(b"/x", b"/%d" % number) for number in range(5)]
        await connection.send(b"".join(requests))
        assert [await said(connection) for _ in requests] == [b"application POST /%d {}" % n for n in range(5)]
