"""Which requests take the fast path, which go to the application, and that the answers keep their order."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from httpserver.limits import ConnectionLimits
from httpserver.protocol import FastPath
from tests.support.tls import context_with, serving
from tests.webhooks.test_abuse_tls import PAIR, Connection, connected

TOO_LARGE = ConnectionLimits().max_fast_body + 1
HEAD = b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
LENGTH = b"content-length: 2\r\n"
SIMPLE = HEAD + LENGTH + b"\r\n{}"


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers with what it was asked."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message["body"]
        more = message["more_body"]
    answer = b"application %s %s %s" % (scope["method"].encode(), scope["raw_path"], body)
    headers = [(b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def fast(body: bytes) -> bytes:
    return b"fast " + body


@contextlib.asynccontextmanager
async def asking(fast_path: FastPath = fast) -> AsyncIterator[Connection]:
    """A connection to the application, which has one fast path."""
    async with (
        serving(application, context_with(PAIR), fast_paths={b"/x": fast_path}) as server,
        connected(server) as connection,
    ):
        yield connection


async def said(connection: Connection) -> tuple[dict[bytes, bytes], bytes]:
    """Headers and body of the next answer."""
    lines = (await asyncio.wait_for(connection.reader.readuntil(b"\r\n\r\n"), 10)).split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 200 OK"
    headers = dict(line.lower().split(b": ", 1) for line in lines[1:-2])
    return headers, await connection.reader.readexactly(int(headers[b"content-length"]))


async def test_a_post_of_json_that_is_whole_takes_the_fast_path():
    async with asking() as connection:
        for _ in range(2):
            await connection.send(SIMPLE)
            headers, body = await said(connection)
            assert body == b"fast {}"
            assert headers[b"content-type"] == b"application/json"
            assert b"gmt" in headers[b"date"]
        await connection.send(SIMPLE.replace(b"/x", b"/x?timeout=10s"))
        assert (await said(connection))[1] == b"fast {}"


NOT_SIMPLE = {
    "another path": SIMPLE.replace(b"/x", b"/y"),
    "an escaped path": SIMPLE.replace(b"/x", b"/%78"),
    "another method": SIMPLE.replace(b"POST", b"PUT"),
    "another type": SIMPLE.replace(b"/json", b"/yaml"),
    "a parameter of the type": SIMPLE.replace(b"/json", b"/json; charset=utf-8"),
    "no type": SIMPLE.replace(b"content-type", b"x"),
    "two types": SIMPLE.replace(b"host: x", b"content-type: text/plain"),
    "no body": HEAD + b"\r\n",
    "chunks": HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a large body": HEAD + b"content-length: %d\r\n\r\n" % (TOO_LARGE) + b" " * TOO_LARGE,
    "the last one": SIMPLE.replace(b"host: x", b"connection: close"),
    "old HTTP": SIMPLE.replace(b"HTTP/1.1", b"HTTP/1.0"),
}


@pytest.mark.parametrize("case", NOT_SIMPLE)
async def test_what_is_not_simple_goes_to_the_application(case: str):
    async with asking() as connection:
        await connection.send(NOT_SIMPLE[case])
        assert (await said(connection))[1].startswith(b"application ")


async def test_an_upgrade_that_is_not_offered_is_ignored():
    async with asking() as connection:
        await connection.send(SIMPLE.replace(b"host: x", b"connection: upgrade\r\nupgrade: h2c"))
        assert (await said(connection))[1].startswith(b"application ")


async def test_expect_100_continue_is_answered():
    async with asking() as connection:
        await connection.send(HEAD + LENGTH + b"expect: 100-continue\r\n\r\n")
        assert await connection.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await connection.send(b"{}")
        assert (await said(connection))[1] == b"application POST /x {}"


@pytest.mark.parametrize("cut", [-2, -1])
async def test_a_body_that_comes_in_pieces_reaches_the_application_whole(cut: int):
    async with asking() as connection:
        for _ in range(2):
            await connection.send(SIMPLE[:cut])
            # A piece of its own, for nothing is sent together with what an answer was waited for.
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(connection.reader.read(1), 0.05)
            await connection.send(SIMPLE[cut:])
            assert (await said(connection))[1] == b"application POST /x {}"
        await connection.send(SIMPLE)
        assert (await said(connection))[1] == b"fast {}"


async def test_a_head_that_comes_in_pieces_does_not_miss_the_fast_path():
    async with asking() as connection:
        await connection.send(SIMPLE[:20])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.reader.read(1), 0.05)
        await connection.send(SIMPLE[20:])
        assert (await said(connection))[1] == b"fast {}"


async def test_answers_keep_the_order_of_requests_that_did_not_wait_for_each_other():
    release = asyncio.Event()

    def short(body: bytes) -> bytes | Awaitable[bytes]:
        return b"at once" if body == b"[]" else later()

    async def later() -> bytes:
        await release.wait()
        return b"later"

    async with asking(short) as connection:
        await connection.send(SIMPLE.replace(b"{}", b"[]") + SIMPLE + SIMPLE.replace(b"{}", b"[]") + SIMPLE)
        assert (await said(connection))[1] == b"at once"
        release.set()
        answers = [await said(connection) for _ in range(3)]
        assert [body for _, body in answers] == [b"later", b"application POST /x []", b"application POST /x {}"]
        assert answers[0][0][b"content-type"] == b"application/json"
        await connection.send(SIMPLE.replace(b"{}", b"[]"))
        assert (await said(connection))[1] == b"at once"


async def test_answers_wait_while_those_before_them_are_not_taken():
    async with asking(lambda _: bytes(2**18)) as connection:
        await connection.send(SIMPLE * 20)
        bodies = [(await said(connection))[1] for _ in range(20)]
    assert bodies[0] == bytes(2**18)
    assert b"application POST /x {}" in bodies
