"""Stores objects by resource, with one counter of versions, and their changes for watches.

Every version of an object is immutable, so that a watch may encode it later.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Protocol, Self

from dev.simulator.selectors import EVERYTHING, Selector
from kube.model.meta import JSON

Key = tuple[str, str]
"""(namespace, name). The namespace of a cluster-scoped object is ""."""

HISTORY_LENGTH = 50_000
"""Largest number of changes of one resource that are kept. The client of a watch from before them has to list again."""


class Item(Hashable, Protocol):
    """One version of an object. It is equal only to itself."""

    @property
    def key(self) -> Key: ...
    @property
    def uid(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def owners(self) -> Iterable[str]:
        """UIDs of its owners."""

    def label(self, key: str) -> str | None: ...
    def body(self) -> JSON:
        """The whole object, to be read only."""

    def at(self, version: int) -> Self:
        """The object with that resource version."""


@dataclass(frozen=True, slots=True, eq=False)
class JsonItem:
    """An object that is stored as JSON."""

    content: JSON

    @property
    def meta(self) -> JSON:
        meta: JSON = self.content["metadata"]
        return meta

    @property
    def key(self) -> Key:
        meta = self.content["metadata"]
        return meta.get("namespace", ""), meta["name"]

    @property
    def uid(self) -> str:
        return str(self.meta["uid"])

    @property
    def version(self) -> int:
        return int(self.meta["resourceVersion"])

    @property
    def owners(self) -> Iterable[str]:
        return [ref["uid"] for ref in self.meta.get("ownerReferences") or ()]

    def label(self, key: str) -> str | None:
        label_value: str | None = (self.meta.get("labels") or {}).get(key)
        return label_value

    def body(self) -> JSON:
        return self.content

    def at(self, version: int) -> "JsonItem":
        return JsonItem({**self.content, "metadata": {**self.meta, "resourceVersion": str(version)}})


@dataclass(frozen=True, slots=True)
class Scope:
    """The objects that a list, a watch or a collective deletion selects. `namespace` "" means all namespaces."""

    namespace: str = ""
    labels: Selector = EVERYTHING
    fields: Selector = EVERYTHING

    def contains(self, item: Item) -> bool:
        return (
            (not self.namespace or self.namespace == item.key[0])
            and (not self.labels.requirements or self.labels.is_met(item.label))
            and (not self.fields.requirements or self.fields.is_met(lambda path: _field(item.body(), path)))
        )


def _field(body: JSON, path: str) -> str | None:
    value: Any = body
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a watch: ADDED, MODIFIED or DELETED."""

    kind: str
    item: Item


@dataclass(frozen=True, slots=True)
class _Change:
    old: Item | None
    new: Item | None
    version: int

    def event_in(self, scope: Scope) -> Event | None:
        """Return the event for watches of a scope, if any. An object that leaves the scope is DELETED for them."""
        before = self.old is not None and scope.contains(self.old)
        after = self.new is not None and scope.contains(self.new)
        if after and self.new is not None:
            return Event("MODIFIED" if before else "ADDED", self.new)
        if before and self.old is not None:
            return Event("DELETED", self.old.at(self.version))
        return None


class TooOldError(Exception):
    """A watch starts from a version so old that later changes have been dropped."""


@dataclass(eq=False, slots=True)
class Watcher:
    """A handler of the events in a scope."""

    scope: Scope
    handle: Callable[[Event], None]


@dataclass(slots=True)
class Collection:
    """The objects of one resource."""

    objects: dict[Key, Item] = field(default_factory=dict)
    watchers: dict[Watcher, None] = field(default_factory=dict)
    history: deque[_Change] = field(default_factory=lambda: deque(maxlen=HISTORY_LENGTH))
    forgotten_version: int = 0
    """The version up to which changes have been dropped."""

    @property
    def version(self) -> int:
        """Return the resourceVersion of the last change."""
        return self.history[-1].version if self.history else self.forgotten_version

    def find(self, scope: Scope) -> Iterator[Item]:
        """Return the objects of a scope, unordered."""
        return filter(scope.contains, list(self.objects.values()))

    def select(self, scope: Scope) -> list[Item]:
        """Return the objects of a scope, sorted by namespace and name."""
        return sorted(self.find(scope), key=lambda item: item.key)

    def events_since(self, version: int, scope: Scope) -> list[Event]:
        """Return the events in a scope after a version, oldest first. Raises `TooOldError`."""
        if version < self.forgotten_version:
            raise TooOldError(f"too old resource version: {version} ({self.forgotten_version})")
        new = takewhile(lambda change: change.version > version, reversed(self.history))
        events = [event for change in new if (event := change.event_in(scope)) is not None]
        return events[::-1]

    def change(self, old: Item | None, new: Item | None, version: int) -> None:
        """Replace `old` (None: a new object) by `new` (None: deleted), and call the watchers that see the change."""
        key = (new or old).key  # type: ignore[union-attr]  # one of them is there
        if new is None:
            del self.objects[key]
        else:
            self.objects[key] = new
        change = _Change(old, new, version)
        if len(self.history) == self.history.maxlen:
            self.forgotten_version = self.history[0].version
        self.history.append(change)
        for watcher in tuple(self.watchers):
            if (event := change.event_in(watcher.scope)) is not None:
                watcher.handle(event)

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Register a watcher for later events. Returns a function that removes it."""
        self.watchers[watcher] = None

        def remove_watcher() -> None:
            self.watchers.pop(watcher, None)

        return remove_watcher


class Storage:
    """All collections, by plural name, and an index of owners."""

    def __init__(self) -> None:
        self.version = 0
        self.compacted_version = 0
        """The version up to which no history is kept."""
        self._collections: dict[str, Collection] = {}
        self._owned: dict[str, dict[tuple[str, Key], None]] = {}

    def __getitem__(self, plural: str) -> Collection:
        if plural not in self._collections:
            self._collections[plural] = Collection(forgotten_version=self.compacted_version)
        return self._collections[plural]

    def get(self, plural: str, key: Key) -> Item | None:
        return self[plural].objects.get(key)

    def put(self, plural: str, item: Item) -> Item:
        """Store an object or a new version of one. Returns the stored version."""
        self.version += 1
        new = item.at(self.version)
        old = self.get(plural, new.key)
        self._update_owners(plural, old, new)
        self[plural].change(old, new, self.version)
        return new

    def drop(self, plural: str, key: Key) -> Item:
        """Remove an object, but not the objects that it owns."""
        self.version += 1
        old = self[plural].objects[key]
        self._update_owners(plural, old, None)
        self[plural].change(old, None, self.version)
        return old

    def _update_owners(self, plural: str, old: Item | None, new: Item | None) -> None:
        """Update the index of owners after the change of an object."""
        before, after = (() if item is None else tuple(item.owners) for item in (old, new))
        item = old or new
        if before == after or item is None:
            return
        for owner in before:
            owned = self._owned[owner]
            del owned[plural, item.key]
            if not owned:
                del self._owned[owner]
        for owner in after:
            self._owned.setdefault(owner, {})[plural, item.key] = None

    def compact(self) -> None:
        """Drop the history. A watch from an earlier version then gets 410 Expired, and its client has to list again."""
        self.compacted_version = self.version
        for collection in self._collections.values():
            collection.history.clear()
            collection.forgotten_version = self.version

    def owned_by(self, uid: str) -> list[tuple[str, Key]]:
        """Return the objects that an object owns, as (plural, key)."""
        return list(self._owned.get(uid, ()))
