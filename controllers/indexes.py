"""The index of cached objects by their controlling owner."""

from typing import Protocol

from kube.indexes import IndexKey
from kube.model.meta import Identity

BY_OWNER = "owner"
"""Index of objects by the UID of their controlling owner: see `key_of_children`."""


class Object(Protocol):
    """Any cached object."""

    @property
    def metadata(self) -> Identity: ...


def controller_uid(obj: Object) -> list[str]:
    """A `kube.store.IndexFunction`: the values of an object in `BY_OWNER`."""
    ref = obj.metadata.controller()
    return [] if ref is None else [ref.uid]


def key_of_children(owner: Object) -> IndexKey:
    """The key in `BY_OWNER` of the objects that an object controls. Owners have no children in other namespaces."""
    return IndexKey(owner.metadata.namespace, owner.metadata.uid)
