"""Abuse of the protocol below the reviews: heads, chunks and connections, over real sockets and TLS."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator

import pytest
from fastapi import FastAPI

from api.features import FeatureGates
from app.engine import engine
from httpserver.limits import WEBHOOK_LIMITS, ConnectionLimits
from httpserver.server import Server
from tests.support.objects.reviews import answer
from tests.support.tls import context_with, material, serving, trusting
from tests.support.webhook_app import APP, GOOD
from webhooks.body import BodyLimits
from webhooks.jobset.handlers import VALIDATE_PATH, jobset_handlers
from webhooks.router import create_app

PAIR = material()
SECRET = b"hunter2"
MAX_HEAD = WEBHOOK_LIMITS.max_head_bytes
POST = b"POST " + VALIDATE_PATH.encode() + b" HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
WHOLE = POST + b"content-length: %d\r\n\r\n%s" % (len(GOOD), GOOD)
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


class Connection:
    """A TLS connection on which a test writes bytes as it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Write, unless the server has hung up already: then its answer is there to be read."""
        with contextlib.suppress(ConnectionError):
            self.writer.write(data)
            await asyncio.wait_for(self.writer.drain(), 10)

    async def rest(self) -> bytes:
        """Everything up to the end of the connection, which has to come."""
        got = b""
        with contextlib.suppress(ConnectionError):
            while part := await asyncio.wait_for(self.reader.read(65536), 10):
                got += part
        return got

    async def review(self) -> dict:
        """The next answer, read as an AdmissionReview."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)
        assert head.startswith(b"HTTP/1.1 200 ")
        length = next(line for line in head.splitlines() if line.lower().startswith(b"content-length:"))
        return answer(await self.reader.readexactly(int(length.partition(b":")[2])))


@contextlib.asynccontextmanager
async def connected(to: Server) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", to.port, ssl=trusting(PAIR.authorities))
    try:
        yield Connection(reader, writer)
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def served(limits: ConnectionLimits = WEBHOOK_LIMITS, app: FastAPI = APP) -> AsyncIterator[Server]:
    """A server that still answers after whatever the test did to it."""
    async with serving(app, context_with(PAIR), limits=limits) as running:
        yield running
        async with connected(running) as connection:
            await connection.send(WHOLE)
            assert (await connection.review())["allowed"] is True


async def endless(connection: Connection, piece: bytes) -> int:
    """Bytes that could be sent before the server hung up."""
    sent = 0
    while not connection.writer.is_closing():
        await connection.send(piece)
        await asyncio.sleep(0)  # where the end of the connection is noticed
        sent += len(piece)
        assert sent < 64 * 2**20
    return sent


HEADS = {
    "a header without end": (POST + b"x: ", b"x" * 65536),
    "headers without end": (POST, b"x: y\r\n" * 5000),
    "a path without end": (b"POST /", b"x" * 65536),
    "a chunk extension without end": (CHUNKED + b"1;", b"x" * 65536),
    "trailers without end": (CHUNKED + b"0\r\n", b"x: y\r\n" * 5000),
    "a trailer without end": (CHUNKED + b"0\r\nx: ", b"x" * 65536),
    "empty lines without end": (b"", b"\r\n" * 30000),
}


@pytest.mark.parametrize("case", HEADS)
async def test_an_endless_head_closes_the_connection(case: str):
    begin, piece = HEADS[case]
    async with served() as running, connected(running) as connection:
        await connection.send(begin)
        # What both sides buffer comes on top.
        assert await endless(connection, piece) < MAX_HEAD + 2**20


async def test_too_large_a_head_is_answered():
    async with served() as running, connected(running) as connection:
        await connection.send(POST + b"x: " + b"x" * (2 * MAX_HEAD))
        assert (await connection.rest()).startswith(b"HTTP/1.1 431 ")


