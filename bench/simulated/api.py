"""The verbs of the API, in memory: what is asked is done or refused as an API server would, and counted.

A write that no cluster would take (an owner that does not exist, more Jobs ready than there are) is refused, so that a
mistake of the simulation or of the manager ends the measurement instead of making it look fast.
"""

import re
import time
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

import msgspec

from api import keys
from bench.simulated.storage import JSON, Event, Item, Key, Plain, Scope, Storage, TooOldError, Watcher
from bench.simulated.wire import Answer, Request, Stream
from bench.simulated.world import World, managed, moment
from kube import resources
from kube.resources import Resource
from simcluster import job_rules
from simcluster.patches import merge
from simcluster.selectors import SelectorError, parse

JOBSETS = Resource(keys.GROUP, keys.VERSION, keys.KIND, "jobsets")
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
OTHERS = (NAMESPACES, Resource("", "v1", "Event", "events"), JOBSETS)
SERVED = {(r.api_version, r.plural): r for r in (*vars(resources).values(), *OTHERS) if isinstance(r, Resource)}
for _gated in (resources.WORKLOADS, resources.POD_GROUPS, resources.COMPOSITE_POD_GROUPS):
    del SERVED[_gated.api_version, _gated.plural]

PATH = re.compile(
    r"^/(?:api|apis/(?P<group>[^/]+))/(?P<version>v[0-9a-z]+)"
    r"(?:/namespaces/(?P<ns>[^/]+)(?=/))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[^/]+))?)?$"
)
INITIAL_END = {"k8s.io/initial-events-end": "true"}
encode = msgspec.json.Encoder().encode


