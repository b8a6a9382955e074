"""The index of cached objects by their controlling owner."""

from typing import Protocol

from kube.indexes import IndexKey
from kube.model.meta import Identity

BY_OWNER = "owner"
"""Index of objects by the UID of their controlling owner: see `key_of_children`."""


class CachedObject(Protocol):
    """Any cached object that has metadata."""

    @property
    def metadata(self) -> Identity: ...


def controller_uid(obj: CachedObject) -> list[str]:
    """The values of an object in the index `BY_OWNER`: the UID of its controlling owner, if it has one."""
    ref = obj.metadata.controller()
    return [] if ref is None else [ref.uid]


def key_of_children(owner: CachedObject) -> IndexKey:
    """The key in `BY_OWNER` of the objects that `owner` controls, which are all in its namespace."""
    return IndexKey(owner.metadata.namespace, owner.metadata.uid)