async def test_a_head_of_tens_of_kilobytes_is_fine():
    async with served() as running, connected(running) as connection:
        await connection.send(WHOLE.replace(b"host: x", b"host: x\r\nauthorization: " + b"x" * (MAX_HEAD // 2)))
        assert (await connection.review())["allowed"] is True


async def test_a_body_in_chunks_of_one_byte_is_fine():
    async with served() as running, connected(running) as connection:
        body = GOOD + b" " * MAX_HEAD
        await connection.send(CHUNKED + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
        assert (await connection.review())["allowed"] is True


@pytest.mark.parametrize(
    "begin", [b"", b"POS", POST, WHOLE + POST], ids=["nothing", "a word", "headers", "a second head"]
)
async def test_a_head_that_does_not_arrive_is_given_up(begin: bytes):
    async with served(ConnectionLimits(head_timeout=0.1)) as running, connected(running) as connection:
        await connection.send(begin)
        if begin.startswith(WHOLE):
            assert (await connection.review())["allowed"] is True
        assert await connection.rest() == b""


async def test_the_time_for_the_head_is_not_that_of_the_body_or_of_idle_connections():
    async with served(ConnectionLimits(head_timeout=0.1)) as running, connected(running) as connection:
        for _ in range(2):
            await connection.send(WHOLE[:-1])
            await asyncio.sleep(0.2)
            await connection.send(WHOLE[-1:])
            assert (await connection.review())["allowed"] is True
            await asyncio.sleep(0.2)


async def test_bodies_that_drip_are_given_up_while_others_are_answered():
    app = create_app(jobset_handlers(engine(FeatureGates())), limits=BodyLimits(body_timeout=0.5))

    async def drip(connection: Connection) -> int:
        await connection.send(CHUNKED)
        for byte in GOOD:
            await connection.send(b"1\r\n%c\r\n" % byte)
            if connection.reader.at_eof() or connection.reader._buffer:
                break
            await asyncio.sleep(0.02)
        return int((await connection.review())["status"]["code"])

    async with served(app=app) as running, contextlib.AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(connected(running)) for _ in range(20)]
        dripping = [asyncio.create_task(drip(connection)) for connection in slow]
        async with connected(running) as connection, asyncio.timeout(5):
            for _ in range(50):
                await connection.send(WHOLE)
                assert (await connection.review())["allowed"] is True
        assert await asyncio.gather(*dripping) == [408] * len(slow)
        assert [await connection.rest() for connection in slow] == [b""] * len(slow)


BROKEN = {
    "two lengths": POST + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    "length and chunks": POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a negative length": POST + b"content-length: -1\r\n\r\n",
    "a length beyond all numbers": POST + b"content-length: " + b"9" * 40 + b"\r\n\r\n",
    "a chunk size that is none": CHUNKED + b"zz\r\n",
    "no path": b"POST HTTP/1.1\r\n\r\n",
    "a path that is not text": b"POST /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
    "a space before the colon": POST + b"content-length : 5\r\n\r\nhello",
    "another protocol": b"\x16\x03\x01\x00\xa5\x01\x00",
}


@pytest.mark.parametrize("case", BROKEN)
async def test_broken_http_is_answered_with_400_and_closes_the_connection(case: str):
    async with served() as running, connected(running) as connection:
        await connection.send(BROKEN[case])
        assert (await connection.rest()).startswith(b"HTTP/1.1 400 ")


async def test_pipelined_reviews_are_answered_in_order():
    async with served() as running, connected(running) as connection:
        bad = WHOLE.replace(b'"uid":"u1"', b'"uid":"u2"').replace(b'"replicas":1', b'"replicas":x')
        long = POST + b"content-length: %d\r\n\r\n%s" % (3 * MAX_HEAD, GOOD.ljust(3 * MAX_HEAD))
        await connection.send(WHOLE + bad + long + long + WHOLE)
        assert [(await connection.review())["allowed"] for _ in range(5)] == [True, False, True, True, True]


async def test_http_1_0_and_expect_100_continue_are_served():
    async with served() as running:
        async with connected(running) as connection:
            await connection.send(WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"))
            assert (await connection.review())["allowed"] is True
            assert await connection.rest() == b""
        async with connected(running) as connection:
            head, _, body = WHOLE.partition(b"\r\n\r\n")
            await connection.send(head + b"\r\nexpect: 100-continue\r\n\r\n")
            assert await connection.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            await connection.send(body)
            assert (await connection.review())["allowed"] is True


async def test_nothing_that_was_sent_is_logged(caplog: pytest.LogCaptureFixture):
    secret = GOOD.replace(b"workers", SECRET)
    whole = POST + b"x-secret: %s\r\ncontent-length: %d\r\n\r\n%s" % (SECRET, len(secret), secret)
    with caplog.at_level(logging.DEBUG):
        async with served() as running:
            for data in (
                whole,
                whole.replace(b" HTTP/1.1", b"/" + SECRET + b" HTTP/1.1"),
                whole.replace(b" HTTP/1.1", b"?" + SECRET + b" HTTP/1.1"),
                POST + b"upgrade: " + SECRET + b"\r\nconnection: upgrade\r\n\r\n",
                POST + SECRET + b"\r\n\r\n",
                SECRET,
            ):
                async with connected(running) as connection:
                    await connection.send(data)
                    if data is not SECRET and b"upgrade" not in data:
                        assert await asyncio.wait_for(connection.reader.read(12), 10)
    assert SECRET.decode() not in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_client_that_disconnects_leaves_nothing_behind(caplog: pytest.LogCaptureFixture):
    async with served() as running:
        for part in (WHOLE[:40], WHOLE[:-1], WHOLE):
            async with connected(running) as connection:
                await connection.send(part)
    assert "Traceback" not in caplog.text


CROWD = "127.0.0.2"
"""The address of a stranger who opens many connections."""


@contextlib.asynccontextmanager
async def silent(port: int, count: int, host: str = "127.0.0.1") -> AsyncIterator[list[asyncio.StreamReader]]:
    """So many clients that connect and begin no handshake."""
    streams = [await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0)) for _ in range(count)]
    try:
        yield [reader for reader, _ in streams]
    finally:
        for _, writer in streams:
            writer.transport.abort()


async def test_of_too_many_unfinished_handshakes_the_oldest_is_cut():
    async with served(ConnectionLimits(max_handshakes=3)) as running, silent(running.port, 3) as readers:
        async with connected(running) as connection:
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(readers[0].read(), 5) == b""
            await connection.send(WHOLE)
            assert (await connection.review())["allowed"] is True
        assert not readers[1].at_eof(), "there was no need to cut this one"
        async with silent(running.port, 30) as more:
            for reader in more[:27]:
                with contextlib.suppress(ConnectionError):
                    assert await asyncio.wait_for(reader.read(), 5) == b""


async def test_unfinished_handshakes_of_one_stranger_do_not_cut_those_of_others():
    limits = ConnectionLimits(max_handshakes=4)
    async with served(limits) as running, silent(running.port, 1) as [slow], silent(running.port, 30, CROWD) as crowd:
        for reader in crowd[:20]:
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 5) == b""
        assert not slow.at_eof()


async def test_finished_handshakes_are_not_counted():
    async with served(ConnectionLimits(max_handshakes=2)) as running, contextlib.AsyncExitStack() as stack:
        kept = [await stack.enter_async_context(connected(running))]
        for _ in range(5):
            kept.append(await stack.enter_async_context(connected(running)))
            for connection in kept:
                await connection.send(WHOLE)
                assert (await connection.review())["allowed"] is True


async def test_bytes_that_are_no_handshake_are_no_error_of_ours(caplog: pytest.LogCaptureFixture):
    async with served() as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(WHOLE)
        with contextlib.suppress(ConnectionError):
            assert b"HTTP/" not in await asyncio.wait_for(reader.read(), 10)
        writer.transport.abort()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_request_in_the_last_packet_of_the_handshake_is_answered():
    """The bytes of client and server are passed on by hand, so that both come in one read."""
    async with served() as running:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = trusting(PAIR.authorities).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await asyncio.wait_for(reader.read(65536), 10))
        tls.write(WHOLE)
        writer.write(outgoing.read())
        got = b""
        while b'"allowed":true' not in got:
            try:
                got += tls.read(65536)
            except ssl.SSLWantReadError:
                incoming.write(await asyncio.wait_for(reader.read(65536), 10))
        writer.transport.abort()
