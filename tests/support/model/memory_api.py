"""The simulated API server as a Transport, for unit and property tests of `kube` and of whoever uses its client.

Beside what `dev.simulator` promises it ends, breaks and expires watches when a test says so. Whatever resource is asked
for is served, and there is no admission. There is no garbage collector either: what is deleted in the foreground goes
at once. Whether the real API server keeps the same promises is what tests/integration/test_kube_*.py are for.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dev.simulator import rest
from dev.simulator.api_server import ApiServer
from dev.simulator.storage import Item, JsonItem, Key, Scope, TooOldError, Watcher
from kube.errors import TransportError, from_response
from kube.model.meta import JSON
from kube.resources import Resource
from kube.transport import Request, Response
from tests.support.model.faults import status_body

Answering = Callable[[Request], Response | None]

TICK = 0.001
"""Shortest wait, in seconds."""


class ImmediateDeletion(ApiServer):
    """An API server that removes at once what is deleted in the foreground."""

    def remove(self, plural: str, item: Item, *, foreground: bool) -> Item | None:
        return super().remove(plural, item, foreground=False)


def anything(api_version: str, plural: str) -> Resource:
    """Any resource is served."""
    group, _, version = api_version.rpartition("/")
    return rest.RESOURCES.get((api_version, plural)) or Resource(group, version, plural.title(), plural)


def serve(_: Request) -> None:
    """The server answers."""


def refuse(code: int, message: str = "", *, verb: str = "", path: str = "", **status: Any) -> Answering:
    """Refuses the requests of that verb whose path ends so. `status`: further fields of the answer."""
    body = msgspec.json.encode({**msgspec.json.decode(status_body(code, message=message)), **status})
    return lambda call: Response(code, {}, body) if verb in {"", call.verb} and call.path.endswith(path) else None


@dataclass
class MemoryApi:
    """`streaming` False refuses sendInitialEvents as an older server does. `bookmark_every` is in seconds.

    `answering` answers in place of the server, or raises; None: the server answers. `served`: what discovery names, by
    group and version.
    """

    streaming: bool = True
    bookmark_every: float = 60.0
    requests: list[Request] = field(default_factory=list)
    answering: Answering = serve
    served: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.server = ImmediateDeletion()
        self.storage = self.server.storage
        self.rest = rest.Rest(self.server, anything)
        self._changed: set[asyncio.Event] = set()
        self._streams = 0

    # What a test does to the server's state directly

    @property
    def revision(self) -> int:
        return self.storage.version

    def objects(self, plural: str) -> dict[Key, JSON]:
        return {key: item.body() for key, item in self.storage[plural].objects.items()}

    def put(self, plural: str, name: str, namespace: str = "ns", **fields: Any) -> JSON:
        """Create or change an object."""
        stored = self.storage.get(plural, (namespace, name))
        old = stored.body() if stored else {}
        meta = {"name": name, "namespace": namespace, "uid": stored.uid if stored else self.server.new_uid()}
        obj = {**old, **fields, "metadata": {**meta, **fields.get("metadata", {})}}
        return self.storage.put(plural, JsonItem(obj)).body()

    def drop(self, plural: str, name: str, namespace: str = "ns") -> None:
        self.storage.drop(plural, (namespace, name))

    def touch(self) -> None:
        """Another resource changed: the revision moves, no watch here gets an event."""
        self.storage.version += 1

    def compact(self) -> None:
        """Forget history: older resourceVersions and continue tokens have expired, running watches are cut off."""
        self.storage.compact()

    def cut_streams(self) -> None:
        """Break every open watch."""
        self._streams += 1
        for changed in self._changed:
            changed.set()

    # Transport

    async def send(self, request: Request) -> Response:
        await asyncio.sleep(0)
        self.requests.append(request)
        return self.answering(request) or self.answered(request)

    def answered(self, request: Request) -> Response:
        """What the server says to a request that is no watch."""
        if (names := self.served.get(request.path.removeprefix("/apis/"))) is not None:
            return Response(200, {}, msgspec.json.encode({"resources": [{"name": name} for name in names]}))
        answer = self.rest.handle(_plain(request))
        return Response(answer.status, {}, answer.body)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        await asyncio.sleep(0)
        self.requests.append(request)
        if (refusal := self.answering(request)) is not None:
            raise from_response(refusal.status, {}, refusal.body, request.call)
        if dict(request.query).get("sendInitialEvents") and not self.streaming:
            raise from_response(422, {}, status_body(422), request.call)
        watch = self.rest.watch(_plain(request), self.rest.target(request.path))
        async with contextlib.aclosing(self._watch(watch, dict(request.query), request.timeout)) as lines:
            yield lines

    async def _watch(self, watch: rest.Watch, query: dict[str, str], idle: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        ends = loop.time() + float(query.get("timeoutSeconds", "1e9"))
        stream, at = self._streams, int(query.get("resourceVersion") or 0)
        # Version 0 is that of a server that has stored nothing yet: what came since then comes in its order.
        if query.get("sendInitialEvents") or not query.get("resourceVersion"):
            at = self.revision
            for line in watch.initial_lines():
                yield line
        if query.get("sendInitialEvents"):
            yield watch.bookmark(at, rest.INITIAL_END)
        while loop.time() < ends:
            with self._listening(watch) as changed:
                try:
                    new = watch.lines_since(at)
                except TooOldError:
                    yield b'{"type":"ERROR","object":' + status_body(410) + b"}"
                    return
                if stream != self._streams:
                    raise TransportError("the connection broke")
                at = max(at, watch.collection.version)
                for line in new:
                    yield line
                # A virtual clock has a resolution: less than that would never pass.
                wait = max(min(idle, self.bookmark_every, ends - loop.time()), TICK)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await changed.wait()
                if not changed.is_set():
                    if wait == idle:
                        raise TransportError(f"silent for {idle:g} s")
                    at = max(at, self.revision)
                    yield watch.bookmark(at)

    @contextlib.contextmanager
    def _listening(self, watch: rest.Watch) -> Iterator[asyncio.Event]:
        """Set as soon as something happens to the resource, or to the connection."""
        changed = asyncio.Event()
        self._changed.add(changed)
        end = watch.collection.watch(Watcher(Scope(), lambda _: changed.set()))
        try:
            yield changed
        finally:
            end()
            self._changed.discard(changed)

    async def close(self) -> None:
        """Nothing to close."""


def _plain(request: Request) -> rest.Request:
    headers = {"accept": request.accept, "content-type": request.content_type}
    return rest.Request(request.method, request.path, dict(request.query), headers, request.body or b"")
