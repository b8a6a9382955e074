"""Watches of an API server whose cache is behind, as those of a replica that has waited for the lease there.

They begin with what there was at an older resourceVersion, and show nothing else until they are told to catch up: one
resource first, then the rest. Then everything comes in its order. The older state is the API server's own: it keeps the
versions of some minutes.
"""

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace

from kube.options import METADATA, METADATA_LIST
from kube.reflector import INITIAL_END
from kube.transport import Request, Response, Transport

ONLY_AT_START = {"sendInitialEvents", "resourceVersionMatch"}


class LaggingTransport:
    """Serves the first part of each watch as of `version`; "" is for now. All other requests pass."""

    def __init__(self, inner: Transport, version: str) -> None:
        self._inner = inner
        self._version = version
        self._current: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._all_current = not version

    def catch_up_with(self, plural: str) -> None:
        """Show what has happened to one resource since, and what happens to it from now on."""
        self._current[plural].set()

    def catch_up(self) -> None:
        """Show what has happened since, and whatever happens from now on."""
        self._all_current = True
        for current in self._current.values():
            current.set()

    async def send(self, request: Request) -> Response:
        return await self._inner.send(request)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        current = self._current[request.path.rpartition("/")[2]]
        if current.is_set() or self._all_current:
            async with self._inner.stream(request) as lines:
                yield lines
            return
        async with contextlib.aclosing(self._lagging(request, current)) as lines:
            yield lines

    async def close(self) -> None:
        """Not ours to close: the connections belong to the test."""

    async def _lagging(self, request: Request, current: asyncio.Event) -> AsyncIterator[bytes]:
        kept = tuple(pair for pair in request.query if pair[0] in {"labelSelector", "fieldSelector"})
        exactly = (("resourceVersion", self._version), ("resourceVersionMatch", "Exact"))
        accept = METADATA_LIST if request.accept == METADATA else request.accept
        page = await self._inner.send(replace(request, verb="list", query=kept + exactly, accept=accept, timeout=30.0))
        assert page.status == 200, page.body
        for obj in json.loads(page.body).get("items") or ():
            yield _line("ADDED", obj)
        end = {"resourceVersion": self._version, "annotations": {INITIAL_END: "true"}}
        yield _line("BOOKMARK", {"metadata": end})
        await current.wait()
        going_on = tuple(pair for pair in request.query if pair[0] not in ONLY_AT_START)
        query = (*going_on, ("resourceVersion", self._version))
        async with self._inner.stream(replace(request, query=query)) as lines:
            async for line in lines:
                yield line


def _line(kind: str, obj: dict[str, object]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()
