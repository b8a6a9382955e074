"""Serves one page below /debug at a time. The caller authorizes the user."""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import msgspec

from app.debug.level import LevelError, LogLevel
from app.debug.objects import objects
from app.debug.stacks import stacks
from httpserver.asgi import Message, Receive, Send, respond

Page = Callable[[], Awaitable[str]]

LEVEL_PATH: Final = "/debug/loglevel"

PAGES: Final[dict[str, Page]] = {"/debug/stacks": stacks, "/debug/objects": objects}
"""The pages that every process has about itself."""

COMMANDS: Final = {"/debug/stacks": b"t", "/debug/objects": b"o"}
"""The byte that requests each page from another process."""

MAX_PAGE: Final = 1 << 20
"""Largest number of characters of the page of one process."""

MAX_BODY: Final = 1024
"""Largest number of bytes of a request to change the level."""

PAGE_TIMEOUT: Final = 5.0
"""Seconds for another process to answer."""

PAUSE_FACTOR: Final = 4.0
"""The pause before the next page, as a multiple of the time that the last page took."""


class OtherProcess(Protocol):
    """Another process of this manager."""

    @property
    def pid(self) -> int: ...

    def set_level(self, level: int) -> None: ...

    async def page(self, command: bytes) -> str:
        """The page of that process, which may never answer."""


class Debug:
    """The ASGI application of the pages. Create it in a running event loop."""

    paths: Final = frozenset({LEVEL_PATH, *PAGES})

    def __init__(self, processes: Sequence[OtherProcess] = (), *, clock: Callable[[], float] = time.monotonic) -> None:
        self._others = processes
        self._level = LogLevel(self._set_level_of_others)
        self._clock = clock
        self._is_busy = False
        self._rest_until = 0.0

    def _set_level_of_others(self, level: int) -> None:
        for other in self._others:
            other.set_level(level)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if path == LEVEL_PATH and method == "PUT":
            await self._change_level(receive, send)
        elif method != "GET":
            await respond(send, 405, f"{method} is not possible here\n")
        elif path == LEVEL_PATH:
            await self._send_level(send)
        else:
            await self._send_page(path, send)

    async def _send_level(self, send: Send) -> None:
        await respond(send, 200, msgspec.json.encode(self._level.as_json()) + b"\n", "application/json")

    async def _change_level(self, receive: Receive, send: Send) -> None:
        body, has_more = b"", True
        while has_more and len(body) <= MAX_BODY:
            message = await receive()
            body, has_more = body + message.get("body", b""), message.get("more_body", False)
        if len(body) > MAX_BODY:
            await respond(send, 413, f"the body has more than {MAX_BODY} bytes\n")
            return
        try:
            self._level.change(body)
        except LevelError as error:
            await respond(send, 400, f"{error}\n")
            return
        await self._send_level(send)

    async def _send_page(self, path: str, send: Send) -> None:
        wait_seconds = self._rest_until - self._clock()
        if self._is_busy or wait_seconds > 0:
            await respond(send, 429, f"one page at a time: try again in {max(wait_seconds, 1):.0f} s\n")
            return
        self._is_busy, began = True, self._clock()
        try:
            text = await self._all_pages(path)
        finally:
            self._is_busy = False
            self._rest_until = self._clock() + PAUSE_FACTOR * (self._clock() - began)
        await respond(send, 200, text)

    async def _all_pages(self, path: str) -> str:
        """The page of this process, then the page of each other process."""
        own_page, *other_pages = await asyncio.gather(
            page(path), *(_request_page(other, COMMANDS[path]) for other in self._others)
        )
        pages = [(os.getpid(), "manager", own_page)]
        pages += [(other.pid, "admission", text) for other, text in zip(self._others, other_pages, strict=True)]
        return "\n".join(f"== process {pid}: {role}\n\n{text}" for pid, role, text in pages)


async def page(path: str) -> str:
    """A page of this process, cut after `MAX_PAGE` characters."""
    text = await PAGES[path]()
    return text if len(text) <= MAX_PAGE else f"{text[:MAX_PAGE]}\nthe rest is not shown\n"


async def _request_page(other: OtherProcess, command: bytes) -> str:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PAGE_TIMEOUT):
            return await other.page(command)
    return f"no answer in {PAGE_TIMEOUT:g} s\n"
