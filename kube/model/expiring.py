"""A bounded cache of values that are valid for a time. Pure: the caller passes the time."""

import math
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Expiring(Generic[K, V]):
    """At most `size` values by key, each until a time on the caller's clock.

    If there are more, the value that was stored first is dropped.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: dict[K, tuple[float, V]] = {}

    def __len__(self) -> int:
        """Number of stored values, expired ones included."""
        return len(self._entries)

    def get(self, key: K, now: float) -> V | None:
        """The value; None if it was not stored, was dropped, or has expired."""
        until, value = self._entries.get(key, (-math.inf, None))
        return value if now < until else None

    def put(self, key: K, value: V, until: float) -> None:
        """Store a value, replacing an earlier one of this key."""
        self._entries.pop(key, None)
        self._entries[key] = until, value
        if len(self._entries) > self._size:
            del self._entries[next(iter(self._entries))]
