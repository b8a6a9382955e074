"""Finds the objects of a store by values in them, such as the UID of their owner.

The author of an object can write any value into it, also the UID of an object in another namespace; the API server only
guarantees the namespace. So objects are found by namespace and value, and the namespace is that of the stored object,
whatever an index function returns.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

Key = tuple[str, str]
"""(namespace, name); namespace is "" for cluster-scoped objects."""

IndexFunction = Callable[[Any], Iterable[str]]
"""Maps an object to the values by which it is found in its namespace."""


class IndexKey(NamedTuple):
    """A key for looking up objects. `namespace` is "" for cluster-scoped objects."""

    namespace: str
    value: str


class Indexes(Generic[T]):
    """The objects of one store by index, namespace and value.

    `cluster_wide`: indexes that ignore namespaces, for lookups by a cluster-scoped object, such as a node. Callers have
    to check namespace and owner of the results.
    """

    def __init__(self, functions: Mapping[str, IndexFunction], cluster_wide: Mapping[str, IndexFunction]) -> None:
        self._functions = {**functions, **cluster_wide}
        self._cluster_wide = frozenset(cluster_wide)
        self._values: dict[str, dict[str, _Values[T]]] = {}
        self.clear()

    def clear(self) -> None:
        self._values = {name: {} for name in self._functions}

    def get(self, index: str, key: IndexKey) -> list[T]:
        values = self._values[index].get(key.namespace)
        return [] if values is None else values.get(key.value)

    def replace(self, key: Key, old: T | None, new: T | None) -> None:
        """Index the state `new` of the object in place of `old`. None: the object does not exist."""
        for name, function in self._functions.items():
            by_namespace, namespace = self._values[name], "" if name in self._cluster_wide else key[0]
            values = by_namespace.get(namespace)
            if values is None:
                values = by_namespace[namespace] = _Values()
            if old is not None:
                for value in function(old):
                    values.remove(value, key)
            if new is not None:
                for value in function(new):
                    values.add(value, key, new)
            if values.is_empty:
                del by_namespace[namespace]


class _Values(Generic[T]):
    """The objects of one namespace by value. Most values have one object, which needs no dictionary of 200 bytes."""

    def __init__(self) -> None:
        self._one: dict[str, tuple[Key, T]] = {}
        """By value, for values that one object has."""
        self._many: dict[str, dict[Key, T]] = {}
        """By value, for values that several objects have."""

    @property
    def is_empty(self) -> bool:
        return not (self._one or self._many)

    def get(self, value: str) -> list[T]:
        if value in self._one:
            return [self._one[value][1]]
        return list(self._many.get(value, {}).values())

    def add(self, value: str, key: Key, obj: T) -> None:
        many = self._many.get(value)
        if many is not None:
            many[key] = obj
        elif value in self._one and self._one[value][0] != key:
            self._many[value] = dict([self._one.pop(value), (key, obj)])
        else:
            self._one[value] = key, obj

    def remove(self, value: str, key: Key) -> None:
        many = self._many.get(value)
        if many is not None:
            many.pop(key, None)
            if not many:
                del self._many[value]
        elif value in self._one and self._one[value][0] == key:
            del self._one[value]
