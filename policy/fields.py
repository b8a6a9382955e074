"""Shared parts of the fields of policies: bounded lists and texts, and the records in a policy. Pure.

Each list has a most number of items and each text a most length, so that the work for one JobSet is bounded, whatever
the policy.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Protocol, runtime_checkable

import msgspec

from kube.model.field import FieldError, Path
from kube.model.meta import doc

MAX_ITEMS: Final = 64
MAX_PATTERN: Final = 512
"""Characters of a pattern."""
Key = Annotated[str, doc("A key.", maxLength=317)]
Name = Annotated[str, doc("A name.", maxLength=253)]
Word = Annotated[str, doc("A value.", maxLength=253)]


def list_of(text: str, **more: Any) -> msgspec.Meta:
    keys: dict[str, Any] = {"x-kubernetes-list-type": "set"}
    return doc(text, maxItems=MAX_ITEMS, **keys, **more)


def map_by(key: str, text: str) -> msgspec.Meta:
    keys: dict[str, Any] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return doc(text, maxItems=MAX_ITEMS, **keys)


def has_wildcard(text: str) -> bool:
    """Whether a text was meant as a pattern; policies compare it literally."""
    return "*" in text or "?" in text


@runtime_checkable
class CheckedRecord(Protocol):
    """A record of a policy with faults that its schema cannot find."""

    def faults(self, path: Path) -> Iterator[FieldError]:
        """The faults of the record at that path."""


def records(value: object, path: Path) -> Iterator[tuple[Path, msgspec.Struct]]:
    """Each record in a value of a policy, with its path: the value itself first."""
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from records(item, path.at(i))
    elif isinstance(value, msgspec.Struct):
        yield path, value
        for field in msgspec.structs.fields(value):
            yield from records(getattr(value, field.name), path.at(field.encode_name))
