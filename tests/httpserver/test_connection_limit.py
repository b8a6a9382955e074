"""Servers of few connections over real sockets: who is closed to make room, and when there is none."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.health import Health
from httpserver.address import bind
from httpserver.limits import ENDPOINT_LIMITS, ConnectionLimits
from httpserver.server import Server
from tests.support.serving import LOCAL, fetch, serving

MAX = ENDPOINT_LIMITS.max_connections or 0
GET = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Held:
    """An application whose requests end when the test says so."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.running = 0
        self.release = asyncio.Event()
        self.server = Server(self, bind(LOCAL, "a test"), limits=limits)

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        self.running += 1
        await self.release.wait()
        self.running -= 1
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@contextlib.asynccontextmanager
async def connected(port: int, count: int, send: bytes = b"", host: str = "127.0.0.1") -> AsyncIterator[list[Streams]]:
    """So many connections of a stranger at this address, each of which has sent this."""
    streams: list[Streams] = []
    try:
        for _ in range(count):
            streams.append(await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0)))
            streams[-1][1].write(send)
        yield streams
    finally:
        for _, writer in streams:
            writer.transport.abort()


async def answered(streams: Streams, status: bytes = b"200") -> None:
    """The answer to `GET`, read to its end."""
    head = await asyncio.wait_for(streams[0].readuntil(b"\r\n\r\n"), 5)
    assert head.startswith(b"HTTP/1.1 " + status), head
    if status == b"200":
        await streams[0].readexactly(2)


async def closed(streams: Streams) -> None:
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(streams[0].read(), 5) == b""


async def test_a_probe_is_answered_beside_silent_connections():
    async with serving(Health().server(LOCAL)) as port, connected(port, MAX) as silent:
        for _ in range(3):
            assert await fetch(f"http://127.0.0.1:{port}/healthz") == (200, "ok")
        await closed(silent[0])
        assert not silent[-1][0].at_eof(), "there was no need to close this one"


async def test_a_probe_is_answered_beside_connections_that_were_used_and_kept():
    async with serving(Health().server(LOCAL)) as port, connected(port, MAX, GET) as kept:
        for streams in kept:
            await answered(streams)
        assert await fetch(f"http://127.0.0.1:{port}/healthz") == (200, "ok")


async def test_the_connection_that_was_idle_longest_is_closed():
    async with serving(Health().server(LOCAL)) as port, connected(port, MAX) as idle:
        for streams in (idle[0], idle[2]):
            streams[1].write(GET)
            await answered(streams)
        assert await fetch(f"http://127.0.0.1:{port}/healthz") == (200, "ok")
        await closed(idle[1])
        idle[0][1].write(GET)
        await answered(idle[0])


async def test_connections_of_one_stranger_do_not_cut_those_of_others():
    async with serving(Health().server(LOCAL)) as port, connected(port, 3, GET) as honest:
        for streams in honest:
            await answered(streams)
        async with connected(port, 2 * MAX, host="127.0.0.2") as crowd:
            await closed(crowd[0])
            for streams in honest:
                streams[1].write(GET)
                await answered(streams)


async def test_a_request_that_runs_is_not_closed_and_without_room_there_is_503():
    held = Held(ConnectionLimits(max_connections=3))
    async with serving(held.server) as port, connected(port, 3, GET) as busy:
        async with asyncio.timeout(5):
            while held.running < 3:  # noqa: ASYNC110 -- the server sets no event
                await asyncio.sleep(0.005)
        async with connected(port, 1, GET) as [refused]:
            await answered(refused, b"503")
        held.release.set()
        for streams in busy:
            await answered(streams)
        assert await fetch(f"http://127.0.0.1:{port}/") == (200, "ok"), "there is room again"


async def test_a_burst_of_silent_connections_stays_within_the_limit():
    async with serving(Health().server(LOCAL)) as port, connected(port, 5 * MAX) as silent:
        assert await fetch(f"http://127.0.0.1:{port}/healthz") == (200, "ok")
        for streams in silent[: 4 * MAX]:
            await closed(streams)


async def test_a_request_for_another_protocol_is_answered_and_ends_its_connection(caplog: pytest.LogCaptureFixture):
    asked = GET.replace(b"\r\n\r\n", b"\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
    async with serving(Health().server(LOCAL)) as port, connected(port, 1, asked * 3) as [streams]:
        answer = await asyncio.wait_for(streams[0].read(), 5)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"connection: close" in answer
    assert caplog.messages == [], "it is not a fault of ours"
