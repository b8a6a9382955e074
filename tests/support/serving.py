"""Run a small server of app/ for a test and talk to it as a client would."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Protocol

import aiohttp

LOCAL = ("127.0.0.1", 0)


class Runnable(Protocol):
    @property
    def port(self) -> int: ...
    @property
    def started(self) -> asyncio.Event: ...
    def run(self) -> Awaitable[None]: ...
    def stop(self) -> None: ...


@contextlib.asynccontextmanager
async def serving(server: Runnable) -> AsyncIterator[int]:
    """The port, while the server runs; then it is asked to stop and must do so."""
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(_run(server))
        await server.started.wait()
        try:
            yield server.port
        finally:
            server.stop()


async def _run(server: Runnable) -> None:
    await server.run()


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def fetch(url: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> tuple[int, str]:
    """Status and text, on a connection of its own."""
    connector = aiohttp.TCPConnector(ssl=unverified(), force_close=True)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=15)) as session,
        session.request(method, url, headers=headers) as response,
    ):
        return response.status, await response.text()
