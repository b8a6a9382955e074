"""Shared types of fields of policies, and a walk over the records of a policy. Pure.

The schema limits the number of items of each list and the length of each text, so that the work for one JobSet is
bounded, whatever the policy.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Protocol, runtime_checkable

import msgspec

from kube.model.field import FieldError, Path
from kube.model.meta import doc

MAX_ITEMS: Final = 64
MAX_PATTERN: Final = 512
"""The maximum length of a pattern."""
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
    """Whether a text looks like a pattern, although policies compare it literally."""
    return "*" in text or "?" in text


@runtime_checkable
class CheckedRecord(Protocol):
    """A record of a policy with faults that its schema cannot find."""

    def faults(self, path: Path) -> Iterator[FieldError]:
        """The faults of the record. `path`: the path of the record in the policy."""


def records(value: object, path: Path) -> Iterator[tuple[Path, msgspec.Struct]]:
    """All records in a value of a policy, each with its path. If the value is a record, it comes first."""
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from records(item, path.at(i))
    elif isinstance(value, msgspec.Struct):
        yield path, value
        for field in msgspec.structs.fields(value):
            yield from records(getattr(value, field.name), path.at(field.encode_name))
