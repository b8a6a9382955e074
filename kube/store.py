"""The cache of one resource: the state of the watch, overlaid with this process's writes that the watch has not shown.

Readers get frozen objects. Only the informer writes the state of the watch. `overlay` and `overlay_deleted` add the
answers to creations, patches and deletions: readers get these overlays in place of the watched objects. So a reconcile
never sees a state older than its own writes, and never creates or deletes an object twice.

An overlay ends when the watch has caught up. The resourceVersions of one resource are ordered numbers, and a watch
delivers them in order. An answer at version V is newer than the cache exactly while the watch has not reached V; from
then on readers get the state of the watch, also if the object is already deleted. So an event that comes before the
HTTP answer needs no special handling, and a failed write leaves nothing behind. A write of unknown outcome (timeout) is
not overlaid: the caller tries again by name, and the API server answers AlreadyExists or 404, which count as success.
"""

import enum
import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from kube.indexes import Indexes, IndexFunction, IndexKey, Key
from kube.model.meta import Identity

OVERLAY_TTL = 300.0
"""Seconds after which an overlay is dropped, if the watch never catches up (an API server restored from a backup)."""


class Meta(Protocol):
    """The fields of metav1.ObjectMeta that the store reads."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class Object(Protocol):
    """Any decoded object with typed metadata."""

    @property
    def metadata(self) -> Any:
        """A `Meta`; Any, so that a struct's own metadata class fits without a cast."""


T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Replaces an object that cannot be decoded. It is listed in `Store.unreadable`, and readers do not see it."""

    metadata: Identity
    reason: str


@dataclass(frozen=True, slots=True)
class DroppedObject:
    """Replaces an object that exists, but that the target of the watch drops: readers do not see it."""

    metadata: Meta


class ChangeKind(enum.Enum):
    """What happened to an object in the cache."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(NamedTuple, Generic[T]):
    """A change of an object, as handlers get it.

    `old` is None for ADDED, unless readers already got the object from an overlay: `old` then has the same
    resourceVersion as `new`.
    """

    kind: ChangeKind
    old: T | None
    new: T | None


Changes = list[Change[T]]
Objects = list[T]


@dataclass(slots=True)
class _Pin(Generic[T]):
    """The overlay of one key: readers get `written` instead of `watched` until the watch reaches `version`.

    Remembered: the answer to a write, for the object of that UID, until the watch has reached the version of the answer
    or shows that the object is gone; 300 s at most. Without the pin a write is repeated; AlreadyExists and 404 then
    count as success. An object that wrongly counts as deleted is shown again when its name is tried.

    `written` None: this process has deleted the object, and `version` is its last known version. The object of that
    UID, and any older object, is hidden until the watch reports the deletion.
    """

    version: int
    uid: str
    written: T | None
    watched: T | None
    expires: float


@dataclass(slots=True)
class _Generation(Generic[T]):
    """The objects of a new list that is not complete yet. It replaces all objects once it is complete."""

    objects: dict[Key, T] = field(default_factory=dict)
    unreadable: dict[Key, str] = field(default_factory=dict)


def key_of(obj: Object) -> Key:
    return obj.metadata.namespace, obj.metadata.name


def version_of(obj: Object) -> int:
    """The resourceVersion as a number, in the order of the versions; 0 if there is none."""
    return int(obj.metadata.resource_version or 0)


