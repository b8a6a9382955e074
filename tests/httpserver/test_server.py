"""The server over real sockets and TLS: protocol, limits, draining, and errors of starting."""

import asyncio
import contextlib
import io
import signal
import socket
import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest

from httpserver.address import BindError, bind
from httpserver.server import Server
from tests.support.objects.reviews import answer
from tests.support.tls import context_with, material, serving, trusting
from tests.support.webhook_app import APP, GOOD
from webhooks.jobset.handlers import VALIDATE_PATH
from webhooks.review import MAX_BODY, AdmissionRequest, AdmissionResponse
from webhooks.router import create_app

PAIR = material()
JSON_TYPE = {"content-type": "application/json"}


@contextlib.asynccontextmanager
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=trusting(PAIR.authorities), limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(20)) as session:
        yield session


def url(server: Server, path: str = VALIDATE_PATH) -> str:
    return f"https://127.0.0.1:{server.port}{path}"


async def test_a_review_over_tls():
    async with (
        serving(APP, context_with(PAIR)) as server,
        client() as session,
        session.post(url(server), data=GOOD, headers=JSON_TYPE) as http,
    ):
        assert http.status == 200
        assert answer(await http.read())["allowed"] is True


async def test_a_body_that_is_too_large_gets_its_answer_and_others_stay_fast():
    async with serving(APP, context_with(PAIR)) as server, client() as session:

        async def too_large() -> int:
            async with session.post(url(server), data=io.BytesIO(bytes(MAX_BODY + 2**20)), headers=JSON_TYPE) as http:
                return int(answer(await http.read())["status"]["code"])

        async def fine() -> bool:
            async with session.post(url(server), data=GOOD, headers=JSON_TYPE) as http:
                return bool(answer(await http.read())["allowed"])

        large = [asyncio.create_task(too_large()) for _ in range(3)]
        async with asyncio.timeout(10):
            assert all([await fine() for _ in range(20)])
        assert await asyncio.gather(*large) == [413] * 3


async def test_a_server_that_winds_down_ends_each_connection_with_its_next_answer():
    async with serving(APP, context_with(PAIR)) as server, client() as session:

        async def ends() -> bool:
            async with session.post(url(server), data=GOOD, headers=JSON_TYPE) as http:
                assert answer(await http.read())["allowed"] is True
                return http.headers.get("connection") == "close"

        assert not await ends()
        server.wind_down()
        assert await ends(), "the client must not send its next request here"
        assert await ends(), "a new connection is answered, too"


async def test_what_is_no_http_closes_the_connection_and_the_server_continues():
    async with serving(APP, context_with(PAIR)) as server, client() as session:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting(PAIR.authorities))
        writer.write(b"\x00\x01 garbage\r\n\r\n")
        assert b"400" in await asyncio.wait_for(reader.read(), 5)
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()
        async with session.post(url(server), data=GOOD, headers=JSON_TYPE) as http:
            assert http.status == 200


async def test_http2_is_not_offered():
    async with serving(APP, context_with(PAIR)) as server:
        context = trusting(PAIR.authorities)
        context.set_alpn_protocols(["h2", "http/1.1"])
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


class Slow:
    """An application whose requests end when the test says so."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.release = asyncio.Event()
        self.app = create_app({"/slow": self.handle})

    async def handle(self, _: AdmissionRequest) -> AdmissionResponse:
        self.running.set()
        await self.release.wait()
        return AdmissionResponse()


async def test_stopping_finishes_what_runs_and_takes_nothing_new():
    slow = Slow()
    server = Server(slow.app, bind(("127.0.0.1", 0), "webhooks"), context_with(PAIR))
    async with client() as session, asyncio.TaskGroup() as group:
        served = group.create_task(server.run())
        await server.started.wait()

        async def ask() -> bool:
            async with session.post(url(server, "/slow"), data=GOOD, headers=JSON_TYPE) as http:
                return bool(answer(await http.read())["allowed"])

        asked = group.create_task(ask())
        await slow.running.wait()
        server.stop()
        async with asyncio.timeout(5):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
                except ConnectionRefusedError:
                    break
                except ConnectionResetError:
                    continue  # it was in the queue when that was closed
                writer.close()
                await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(served), 0.5)
        assert not asked.done()
        slow.release.set()
        assert await asked is True
        await asyncio.wait_for(served, 5)


async def test_a_request_that_does_not_end_is_dropped_by_cancelling():
    slow = Slow()
    server = Server(slow.app, bind(("127.0.0.1", 0), "webhooks"), context_with(PAIR))
    async with client() as session:
        served = asyncio.create_task(server.run())
        await server.started.wait()
        asked = asyncio.create_task(session.post(url(server, "/slow"), data=GOOD, headers=JSON_TYPE))
        await slow.running.wait()
        server.stop()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(served), 0.5)
        served.cancel()
        await asyncio.wait_for(asyncio.wait([served]), 5)
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await asyncio.wait_for(asked, 5)


async def test_signals_stay_with_the_manager():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with serving(APP, context_with(PAIR)):
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_host_that_is_not_ours_is_an_error_of_one_line():
    with pytest.raises(BindError, match=r"cannot listen on 203\.0\.113\.1:0 for webhooks: .*address of this machine"):
        bind(("203.0.113.1", 0), "webhooks")


@pytest.mark.parametrize("host", ["", "127.0.0.1"])
def test_answers_do_not_wait_for_acknowledgements(host):
    """Head and body are written apart: without it each answer took 40 ms more on asyncio's own loop."""
    with bind((host, 0), "webhooks") as listener:
        with socket.create_connection(("127.0.0.1", listener.getsockname()[1])):
            accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_no_host_is_every_interface():
    with contextlib.closing(bind(("", 0), "webhooks")) as listener:
        port = listener.getsockname()[1]
        with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=5)):
            pass
