"""A small model of the API server's storage and watch cache, as a Transport, for unit and property tests of `kube`.

It keeps the promises the watch core relies on (one revision counter, conditional writes, consistent pages, ordered watch,
bookmarks, 410 after compaction, streaming lists, label selectors of labels that do not change) and nothing else: no
schemas, admission, defaulting or garbage collection.
Whether the real API server keeps the same promises is what tests/integration/test_kube_*.py are for.
"""

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kube.errors import TransportError, from_response
from kube.transport import Request, Response
from simcluster.patches import merge
from simcluster.selectors import matches
from tests.support.faults import status_body

PATH = re.compile(
    r"^(?P<root>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<ns>[^/]+))?/(?P<plural>[^/]+)(/(?P<name>[^/]+)(/(?P<sub>[^/]+))?)?$"
)
TICK = 0.001
"""Shortest wait, in seconds."""

JSON = dict[str, Any]
Key = tuple[str, str]


@dataclass
class Entry:
    """One event of the history of a collection."""

    revision: int
    kind: str
    obj: JSON


@dataclass
class Collection:
    """The objects of one resource and how they came to be."""

    objects: dict[Key, JSON] = field(default_factory=dict)
    history: list[Entry] = field(default_factory=list)


@dataclass
class MemoryApi:
    """`streaming` False refuses sendInitialEvents as an older server does. `bookmark_every` is in seconds."""

    streaming: bool = True
    bookmark_every: float = 60.0
    revision: int = 0
    compacted: int = 0
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._collections: dict[str, Collection] = {}
        self._snapshots: dict[str, list[JSON]] = {}
        self._changed = asyncio.Event()
        self._uids = itertools.count(1)
        self._streams = 0

    # What a test does to the server's state directly

    def objects(self, plural: str) -> dict[Key, JSON]:
        return self._of(plural).objects

    def put(self, plural: str, name: str, namespace: str = "ns", **fields: Any) -> JSON:
        """Create or change an object."""
        old = self.objects(plural).get((namespace, name))
        meta = {"name": name, "namespace": namespace, "uid": old["metadata"]["uid"] if old else self._uid()}
        obj = {**(old or {}), **fields, "metadata": {**meta, **fields.get("metadata", {})}}
        return self._commit(plural, obj, "MODIFIED" if old else "ADDED")

    def drop(self, plural: str, name: str, namespace: str = "ns") -> None:
        self._commit(plural, self.objects(plural)[namespace, name], "DELETED")

    def touch(self) -> None:
        """Another resource changed: the revision moves, nobody here is told."""
        self.revision += 1

    def compact(self) -> None:
        """Forget history: older resourceVersions and continue tokens have expired, running watches are cut off."""
        self.compacted = self.revision
        self._snapshots.clear()

    def cut_streams(self) -> None:
        """Break every open watch."""
        self._streams += 1
        self._notify()

    def _of(self, plural: str) -> Collection:
        return self._collections.setdefault(plural, Collection())

    def _uid(self) -> str:
        return f"uid-{next(self._uids)}"

    def _commit(self, plural: str, obj: JSON, kind: str) -> JSON:
        self.revision += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        collection = self._of(plural)
        key = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        if kind == "DELETED":
            del collection.objects[key]
        else:
            collection.objects[key] = obj
        collection.history.append(Entry(self.revision, kind, obj))
        self._notify()
        return obj

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # Transport

    async def send(self, request: Request) -> Response:
        await asyncio.sleep(0)
        self.requests.append(request)
        match = PATH.match(request.path)
        if match is None:
            return _status(404)
        plural, key = match["plural"], (match["ns"] or "", match["name"] or "")
        body = msgspec.json.decode(request.body) if request.body else {}
        if request.method == "GET":
            return self._get(plural, key) if key[1] else self._list(plural, match["ns"], dict(request.query))
        if request.method == "POST":
            return self._create(plural, key[0], body)
        if request.method == "PATCH":
            return self._patch(plural, key, body)
        if not key[1]:
            return self._delete_collection(plural, key[0], dict(request.query), body)
        return self._delete(plural, key, body)

    def _get(self, plural: str, key: Key) -> Response:
        obj = self.objects(plural).get(key)
        return _ok(obj) if obj else _status(404)

    def _create(self, plural: str, namespace: str, body: JSON) -> Response:
        if (namespace, body["metadata"]["name"]) in self.objects(plural):
            return _status(409, "AlreadyExists")
        meta = {**body["metadata"], "namespace": namespace, "uid": self._uid()}
        return _ok(self._commit(plural, {**body, "metadata": meta}, "ADDED"))

    def _patch(self, plural: str, key: Key, patch: JSON) -> Response:
        old = self.objects(plural).get(key)
        if old is None:
            return _status(404)
        wanted = patch.get("metadata", {}).get("resourceVersion")
        if wanted and wanted != old["metadata"]["resourceVersion"]:
            return _status(409)
        new = merge(old, patch)
        return _ok(old if new == old else self._commit(plural, new, "MODIFIED"))

    def _delete(self, plural: str, key: Key, body: JSON) -> Response:
        old = self.objects(plural).get(key)
        if old is None:
            return _status(404)
        uid = body.get("preconditions", {}).get("uid")
        if uid and uid != old["metadata"]["uid"]:
            return _status(409)
        if old["metadata"].get("finalizers"):
            return _ok(self._commit(plural, merge(old, {"metadata": {"deletionTimestamp": "now"}}), "MODIFIED"))
        self._commit(plural, old, "DELETED")
        return _ok({"kind": "Status", "status": "Success"})

    def _delete_collection(self, plural: str, namespace: str, query: dict[str, str], body: JSON) -> Response:
        for key, obj in sorted(self.objects(plural).items()):
            if key[0] == namespace and _selected(query, obj):
                self._delete(plural, key, body)
        return _ok({"kind": "List", "metadata": {}, "items": []})

    def _list(self, plural: str, namespace: str | None, query: dict[str, str]) -> Response:
        limit, token = int(query.get("limit", 0)), query.get("continue", "")
        if token and token not in self._snapshots:
            return _status(410)
        if token:
            revision, items = token.split(":")[0], self._snapshots[token]
        else:
            found = self.objects(plural).items()
            here = [obj for key, obj in sorted(found) if namespace in {None, key[0]}]
            revision, items = str(self.revision), [obj for obj in here if _selected(query, obj)]
        rest = items[limit:] if limit else []
        meta = {"resourceVersion": revision}
        if rest:
            meta["continue"] = f"{revision}:{len(self._snapshots)}"
            self._snapshots[meta["continue"]] = rest
        return _ok({"kind": "List", "metadata": meta, "items": items[:limit] if limit else items})

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        await asyncio.sleep(0)
        self.requests.append(request)
        query = dict(request.query)
        if query.get("sendInitialEvents") and not self.streaming:
            raise from_response(422, {}, status_body(422), request.call)
        match = PATH.match(request.path)
        assert match is not None
        async with contextlib.aclosing(self._watch(match["plural"], query, request.timeout)) as lines:
            yield lines

    async def _watch(self, plural: str, query: dict[str, str], idle: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        ends = loop.time() + float(query.get("timeoutSeconds", "1e9"))
        stream, at = self._streams, int(query.get("resourceVersion") or 0)
        if query.get("sendInitialEvents"):
            at = self.revision
            for obj in list(self.objects(plural).values()):
                if _selected(query, obj):
                    yield _line("ADDED", obj)
            yield _bookmark(at, {"k8s.io/initial-events-end": "true"})
        while loop.time() < ends:
            if at < self.compacted:
                yield b'{"type":"ERROR","object":' + status_body(410) + b"}"
                return
            if stream != self._streams:
                raise TransportError("the connection broke")
            changed = self._changed
            for entry in [entry for entry in self._of(plural).history if entry.revision > at]:
                if _selected(query, entry.obj):
                    yield _line(entry.kind, entry.obj)
                at = entry.revision
            # A virtual clock has a resolution: less than that would never pass.
            wait = max(min(idle, self.bookmark_every, ends - loop.time()), TICK)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await changed.wait()
            if not changed.is_set():
                if wait == idle:
                    raise TransportError(f"silent for {idle:g} s")
                at = max(at, self.revision)
                yield _bookmark(at, {})

    async def close(self) -> None:
        """Nothing to close."""


def _selected(query: dict[str, str], obj: JSON) -> bool:
    return matches(query.get("labelSelector", ""), obj["metadata"].get("labels", {}))


def _ok(obj: JSON) -> Response:
    return Response(200, {}, msgspec.json.encode(obj))


def _status(code: int, reason: str = "") -> Response:
    return Response(code, {}, status_body(code, reason))


def _line(kind: str, obj: JSON) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj})


def _bookmark(version: int, annotations: dict[str, str]) -> bytes:
    return _line("BOOKMARK", {"metadata": {"resourceVersion": str(version), "annotations": annotations}})