class RefusedError(Exception):
    """A request that is refused: status code and reason of the answer."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason

    def answer(self) -> Answer:
        return Answer(self.code, encode(status(self.code, self.reason, str(self))))


def status(code: int, reason: str, message: str) -> JSON:
    """metav1.Status of a refusal."""
    shape = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**shape, "message": message, "reason": reason, "code": code}


@lru_cache(maxsize=256)
def encoded(item: Item, kind: Resource, metadata_only: bool) -> bytes:
    """An object as it is sent; several watches may be told of the same one."""
    body = item.body()
    if metadata_only:
        return encode({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"]})
    return encode({"kind": kind.kind, "apiVersion": kind.api_version, **body})


class Api:
    """Answers requests. `calls` counts those of the manager by (verb, resource, code)."""

    def __init__(self, storage: Storage, world: World) -> None:
        self.calls: Counter[tuple[str, str, int]] = Counter()
        self.first_write: float | None = None
        """When the manager first wrote an object, in seconds of the machine's monotonic clock."""
        self._storage = storage
        self._world = world
        self._bookmarks: set[Callable[[], None]] = set()

    def handle(self, request: Request) -> Answer | Stream:
        """Answer one request."""
        try:
            verb, what, answer = self._route(request)
        except RefusedError as refused:
            verb, what, answer = request.method.lower(), request.path, refused.answer()
        except SelectorError as error:
            verb, what, answer = "list", request.path, RefusedError(400, "BadRequest", str(error)).answer()
        if "user-agent" in request.headers:  # the benchmark itself does not name itself
            self.calls[verb, what, answer.status if isinstance(answer, Answer) else 200] += 1
            if request.method != "GET" and self.first_write is None:
                self.first_write = time.monotonic()
        return answer

    def bookmark(self) -> None:
        """Tell all who watch how far they are."""
        for tell in self._bookmarks:
            tell()

    def _route(self, request: Request) -> tuple[str, str, Answer | Stream]:
        found = PATH.match(request.path)
        if found is None:
            return "get", request.path, _discovery(request.path)
        version = f"{found['group']}/{found['version']}" if found["group"] else found["version"]
        kind = SERVED.get((version, found["plural"]))
        if kind is None:
            raise RefusedError(404, "NotFound", f"the server could not find the requested resource {request.path}")
        what = f"{kind.plural}/{found['sub']}" if found["sub"] else kind.plural
        if found["name"] is None:
            verb, act = self._on_collection(request)
            return verb, what, act(request, kind, found["ns"] or "")
        key = found["ns"] or "", found["name"]
        try:
            return self._on_object(request, kind, key, found["sub"] or "", what)
        except RefusedError as refused:
            return request.method.lower(), what, refused.answer()

    def _on_collection(self, request: Request) -> tuple[str, Callable[[Request, Resource, str], Answer | Stream]]:
        if request.method == "GET" and request.query.get("watch") in {"1", "true"}:
            return "watch", self._watch
        verbs = {"GET": ("list", self._list), "POST": ("create", self._create)}
        verbs["DELETE"] = "deletecollection", self._delete_collection
        if request.method not in verbs:
            raise RefusedError(405, "MethodNotAllowed", request.method)
        return verbs[request.method]

    def _on_object(
        self, request: Request, kind: Resource, key: Key, sub: str, what: str
    ) -> tuple[str, str, Answer | Stream]:
        item = self._storage.get(kind.plural, key)
        if item is None:
            raise RefusedError(404, "NotFound", f'{kind.plural} "{key[1]}" not found')
        if request.method == "GET":
            return "get", what, Answer(200, encoded(item, kind, request.metadata_only))
        if request.method == "DELETE":
            return "delete", what, self._delete(request, kind, item)
        if request.method == "PUT":
            return "update", what, self._write(request, kind, item, sub, _body(request))
        if request.method != "PATCH" or request.headers.get("content-type") != "application/merge-patch+json":
            raise RefusedError(415, "UnsupportedMediaType", f"{request.method} {request.headers.get('content-type')}")
        return "patch", what, self._write(request, kind, item, sub, merge(item.body(), _body(request)))

    def _scope(self, request: Request, namespace: str) -> Scope:
        query = request.query
        return Scope(namespace, parse(query.get("labelSelector", "")), parse(query.get("fieldSelector", "")))

    def _list(self, request: Request, kind: Resource, namespace: str) -> Answer:
        items = list(self._storage[kind.plural].select(self._scope(request, namespace)))
        if after := request.query.get("continue"):
            items = [item for item in items if "/".join(item.key) > after]
        limit = int(request.query.get("limit", 0)) or len(items)
        more = "/".join(items[limit - 1].key) if len(items) > limit else ""
        return self._page(request, kind, items[:limit], more)

    def _page(self, request: Request, kind: Resource, items: list[Item], more: str = "") -> Answer:
        bodies = [msgspec.Raw(encoded(item, kind, request.metadata_only)) for item in items]
        meta = {"resourceVersion": str(self._storage.version), **({"continue": more} if more else {})}
        shape = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version}
        return Answer(200, encode({**shape, "metadata": meta, "items": bodies}))

    def _watch(self, request: Request, kind: Resource, namespace: str) -> Stream | Answer:
        collection, scope = self._storage[kind.plural], self._scope(request, namespace)
        version = int(request.query.get("resourceVersion") or 0)
        initial = request.query.get("sendInitialEvents") == "true"
        try:
            before = collection.since(version, scope) if version and not initial else []
        except TooOldError as error:
            return RefusedError(410, "Expired", str(error)).answer()
        if initial or not version:
            before = [Event("ADDED", item) for item in collection.select(scope)]

        def begin(write: Callable[[bytes], None]) -> Callable[[], None]:
            def tell(event: Event) -> None:
                body = encoded(event.item, kind, request.metadata_only)
                write(b'{"type":"%b","object":%b}\n' % (event.kind.encode(), body))

            def mark(annotations: JSON | None = None) -> None:
                meta = {"resourceVersion": str(self._storage.version), "annotations": annotations or {}}
                shape = {"kind": kind.kind, "apiVersion": kind.api_version}
                write(encode({"type": "BOOKMARK", "object": {**shape, "metadata": meta}}) + b"\n")

            def end() -> None:
                unwatch()
                self._bookmarks.discard(mark)

            for event in before:
                tell(event)
            if initial:
                mark(INITIAL_END)
            unwatch = collection.watch(Watcher(scope, tell))
            self._bookmarks.add(mark)
            return end

        return Stream(begin)

    def _create(self, request: Request, kind: Resource, namespace: str) -> Answer:
        body = _body(request)
        try:
            item = self.add(kind, namespace, body, dry_run="dryRun" in request.query)
        except RefusedError as refused:
            return refused.answer()
        return Answer(201, encoded(item, kind, request.metadata_only))

    def add(self, kind: Resource, namespace: str, body: JSON, *, dry_run: bool = False) -> Item:
        """Create an object. Raises `RefusedError`."""
        meta = body.get("metadata") or {}
        name = meta.get("name") or f"{meta.get('generateName', '')}{self._world.uid()[:8]}"
        if (meta.get("namespace") or namespace) != namespace or kind.namespaced != bool(namespace):
            raise RefusedError(400, "BadRequest", f"namespace {meta.get('namespace')!r} is not that of the request")
        if self._storage.get(kind.plural, (namespace, name)) is not None:
            raise RefusedError(409, "AlreadyExists", f'{kind.plural} "{name}" already exists')
        for ref in meta.get("ownerReferences") or ():
            self._check_owner(ref, namespace)
        labels = meta.get("labels") or {}
        now = moment()
        own = {"name": name, "uid": self._world.uid(), "creationTimestamp": now, "generation": 1}
        given = {**meta, **own, "managedFields": managed("manager", now, labels), "resourceVersion": "0"}
        item = Plain({**body, "metadata": {**given, "namespace": namespace} if namespace else given})
        if kind.plural == "jobs":
            item = Plain(job_rules.defaulted(item.content))
        if dry_run or kind.kind == "Event":
            return item
        stored = self._storage.put(kind.plural, item)
        self._world.changed(kind.plural, stored.key)
        return stored

    def _check_owner(self, ref: JSON, namespace: str) -> None:
        """The garbage collector deletes what belongs to nobody: such a thing is not there long enough to be seen."""
        kinds = [
            kind for (version, _), kind in SERVED.items() if (version, kind.kind) == (ref["apiVersion"], ref["kind"])
        ]
        owner = self._storage.get(kinds[0].plural, (namespace, ref["name"])) if kinds else None
        if owner is None or owner.uid != ref["uid"]:
            raise RefusedError(422, "Invalid", f"its owner {ref['kind']} {ref['name']} ({ref['uid']}) does not exist")

    def _write(self, request: Request, kind: Resource, item: Item, sub: str, wanted: JSON) -> Answer:
        """Put the part of `wanted` that the request is about over an object."""
        old, meta = item.body(), wanted.get("metadata") or {}
        sent = _body(request).get("metadata") or {}
        for name, current in (("uid", item.uid), ("resourceVersion", str(item.version))):
            if sent.get(name, current) != current:
                raise RefusedError(
                    409, "Conflict", f'{kind.plural} "{item.key[1]}": {name} is {current}, not {sent[name]}'
                )
        if sub == "status":
            new = {**old, "status": wanted.get("status") or {}}
            _check_status(kind, old, new["status"])
        else:
            new = {**wanted, "metadata": {**meta, "resourceVersion": str(item.version)}}
            if "status" in old:
                new["status"] = old["status"]
            if new.get("spec") != old.get("spec"):
                new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if new == old:
            return Answer(200, encoded(item, kind, request.metadata_only))
        stored = self._storage.put(kind.plural, Plain(new))
        if not sub:
            self._world.changed(kind.plural, stored.key)
        return Answer(200, encoded(stored, kind, request.metadata_only))

    def _delete(self, request: Request, kind: Resource, item: Item) -> Answer:
        held = _body(request).get("preconditions") or {}
        for name, current in (("uid", item.uid), ("resourceVersion", str(item.version))):
            if held.get(name, current) != current:
                raise RefusedError(409, "Conflict", f"the {name} in the precondition ({held[name]}) is not {current}")
        left = self._world.delete(kind.plural, item, foreground=_foreground(request))
        if left is not None:
            return Answer(200, encoded(left, kind, request.metadata_only))
        return Answer(200, encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}))

    def _delete_collection(self, request: Request, kind: Resource, namespace: str) -> Answer:
        items = list(self._storage[kind.plural].select(self._scope(request, namespace)))
        for item in items:
            self._world.delete(kind.plural, item, foreground=_foreground(request))
        return self._page(request, kind, items)


