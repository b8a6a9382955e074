"""A relay between one replica and the API server, which can worsen the connection.

It ends TLS with a certificate of the cluster's own CA, and sends requests to the API server with the client certificate
of the replica. So faults can be faults of HTTP: delays, refusals, watches that expire. Each life of a replica has its
own client certificate, by which the audit log names it.
"""

import asyncio
import contextlib
import random
import ssl
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import ClientError, ClientSession, ClientTimeout, StreamReader, TCPConnector, web
from multidict import CIMultiDict
from yarl import URL

from dev.cluster import rest

HOP_BY_HOP_HEADERS = ("Host", "Connection", "Content-Length", "Transfer-Encoding", "Keep-Alive")
AUTO_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that the HTTP client must not add if the replica did not send them."""

REFUSAL_CODES = (429, 500, 504)
MAX_REQUEST_BYTES = 64 * 2**20
"""Largest number of bytes of a request."""


@dataclass(slots=True)
class Conditions:
    """The state of the connection.

    - `request_delay`: seconds by which each request is delayed.
    - `watch_delay`: seconds by which events of watches, and the lists at their start, are delayed. Other reads are
      answered at once, since an API server whose cache is behind answers them from etcd.
    - `refused_share`: the share of requests that are refused.
    - `refuses_watches`: whether new watches are refused with 410.
    - `is_held`: whether nothing passes in either direction.
    """

    request_delay: float = 0.0
    watch_delay: float = 0.0
    refused_share: float = 0.0
    refuses_watches: bool = False
    is_held: bool = False


class Relay:
    """Listens on `port` for one replica. Call its methods only in its event loop. Any thread may set `conditions`."""

    def __init__(self, port: int, upstream_port: int, pki: Path, lease_name: str, chance: random.Random) -> None:
        self.port = port
        self.conditions = Conditions()
        self.lease_renewed_at = 0.0
        """The time of the replica's last successful write of the lease (monotonic seconds)."""
        self._upstream_url = f"https://127.0.0.1:{upstream_port}"
        self._pki = pki
        self._lease_name = lease_name
        self._random = chance
        self._sessions: list[ClientSession] = []
        self._runner: web.AppRunner | None = None
        self._open_requests: set[asyncio.Task[object]] = set()

    async def start(self, serving_tls: ssl.SSLContext) -> None:
        app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        app.router.add_route("*", "/{path:.*}", self._relay)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=serving_tls, reuse_address=True).start()

    async def use_certificate(self, certificate_name: str) -> None:
        """Use another client certificate for new requests. Requests that are held keep their certificate."""
        connector = TCPConnector(ssl=rest.client_tls(self._pki, certificate_name), limit=0)
        session = ClientSession(connector=connector, timeout=ClientTimeout(total=None), auto_decompress=False)
        self._sessions.append(session)

    def cut(self) -> None:
        """Break all connections with requests on them."""
        for task in list(self._open_requests):
            task.cancel()

    async def stop(self) -> None:
        self.cut()
        if self._runner is not None:
            await self._runner.cleanup()
        for session in self._sessions:
            await session.close()

    async def _relay(self, request: web.Request) -> web.StreamResponse:
        task = asyncio.current_task()
        if task is None or not self._sessions:
            raise web.HTTPServiceUnavailable
        self._open_requests.add(task)
        try:
            return await self._answer(request, self._sessions[-1])
        except (ClientError, ConnectionError):  # if one side loses its connection, the other side loses it, too
            _abort_connection(request)
            return web.Response(status=502)
        except asyncio.CancelledError:
            _abort_connection(request)
            raise
        finally:
            self._open_requests.discard(task)

    async def _answer(self, request: web.Request, session: ClientSession) -> web.StreamResponse:
        body = await request.read()
        conditions = self.conditions
        await self._wait_while_held()
        await asyncio.sleep(conditions.request_delay)
        is_watch = request.query.get("watch") in {"1", "true"}
        if is_watch and conditions.refuses_watches:
            return _status_response(410, "Expired")
        code = self._random.choice(REFUSAL_CODES) if self._random.random() < conditions.refused_share else 0
        if code and (code != 504 or is_watch or self._random.random() < 0.5):
            return _status_response(code, "refused by the relay")
        url = URL(self._upstream_url + request.raw_path, encoded=True)
        upstream_request = session.request(
            request.method, url, data=body, headers=_forwarded_headers(request.headers), skip_auto_headers=AUTO_HEADERS
        )
        async with upstream_request as answer:
            if request.method in {"PATCH", "POST"} and self._lease_name in request.path and answer.status < 300:
                self.lease_renewed_at = time.monotonic()
            response = web.StreamResponse(status=answer.status, headers=_forwarded_headers(answer.headers))
            if is_watch:
                await response.prepare(request)
                async with contextlib.aclosing(self._delayed_chunks(answer.content)) as chunks:
                    async for chunk in chunks:
                        await self._wait_while_held()
                        await response.write(chunk)
                await response.write_eof()
                return response
            content = await answer.read()
        await self._wait_while_held()
        if code:
            return _status_response(code, "carried out, and the answer lost by the relay")
        await response.prepare(request)
        await response.write(content)
        await response.write_eof()
        return response

    async def _delayed_chunks(self, content: StreamReader) -> AsyncGenerator[bytes]:
        """Yield the parts of a stream in order, each delayed by `Conditions.watch_delay`."""
        clock = asyncio.get_running_loop().time
        arrived_chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def read() -> None:
            try:
                async for chunk in content.iter_any():
                    arrived_chunks.put_nowait((clock(), chunk))
            finally:
                arrived_chunks.put_nowait((clock(), b""))

        reading = asyncio.create_task(read())
        try:
            while True:
                arrived_at, chunk = await arrived_chunks.get()
                while clock() < arrived_at + self.conditions.watch_delay:  # noqa: ASYNC110 (set by another thread)
                    await asyncio.sleep(0.05)
                if not chunk:
                    break
                yield chunk
            await reading
        finally:
            reading.cancel()

    async def _wait_while_held(self) -> None:
        while self.conditions.is_held:  # noqa: ASYNC110 (set by another thread)
            await asyncio.sleep(0.05)


def _abort_connection(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _forwarded_headers(headers: Mapping[str, str]) -> CIMultiDict[str]:
    result = CIMultiDict(headers)
    for name in HOP_BY_HOP_HEADERS:
        result.popall(name, None)
    return result


def _status_response(code: int, message: str) -> web.Response:
    headers = {"Retry-After": "1"} if code == 429 else {}
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    return web.json_response(body, status=code, headers=headers)
