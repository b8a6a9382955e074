"""Shared types of fields of policies, durations, and a walk over the records of a policy. Pure.

The schema limits the number of items of each list and the length of each text, so that the work for one JobSet is
bounded, whatever the policy.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Protocol, runtime_checkable

import msgspec

from api.policies import SET
from kube.model.field import FieldError, Path
from kube.model.meta import doc

MAX_ITEMS: Final = 64
MAX_PATTERN: Final = 512
"""The maximum length of a pattern."""
Key = Annotated[str, doc("A key.", maxLength=317)]
Name = Annotated[str, doc("A name.", maxLength=253)]
Word = Annotated[str, doc("A value.", maxLength=253)]


def list_of(text: str, **more: Any) -> msgspec.Meta:
    """The schema of a list of distinct items. `text`: its description. `more`: further keywords."""
    return doc(text, **{"maxItems": MAX_ITEMS, **SET, **more})


def map_by(key: str, text: str) -> msgspec.Meta:
    """The schema of a list whose items differ in the field `key`. `text`: its description."""
    keys: dict[str, Any] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return doc(text, maxItems=MAX_ITEMS, **keys)


DURATION: Final = "^[1-9][0-9]{0,5}[smhd]$"
"""The pattern of a duration such as `7d`: a number with s, m, h or d."""
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(text: str) -> int:
    """The seconds of a duration such as `12h`; 0 for a text that is not a duration."""
    number, unit = text[:-1], text[-1:]
    return int(number) * _SECONDS[unit] if unit in _SECONDS and number.isdecimal() else 0


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