def _body(request: Request) -> JSON:
    body: JSON = msgspec.json.decode(request.body) if request.body else {}
    return body


def _foreground(request: Request) -> bool:
    policy = request.query.get("propagationPolicy") or _body(request).get("propagationPolicy")
    return policy == "Foreground"


def _check_status(kind: Resource, old: JSON, new: JSON) -> None:
    """Refuse a JobSet's status that cannot be true."""
    if kind is not JOBSETS:
        return
    if new.get("restarts", 0) < (old.get("status") or {}).get("restarts", 0):
        raise RefusedError(422, "Invalid", "status.restarts: a restart cannot be taken back")
    replicas = {rjob["name"]: rjob.get("replicas", 1) for rjob in old["spec"]["replicatedJobs"]}
    for of in new.get("replicatedJobsStatus") or ():
        if of.get("ready", 0) + of.get("succeeded", 0) + of.get("failed", 0) > replicas.get(of["name"], 0):
            raise RefusedError(422, "Invalid", f"status.replicatedJobsStatus {of['name']}: more Jobs than there are")


def _discovery(path: str) -> Answer:
    """What is served, and by which version."""
    if path == "/version":
        return Answer(200, encode({"major": "1", "minor": "37", "gitVersion": "v1.37.1"}))
    if path in {"/readyz", "/healthz", "/livez"}:
        return Answer(200, b"ok")
    version = path.removeprefix("/apis/").removeprefix("/api/")
    verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    found = [
        {"name": kind.plural, "kind": kind.kind, "namespaced": kind.namespaced, "singularName": "", "verbs": verbs}
        for (of, _), kind in SERVED.items()
        if of == version
    ]
    if found:
        shape = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version}
        return Answer(200, encode({**shape, "resources": found}))
    groups = sorted({of for of, _ in SERVED if "/" in of})
    if path == "/apis":
        named = [{"groupVersion": of, "version": of.rpartition("/")[2]} for of in groups]
        listed = [
            {"name": one["groupVersion"].rpartition("/")[0], "versions": [one], "preferredVersion": one}
            for one in named
        ]
        return Answer(200, encode({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}))
    if path == "/api":
        return Answer(200, encode({"kind": "APIVersions", "versions": ["v1"]}))
    return RefusedError(404, "NotFound", f"the server could not find the requested resource {path}").answer()
