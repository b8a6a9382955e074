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
GIVE_UP = 8
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


def read_all(selection: Selection, task: str, most: int) -> Operation[tuple[list[JSON] | None, str]]:
    """All objects, or None if there are more than `most`, and the resourceVersion of the list.

    A list starts again, once, if it takes so long that the API server forgets its beginning.
    """
    try:
        return (yield from _read_pages(selection, task, most))
    except ExpiredError:
        return (yield from _read_pages(selection, task, most))


def _read_pages(selection: Selection, task: str, most: int) -> Operation[tuple[list[JSON] | None, str]]:
    objects: list[JSON] = []
    token = ""
    while True:
        query = (*selection.query, ("limit", str(PAGE)), *([("continue", token)] if token else []))
        page = yield from ask(Call(method="GET", path=selection.path, query=query, task=task))
        objects += page.get("items") or []
        metadata = page.get("metadata") or {}
        token = metadata.get("continue") or ""
        if len(objects) > most:
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
    _pending: deque[Change] = field(default_factory=deque)
    _known: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """UID and version of each object, by namespace and name."""
    _version: str = ""
    """resourceVersion of the watch; empty before the list."""
    _lines: Lines | None = None
    """The lines of the open stream."""
    _failures: int = 0

    def next(self) -> Operation[Change | None]:
        """The next change; None at the timeout. Raises permanent errors at once, others after several attempts."""
        while not self._pending:
            if self.deadline.over:
                return None
            try:
                yield from self._advance()
            except (ExpiredError, UnreachableError, BusyError) as error:
                if self._failures >= GIVE_UP:
                    raise
                if isinstance(error, ExpiredError):
                    self._version = ""
                yield from self._pause()
        return self._pending.popleft()

    def _pause(self, *, failed: bool = True) -> Operation[None]:
        self._lines = None
        self._failures += failed
        yield Sleep(max(0.0, self.deadline.seconds_left(backoff(self._failures))))

    def _advance(self) -> Operation[None]:
        if not self._version:
            yield from self._list()
        elif self._lines is None:
            yield from self._open()
        else:
            yield from self._read(self._lines)

    def _list(self) -> Operation[None]:
        bodies, self._version = yield from read_all(self.selection, self.task, MAX_WATCHED)
        if bodies is None:
            raise JobSetError(f"cannot {self.task}: more than {MAX_WATCHED}: narrow it by namespace or labels")
        known_before, self._known = self._known, {}
        for body in bodies:
            key, identity = _identity(body)
            identity_before = known_before.pop(key, None)
            self._known[key] = identity
            if identity_before is not None and identity_before[0] != identity[0]:
                self._pending.append(_deletion(key, identity_before[0]))
            if identity_before != identity:
                self._pending.append(
                    Change("MODIFIED" if identity_before and identity_before[0] == identity[0] else "ADDED", body)
                )
        self._pending.extend(_deletion(key, uid) for key, (uid, _) in known_before.items())
        self._pending.append(Change("LISTED"))

    def _open(self) -> Operation[None]:
        seconds = max(1.0, self.deadline.seconds_left(STREAM_SECONDS))
        query = (
            *self.selection.query,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self._version),
            ("timeoutSeconds", str(int(seconds))),
        )
        path, limit = self.selection.path, seconds + TIMEOUT_MARGIN
        yield from send(Call(method="GET", path=path, query=query, task=self.task, timeout=limit, stream=True))
        self._lines = Lines()

    def _read(self, lines: Lines) -> Operation[None]:
        answer = yield Read(max(0.05, self.deadline.seconds_left(STREAM_SECONDS + TIMEOUT_MARGIN)))
        if answer.body:
            for line in lines.feed(answer.body):
                self._take_event(line)
            self._failures = 0
        else:  # the watch ended: reconnect after a pause, which grows while no event arrives
            yield from self._pause(failed=not lines.count)

    def _take_event(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except ValueError as error:
            raise UnreachableError(f"cannot {self.task}: no event: {line[:200]!r}") from error
        body = event.get("object") or {}
        if event.get("type") == "ERROR":
            raise _refusal(body, self.task)
        key, identity = _identity(body)
        self._version = identity[1] or self._version
        match event.get("type"):
            case "ADDED" | "MODIFIED" as kind:
                self._known[key] = identity
                self._pending.append(Change(kind, body))
            case "DELETED":
                self._known.pop(key, None)
                self._pending.append(Change("DELETED", body))
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
