"""Lists and watches objects without IO. After an interruption of the watch, a new list finds missed changes."""

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobset_client.core import Call, Deadline, Lines, Operation, Read, Sleep, ask, backoff, send
from jobset_client.errors import ApiError, BusyError, ExpiredError, JobSetError, UnreachableError, refusal

JSON = dict[str, Any]
PAGE = 500
"""Largest number of objects in one answer to a list."""
MAX_WATCHED = 10_000
"""Largest number of objects that one watch remembers, by name, UID and version."""
STREAM_SECONDS = 290.0
"""Seconds after which a watch is renewed, since proxies cut longer watches."""
TIMEOUT_MARGIN = 10.0
"""Seconds that the API server may take to end a watch after its timeout."""
MAX_FAILURES = 8
"""Number of failures in a row (one to two minutes) after which a watch gives up."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects to list or watch: the path of a collection, and selectors."""

    path: str
    labels: str = ""
    fields: str = ""

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        pairs = (("labelSelector", self.labels), ("fieldSelector", self.fields))
        return tuple(pair for pair in pairs if pair[1])


def read_all(selection: Selection, task: str, max_objects: int) -> Operation[tuple[list[JSON] | None, str]]:
    """All objects, or None if there are more than `max_objects`, and the resourceVersion of the list.

    A list starts again, once, if its continue token has expired.
    """
    try:
        return (yield from _read_pages(selection, task, max_objects))
    except ExpiredError:
        return (yield from _read_pages(selection, task, max_objects))


def _read_pages(selection: Selection, task: str, max_objects: int) -> Operation[tuple[list[JSON] | None, str]]:
    objects: list[JSON] = []
    token = ""
    while True:
        query = (*selection.query, ("limit", str(PAGE)), *([("continue", token)] if token else []))
        page = yield from ask(Call(method="GET", path=selection.path, query=query, task=task))
        objects += page.get("items") or []
        metadata = page.get("metadata") or {}
        token = metadata.get("continue") or ""
        if len(objects) > max_objects:
            return None, ""
        if not token:
            return objects, metadata.get("resourceVersion") or ""


@dataclass(frozen=True, slots=True)
class Change:
    """ADDED, MODIFIED or DELETED with the object, or LISTED without an object at the end of each list."""

    type: str
    body: JSON = field(default_factory=dict)


@dataclass(slots=True)
class Changes:
    """A list and the watch after it. After an interruption a new list finds the missed changes."""

    selection: Selection
    task: str
    deadline: Deadline
    _pending_changes: deque[Change] = field(default_factory=deque)
    _known_objects: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """UID and version of each object, by namespace and name."""
    _resource_version: str = ""
    """resourceVersion of the watch; empty before the list."""
    _lines: Lines | None = None
    """The lines of the open stream."""
    _failures: int = 0

    def next(self) -> Operation[Change | None]:
        """The next change; None at the timeout. Raises permanent errors at once, others after several attempts."""
        while not self._pending_changes:
            if self.deadline.is_over:
                return None
            try:
                yield from self._advance()
            except (ExpiredError, UnreachableError, BusyError) as error:
                if self._failures >= MAX_FAILURES:
                    raise
                if isinstance(error, ExpiredError):
                    self._resource_version = ""
                yield from self._pause()
        return self._pending_changes.popleft()

    def _pause(self, *, failed: bool = True) -> Operation[None]:
        self._lines = None
        self._failures += failed
        yield Sleep(max(0.0, self.deadline.seconds_left(backoff(self._failures))))

    def _advance(self) -> Operation[None]:
        if not self._resource_version:
            yield from self._list_objects()
        elif self._lines is None:
            yield from self._open_stream()
        else:
            yield from self._read_stream(self._lines)

    def _list_objects(self) -> Operation[None]:
        bodies, self._resource_version = yield from read_all(self.selection, self.task, MAX_WATCHED)
        if bodies is None:
            raise JobSetError(f"cannot {self.task}: more than {MAX_WATCHED}: narrow it by namespace or labels")
        known_before, self._known_objects = self._known_objects, {}
        for body in bodies:
            key, identity = _identity(body)
            identity_before = known_before.pop(key, None)
            self._known_objects[key] = identity
            if identity_before is not None and identity_before[0] != identity[0]:
                self._pending_changes.append(_deletion(key, identity_before[0]))
            if identity_before != identity:
                self._pending_changes.append(
                    Change("MODIFIED" if identity_before and identity_before[0] == identity[0] else "ADDED", body)
                )
        self._pending_changes.extend(_deletion(key, uid) for key, (uid, _) in known_before.items())
        self._pending_changes.append(Change("LISTED"))

    def _open_stream(self) -> Operation[None]:
        seconds = max(1.0, self.deadline.seconds_left(STREAM_SECONDS))
        query = (
            *self.selection.query,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self._resource_version),
            ("timeoutSeconds", str(int(seconds))),
        )
        path, limit = self.selection.path, seconds + TIMEOUT_MARGIN
        yield from send(Call(method="GET", path=path, query=query, task=self.task, timeout=limit, stream=True))
        self._lines = Lines()

    def _read_stream(self, lines: Lines) -> Operation[None]:
        answer = yield Read(max(0.05, self.deadline.seconds_left(STREAM_SECONDS + TIMEOUT_MARGIN)))
        if answer.body:
            for line in lines.feed(answer.body):
                self._take_event(line)
            self._failures = 0
        else:  # the watch ended: reconnect after a pause, which grows while no event arrives
            yield from self._pause(failed=not lines.line_count)

    def _take_event(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except ValueError as error:
            raise UnreachableError(f"cannot {self.task}: no event: {line[:200]!r}") from error
        body = event.get("object") or {}
        if event.get("type") == "ERROR":
            raise _refusal(body, self.task)
        key, identity = _identity(body)
        self._resource_version = identity[1] or self._resource_version
        match event.get("type"):
            case "ADDED" | "MODIFIED" as kind:
                self._known_objects[key] = identity
                self._pending_changes.append(Change(kind, body))
            case "DELETED":
                self._known_objects.pop(key, None)
                self._pending_changes.append(Change("DELETED", body))
            case _:
                pass  # a bookmark: only the version counts


def _refusal(body: Mapping[str, Any], task: str) -> ApiError:
    code = body.get("code")
    return refusal(code if isinstance(code, int) else 500, body, task)


def _identity(body: Mapping[str, Any]) -> tuple[tuple[str, str], tuple[str, str]]:
    """The key of an object (namespace and name), and its identity (UID and resourceVersion)."""
    metadata = body.get("metadata") or {}
    texts: Iterator[str] = (metadata.get(key) or "" for key in ("namespace", "name", "uid", "resourceVersion"))
    namespace, name, uid, version = texts
    return (namespace, name), (uid, version)


def _deletion(key: tuple[str, str], uid: str) -> Change:
    namespace, name = key
    return Change("DELETED", {"metadata": {"namespace": namespace, "name": name, "uid": uid}})
