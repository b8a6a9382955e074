"""Answers HTTP requests to the API, without connections, and makes the lines of watches."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from controllers.resources import JOBSETS
from dev.simulator.api_server import ApiServer, RefusedError, status
from dev.simulator.patches import merge, merge_strategically
from dev.simulator.selectors import SelectorError, parse
from dev.simulator.storage import Collection, Event, Item, Key, Scope
from kube import resources
from kube.model.meta import JSON
from kube.resources import Resource

PATH = re.compile(
    r"^/(?:api|apis/(?P<group>[^/]+))/(?P<version>v[0-9a-z]+)"
    r"(?:/namespaces/(?P<ns>[^/]+)(?=/))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[^/]+))?)?$"
)
_EXTRA = (JOBSETS, Resource("", "v1", "Event", "events"))
RESOURCES = {(r.api_version, r.plural): r for r in (*vars(resources).values(), *_EXTRA) if isinstance(r, Resource)}
"""The resources that a simulated cluster may serve, by apiVersion and plural name."""

INITIAL_END = {"k8s.io/initial-events-end": "true"}
"""Annotations of the bookmark after the existing objects of a watch."""

PATCH_FUNCTIONS: dict[str | None, Callable[[Any, Any], Any]] = {
    "application/merge-patch+json": merge,
    "application/strategic-merge-patch+json": merge_strategically,
}
MAX_LISTS = 16
"""Largest number of paged lists that are remembered. The `continue` tokens of older lists have expired."""

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Header names are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def metadata_only(self) -> bool:
        """Whether the client asks for the metadata alone."""
        return ";as=PartialObjectMetadata" in self.headers.get("accept", "")

    def json(self) -> JSON:
        """Return the body; {} if it is empty. Raises `RefusedError` unless it is a JSON object."""
        content = self.headers.get("content-type", "application/json")
        if self.body and "json" not in content:
            message = f"{self.method} {self.path}: this server reads JSON only, not {content}"
            raise RefusedError(415, "UnsupportedMediaType", message)
        try:
            return msgspec.json.decode(self.body, type=JSON) if self.body else {}
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            message = f"{self.method} {self.path}: the body is not a JSON object: {error}"
            raise RefusedError(400, "BadRequest", message) from None


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer. Its body is JSON."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Target:
    """The object or collection that a path names.

    An empty namespace means all of them, or that the resource has none. An empty name means the collection.
    """

    kind: Resource
    namespace: str
    name: str
    sub: str

    @property
    def key(self) -> Key:
        return self.namespace, self.name


@dataclass(slots=True)
class Watch:
    """Makes the lines that the watch of a client sends."""

    collection: Collection
    kind: Resource
    scope: Scope
    metadata_only: bool

    def line(self, event: Event) -> bytes:
        body = encode_item(event.item, self.kind, self.metadata_only)
        return b'{"type":"%b","object":%b}\n' % (event.kind.encode(), body)

    def bookmark(self, version: int, annotations: JSON | None = None) -> bytes:
        """Return the line of a bookmark, which says that all events up to this version have been sent."""
        meta = {"resourceVersion": str(version), "annotations": annotations or {}}
        type_meta = {"kind": self.kind.kind, "apiVersion": self.kind.api_version}
        return encode({"type": "BOOKMARK", "object": {**type_meta, "metadata": meta}}) + b"\n"

    def lines_since(self, version: int) -> list[bytes]:
        """Return the events since a version, as lines. Raises `TooOldError`."""
        return [self.line(event) for event in self.collection.events_since(version, self.scope)]

    def initial_lines(self) -> list[bytes]:
        """Return an ADDED event for each existing object, as lines."""
        return [self.line(Event("ADDED", item)) for item in self.collection.find(self.scope)]


@lru_cache(maxsize=256)
def encode_item(item: Item, kind: Resource, metadata_only: bool) -> bytes:
    """Return an object in JSON, as it is sent. Cached, because several watches may send the same object."""
    body = item.body()
    if metadata_only:
        return encode({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"]})
    return encode({"kind": kind.kind, "apiVersion": kind.api_version, **body})


def refusal_answer(error: RefusedError) -> Answer:
    return Answer(error.code, encode(status(error.code, error.reason, str(error))))


def find_resource(api_version: str, plural: str) -> Resource | None:
    """Return the resource of that name, if a simulated cluster may serve it."""
    return RESOURCES.get((api_version, plural))


class Rest:
    """Answers HTTP requests to an `ApiServer`.

    `find` returns the resource of an apiVersion and a plural name; None if it is not served.
    """

    def __init__(self, server: ApiServer, find: Callable[[str, str], Resource | None] = find_resource) -> None:
        self.server = server
        self._find = find
        self._lists: dict[str, tuple[int, list[Item]]] = {}

    def handle(self, request: Request) -> Answer:
        """Return the answer to a request that is no watch."""
        try:
            return self._answer(request, self.target(request.path))
        except RefusedError as error:
            return refusal_answer(error)
        except SelectorError as error:
            return refusal_answer(RefusedError(400, "BadRequest", str(error)))

    def target(self, path: str) -> Target:
        """Return the target of a path. Raises `RefusedError` if it is not served."""
        match = PATH.match(path)
        if match is None:
            raise _not_found(path)
        version = f"{match['group']}/{match['version']}" if match["group"] else match["version"]
        kind = self._find(version, match["plural"])
        if kind is None:
            raise _not_found(path)
        return Target(kind, match["ns"] or "", match["name"] or "", match["sub"] or "")

    def watch(self, request: Request, target: Target) -> Watch:
        collection = self.server.storage[target.kind.plural]
        return Watch(collection, target.kind, _scope(request, target), request.metadata_only)

    def _answer(self, request: Request, target: Target) -> Answer:
        collection = {"GET": self._list, "POST": self._create, "DELETE": self._delete_all}
        single = {"GET": self._get, "PUT": self._update, "PATCH": self._patch, "DELETE": self._delete}
        handler = (single if target.name else collection).get(request.method)
        if handler is None:
            raise RefusedError(405, "MethodNotAllowed", f"{request.method} {request.path}")
        return handler(request, target)

    def _get(self, request: Request, target: Target) -> Answer:
        return self._item_answer(request, target, self.server.get(target.kind.plural, target.key))

    def _create(self, request: Request, target: Target) -> Answer:
        if target.kind.namespaced != bool(target.namespace):
            raise RefusedError(400, "BadRequest", f"{request.path}: namespaced is {target.kind.namespaced}")
        dry_run = "dryRun" in request.query
        item = self.server.create(target.kind.plural, target.namespace, request.json(), dry_run=dry_run)
        return self._item_answer(request, target, item, code=201)

    def _update(self, request: Request, target: Target) -> Answer:
        item = self.server.update(target.kind.plural, target.key, request.json(), target.sub)
        return self._item_answer(request, target, item)

    def _patch(self, request: Request, target: Target) -> Answer:
        apply_patch = PATCH_FUNCTIONS.get(request.headers.get("content-type"))
        if apply_patch is None:
            raise RefusedError(415, "UnsupportedMediaType", f"a patch of {request.headers.get('content-type')}")
        item = self.server.patch(target.kind.plural, target.key, request.json(), target.sub, apply_patch=apply_patch)
        return self._item_answer(request, target, item)

    def _delete(self, request: Request, target: Target) -> Answer:
        preconditions = request.json().get("preconditions")
        remaining = self.server.delete(
            target.kind.plural, target.key, preconditions, foreground=_is_foreground(request)
        )
        if remaining is not None:
            return self._item_answer(request, target, remaining)
        return Answer(200, encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}))

    def _delete_all(self, request: Request, target: Target) -> Answer:
        scope = _scope(request, target)
        items = self.server.delete_all(target.kind.plural, scope, foreground=_is_foreground(request))
        return self._list_answer(request, target, items, {"resourceVersion": str(self.server.storage.version)})

    def _list(self, request: Request, target: Target) -> Answer:
        """Return a page of the objects that existed when the client asked for the first page."""
        number, _, start = request.query.get("continue", "").partition(":")
        storage = self.server.storage
        if not number:
            version, items = storage.version, storage[target.kind.plural].select(_scope(request, target))
        else:
            version, items = self._lists.get(number, (-1, []))
            if version < storage.compacted_version:
                raise RefusedError(410, "Expired", "the provided continue parameter is too old")
        begin = int(start or 0)
        end = begin + (int(request.query.get("limit", 0)) or len(items))
        meta = {"resourceVersion": str(version)}
        if len(items) > end:
            meta["continue"] = f"{number or self._remember_list(version, items)}:{end}"
        return self._list_answer(request, target, items[begin:end], meta)

    def _remember_list(self, version: int, items: list[Item]) -> str:
        """Remember a list for its next pages. Returns its number."""
        if len(self._lists) == MAX_LISTS:
            del self._lists[next(iter(self._lists))]
        number = str(1 + int(next(reversed(self._lists), "0")))
        self._lists[number] = version, items
        return number

    def _item_answer(self, request: Request, target: Target, item: Item, *, code: int = 200) -> Answer:
        return Answer(code, encode_item(item, target.kind, request.metadata_only))

    def _list_answer(self, request: Request, target: Target, items: Iterable[Item], meta: JSON) -> Answer:
        bodies = [msgspec.Raw(encode_item(item, target.kind, request.metadata_only)) for item in items]
        type_meta = {"kind": f"{target.kind.kind}List", "apiVersion": target.kind.api_version}
        return Answer(200, encode({**type_meta, "metadata": meta, "items": bodies}))


def _scope(request: Request, target: Target) -> Scope:
    labels, fields = (parse(request.query.get(f"{kind}Selector", "")) for kind in ("label", "field"))
    return Scope(target.namespace, labels, fields)


def _is_foreground(request: Request) -> bool:
    policy = request.query.get("propagationPolicy") or request.json().get("propagationPolicy")
    return policy == "Foreground"


def _not_found(path: str) -> RefusedError:
    return RefusedError(404, "NotFound", f"the server could not find the requested resource {path}")
