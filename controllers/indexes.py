"""The index of cached objects by their controlling owner."""

from typing import Protocol

from api.meta import Identity

BY_OWNER = "owner"
"""Name of the index of objects by the UID of their controlling owner."""


class Object(Protocol):
    """Any cached object."""

    @property
    def metadata(self) -> Identity: ...


def controller_uid(obj: Object) -> list[str]:
    """A `kube.store.IndexFunction`: the keys of an object in `BY_OWNER`."""
    ref = obj.metadata.controller()
    return [] if ref is None else [ref.uid]