class Store(Generic[T]):
    """Objects by key and by named indexes. Not safe for threads; every method is synchronous.

    `indexes` and `cluster_indexes`: see `kube.indexes`.
    """

    def __init__(
        self,
        indexes: Mapping[str, IndexFunction] | None = None,
        cluster_indexes: Mapping[str, IndexFunction] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._indexes: Indexes[T] = Indexes(indexes or {}, cluster_indexes or {})
        self._objects: dict[Key, T] = {}
        self._pins: dict[Key, _Pin[T]] = {}
        self._pin_versions: list[tuple[int, Key]] = []
        self._deleted_uids: dict[str, float] = {}
        """UIDs of objects that were deleted while another object had their name, each with the time until which the
        object is hidden. A pin cannot hide it, since a pin belongs to a name."""
        self._new_generation: _Generation[T] | None = None
        self._clock = clock
        self.unreadable: dict[Key, str] = {}
        """Why an existing object is not in the store. A reconcile that misses an object should check this."""
        self.watched_version = 0
        """The resourceVersion that the watch has reached."""

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> T | None:
        return self._objects.get((namespace, name))

    def keys(self) -> Sequence[Key]:
        """The keys of all objects."""
        return tuple(self._objects)

    def list(self, namespace: str | None = None) -> Objects[T]:
        """All objects, or the objects of one namespace, which are found by a scan."""
        return [obj for key, obj in self._objects.items() if namespace is None or key[0] == namespace]

    def by_index(self, index: str, key: IndexKey) -> Objects[T]:
        """Objects of the key's namespace for which the index function returned the key's value.

        Objects that changed last are at the end, except after a new list.
        """
        return self._indexes.get(index, key)

    def by_cluster_index(self, index: str, value: str) -> Objects[T]:
        """Objects of all namespaces for which one of the `cluster_indexes` returned this value."""
        return self._indexes.get(index, IndexKey("", value))

    # What this process wrote

    def overlay(self, obj: T) -> None:
        """Show an object as the API server returned it, until the watch has caught up."""
        self._deleted_uids.pop(obj.metadata.uid, None)
        key, version = key_of(obj), version_of(obj)
        pin, current = self._pins.get(key), self._objects.get(key)
        if pin is not None and pin.written is None and pin.uid == obj.metadata.uid:
            # The object counted as deleted and still exists, because it had a finalizer.
            del self._pins[key]
            self._set(key, pin.watched)
            current, pin = pin.watched, None
        if version <= self.watched_version or (current is not None and version_of(current) >= version):
            return
        self._pin(key, _Pin(version, obj.metadata.uid, obj, pin.watched if pin else current, 0.0))
        self._set(key, obj)

    def overlay_deleted(self, namespace: str, name: str, uid: str) -> None:
        """Hide the object with that UID, which the API server has deleted, until the watch reports the deletion.

        It is hidden also if the watch has not shown it yet. A later answer with the object shows it again (`overlay`).
        """
        key = namespace, name
        current = self._objects.get(key)
        if current is not None and current.metadata.uid != uid:
            self._deleted_uids[uid] = self._clock() + OVERLAY_TTL
            return
        pin = self._pins.get(key)
        last_version = max(pin.version if pin else 0, version_of(current) if current else 0)
        self._pin(key, _Pin(last_version, uid, None, pin.watched if pin else current, 0.0))
        self._set(key, None)

    def _pin(self, key: Key, pin: _Pin[T]) -> None:
        """Add a pin. Pins stay ordered by expiry, so that finding expired ones is cheap."""
        pin.expires = self._clock() + OVERLAY_TTL
        self._pins.pop(key, None)
        self._pins[key] = pin
        if pin.written is not None:
            heapq.heappush(self._pin_versions, (pin.version, key))

    # The state of the watch: used by the informer only

    def begin(self) -> None:
        """Start a list. Readers get the old objects until `commit`. An unfinished list is dropped."""
        self._new_generation = _Generation()

    def apply(self, obj: T | Unreadable | DroppedObject) -> Changes[T]:
        """Apply an event that an object was created or changed. Returns the changes that readers see."""
        key = key_of(obj)
        if self._new_generation is not None:
            self._add_to_generation(self._new_generation, key, obj)
            return []
        if isinstance(obj, Unreadable):
            self.unreadable[key] = obj.reason
            watched = None
        else:
            self.unreadable.pop(key, None)
            watched = None if isinstance(obj, DroppedObject) or self._is_deleted(obj) else obj
        return self._apply_event(key, watched, obj) + self.advance(version_of(obj))

    def remove(self, obj: T | Unreadable | DroppedObject) -> Changes[T]:
        """Apply an event that an object is gone. Returns the changes that readers see."""
        key = key_of(obj)
        if self._new_generation is not None:
            self._new_generation.objects.pop(key, None)
            self._new_generation.unreadable.pop(key, None)
            return []
        self.unreadable.pop(key, None)
        self._deleted_uids.pop(obj.metadata.uid, None)
        return self._apply_event(key, None, obj) + self.advance(version_of(obj))

    def _is_deleted(self, obj: T) -> bool:
        expires = self._deleted_uids.get(obj.metadata.uid)
        return expires is not None and expires > self._clock()

    def _add_to_generation(self, generation: _Generation[T], key: Key, obj: T | Unreadable | DroppedObject) -> None:
        generation.objects.pop(key, None)
        generation.unreadable.pop(key, None)
        if isinstance(obj, Unreadable):
            generation.unreadable[key] = obj.reason
        elif not isinstance(obj, DroppedObject) and not self._is_deleted(obj):
            generation.objects[key] = obj

    def _apply_event(self, key: Key, watched: T | None, event: T | Unreadable | DroppedObject) -> Changes[T]:
        """Apply an event of the watch to one key. `watched` None: the object is gone, unreadable or not wanted."""
        pin = self._pins.get(key)
        if pin is None:
            return self._show(key, self._objects.get(key), watched)
        has_same_uid = event.metadata.uid == pin.uid
        if version_of(event) < pin.version or (pin.written is None and watched is not None and has_same_uid):
            pin.watched = watched
            return []
        del self._pins[key]
        return self._show(key, pin.watched, watched)

    def _show(self, key: Key, watched_before: T | None, watched: T | None) -> Changes[T]:
        """Show readers the watched object. The kind of the change compares two watched states.

        `old` of the change is the object that readers got before.
        """
        old = self._objects.get(key)
        self._set(key, watched)
        if watched is not None:
            kind = ChangeKind.ADDED if watched_before is None else ChangeKind.MODIFIED
            return [Change(kind, old, watched)]
        last_state = old if old is not None else watched_before
        return [] if last_state is None else [Change(ChangeKind.DELETED, last_state, None)]

    def advance(self, version: int) -> Changes[T]:
        """Note that the watch has reached `version`, and end all overlays up to that version and all expired ones."""
        self.watched_version = max(self.watched_version, version)
        changes: Changes[T] = []
        while self._pin_versions and self._pin_versions[0][0] <= self.watched_version:
            due_version, key = heapq.heappop(self._pin_versions)
            pin = self._pins.get(key)
            if pin is not None and pin.written is not None and pin.version <= due_version:
                changes += self._unpin(key)
        now = self._clock()
        while self._pins and next(iter(self._pins.values())).expires <= now:
            changes += self._unpin(next(iter(self._pins)))
        while self._deleted_uids and next(iter(self._deleted_uids.values())) <= now:
            del self._deleted_uids[next(iter(self._deleted_uids))]
        return changes

    def _unpin(self, key: Key) -> Changes[T]:
        pin = self._pins.pop(key)
        return self._show(key, pin.watched, pin.watched)

    def commit(self, version: int) -> Changes[T]:
        """End a list, which is complete at `version`: readers get its objects. Returns the changes."""
        if self._new_generation is None:
            raise RuntimeError("commit without begin")
        generation, self._new_generation = self._new_generation, None
        self._deleted_uids = {uid: expires for uid, expires in self._deleted_uids.items() if expires > self._clock()}
        old_objects, self._objects = self._objects, {}
        self.unreadable = generation.unreadable
        self._indexes.clear()
        pins, self._pins, self._pin_versions = self._pins, {}, []
        self.watched_version = version
        for key, obj in generation.objects.items():
            self._set(key, obj)
        for key, pin in pins.items():
            _restore(old_objects, key, pin.watched)
            watched = generation.objects.get(key)
            # The list may lack a deleted object because the list is older than the object.
            hides_watched = watched is None or watched.metadata.uid == pin.uid or version_of(watched) < pin.version
            is_newer = pin.version > version if pin.written is not None else hides_watched
            if is_newer and pin.expires > self._clock():
                pin.watched = watched
                self._pins[key] = pin
                if pin.written is not None:
                    heapq.heappush(self._pin_versions, (pin.version, key))
                self._set(key, pin.written)
        return _differences(old_objects, self._objects)

    def _set(self, key: Key, obj: T | None) -> None:
        old = self._objects.pop(key, None)
        if obj is not None:
            self._objects[key] = obj
        self._indexes.replace(key, old, obj)


def _restore(objects: dict[Key, T], key: Key, watched: T | None) -> None:
    """Undo an overlay in the objects that are being replaced, so that handlers get the changes of the watch."""
    objects.pop(key, None)
    if watched is not None:
        objects[key] = watched


def _differences(old_objects: Mapping[Key, T], new_objects: Mapping[Key, T]) -> list[Change[T]]:
    changes = [Change(ChangeKind.DELETED, old, None) for key, old in old_objects.items() if key not in new_objects]
    for key, new in new_objects.items():
        old = old_objects.get(key)
        if old is None:
            changes.append(Change(ChangeKind.ADDED, None, new))
        elif old.metadata.resource_version != new.metadata.resource_version:
            changes.append(Change(ChangeKind.MODIFIED, old, new))
    return changes
