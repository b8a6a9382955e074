"""Serves browsers: the page, its data, and a stream of changes. Decides nothing about JobSets."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Protocol

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.staticfiles import StaticFiles

from httpserver.asgi import Message, Receive, Send
from kube.errors import ApiError, KubeError
from kube.indexes import Key
from kube.model.expiring import Expiring
from kube.model.meta import JSON
from ui.board import Board

STATIC = Path(__file__).parent / "static"

MAX_STREAMS = 64
"""The maximum number of streams at a time. The browser of a further stream gets an error and tries again."""
STREAM_SECONDS = 240.0
"""Seconds after which a stream ends, and the browser opens the next one."""
HEARTBEAT_SECONDS = 15.0
"""Seconds of silence after which a stream sends a heartbeat."""
RETRY_MILLISECONDS = 2000
"""Milliseconds after which a browser opens a stream again."""

MAX_CONCURRENT_EXPLANATIONS = 2
"""Explanations that are computed at a time. One explanation costs the API server up to twelve calls."""
EXPLANATION_TTL = 3.0
"""Seconds for which an explanation is cached."""
MAX_EXPLANATIONS = 64
MAX_ANSWERS = 32
"""Answers that are cached for other browsers, until the version of the board changes."""
EXPLAIN_TIMEOUT = 30.0
"""Seconds for an explanation, including the wait for its turn."""


class PageSource(Protocol):
    """The source of the page's data."""

    def has_jobset(self, key: Key) -> bool: ...

    def detail(self, key: Key) -> JSON | None: ...

    def topology_map(self, topology: str) -> JSON: ...


Explain = Callable[[Key], Awaitable[JSON]]
"""Explains a JobSet. Raises errors of `kube.errors`."""


class Pages:
    """The answers to requests. Created in a running event loop."""

    def __init__(self, board: Board, source: PageSource, explain: Explain) -> None:
        self._board = board
        self._source = source
        self._explain = explain
        self._streams = 0
        self._closing = asyncio.Event()
        self._turns = asyncio.Semaphore(MAX_CONCURRENT_EXPLANATIONS)
        self._explanations: Expiring[Key, bytes] = Expiring(MAX_EXPLANATIONS)
        self._answers: dict[str, bytes] = {}
        self._answers_version = 0

    def app(self) -> FastAPI:
        """The application: /api/... and, for all other paths, the files of the page."""
        app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
        app.add_route("/api/events", self._events)
        app.add_route("/api/map", self._map)
        app.add_route("/api/sets/{namespace}/{name}", self._detail)
        app.add_route("/api/sets/{namespace}/{name}/explanation", self._explanation)
        app.mount("/", StaticFiles(directory=STATIC, html=True))
        return app

    def close(self) -> None:
        """End the streams."""
        self._closing.set()

    async def _events(self, request: Request) -> Response:
        if self._streams >= MAX_STREAMS:
            return _text(503, "too many browsers have this page open", {"retry-after": "5"})
        self._streams += 1
        cursor = request.headers.get("last-event-id", "")
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return _Stream(self._changes(cursor), self._end_stream, media_type="text/event-stream", headers=headers)

    def _end_stream(self) -> None:
        self._streams -= 1

    async def _changes(self, cursor: str) -> AsyncIterator[bytes]:
        """Server-sent events: first the changes since `cursor`, then each new change."""
        yield b"retry: %d\n\n" % RETRY_MILLISECONDS
        end_time = time.monotonic() + STREAM_SECONDS
        while time.monotonic() < end_time and not self._closing.is_set():
            changed = self._board.changed
            if cursor != self._board.cursor:
                body, cursor = self._board.changes_since(cursor), self._board.cursor
                yield b"id: %s\nevent: sets\ndata: %s\n\n" % (cursor.encode(), body)
            if not await self._wait(changed):
                yield b": still here\n\n"

    async def _wait(self, changed: asyncio.Event) -> bool:
        """Wait for a change; False if there was none for a while."""
        waiting_tasks = [asyncio.ensure_future(event.wait()) for event in (changed, self._closing)]
        try:
            done, _ = await asyncio.wait(waiting_tasks, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting_tasks:
                task.cancel()
        return bool(done)

    async def _map(self, request: Request) -> Response:
        topology = request.query_params.get("topology", "")
        return self._answer(f"map {topology}", lambda: self._source.topology_map(topology))

    async def _detail(self, request: Request) -> Response:
        key = _key(request)
        return self._answer(f"set {'/'.join(key)}", lambda: self._source.detail(key))

    def _answer(self, page: str, compute: Callable[[], JSON | None]) -> Response:
        """The answer for a page, which all browsers share until the next change. `page`: its key in the cache."""
        if self._answers_version != self._board.version:
            self._answers, self._answers_version = {}, self._board.version
        body = self._answers.get(page)
        if body is None:
            content = compute()
            if content is None:
                return _text(404, "there is no such JobSet")
            body = msgspec.json.encode(content)
            if len(self._answers) < MAX_ANSWERS:
                self._answers[page] = body
        return Response(body, media_type="application/json", headers=_NO_STORE)

    async def _explanation(self, request: Request) -> Response:
        """The explanation of a cached JobSet. The cluster is not asked about other names."""
        key = _key(request)
        if not self._source.has_jobset(key):
            return _text(404, "there is no such JobSet")
        body = self._explanations.get(key, time.monotonic())
        if body is None:
            try:
                async with asyncio.timeout(EXPLAIN_TIMEOUT), self._turns:
                    body = msgspec.json.encode(await self._explain(key))
            except TimeoutError:
                return _text(504, "no explanation in time")
            except KubeError as error:
                code = error.code if isinstance(error, ApiError) and error.code in {403, 404} else 502
                return _text(code, str(error))
            self._explanations.put(key, body, time.monotonic() + EXPLANATION_TTL)
        return Response(body, media_type="application/json", headers=_NO_STORE)


class _Stream(StreamingResponse):
    """A stream that reports its end, for any reason."""

    def __init__(self, content: AsyncIterator[bytes], on_end: Callable[[], None], **options: object) -> None:
        super().__init__(content, **options)  # type: ignore[arg-type]  # handed through
        self._on_end = on_end

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()


_NO_STORE = {"cache-control": "no-store"}


def _key(request: Request) -> Key:
    return request.path_params["namespace"], request.path_params["name"]


def _text(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return Response(f"{text}\n", status, headers={**_NO_STORE, **(headers or {})}, media_type="text/plain")
