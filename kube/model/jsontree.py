"""Reads and changes raw JSON of any shape, without errors. A changed tree shares unchanged parts with the original."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from kube.model.meta import JSON

_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


def rephrase_for_json(complaint: object) -> str:
    """The message of msgspec about a value of a wrong type, with JSON's names of types."""
    return re.sub("`([a-z]+)`", lambda name: f"`{_TYPES.get(name[1], name[1])}`", str(complaint))


def dig(value: Any, *keys: str | int) -> Any:
    """The value at `keys`; None if it is absent or null, or a parent has another type."""
    for key in keys:
        if isinstance(value, dict):
            value = value.get(key)  # members of JSON have texts as keys, so there is none at an index
        elif isinstance(key, int) and isinstance(value, list) and 0 <= key < len(value):
            value = value[key]
        else:
            return None
    return value


def items(value: Any, *keys: str | int) -> list[Any]:
    """The list at `keys`; empty if it is absent, null, or of another type."""
    member = dig(value, *keys)
    return member if isinstance(member, list) else []


def set_in(tree: JSON, keys: Sequence[str | int], value: Any) -> JSON:
    """A copy of `tree` with `value` at `keys` and missing parents; only the parents of the value are copied."""
    changed: JSON = _set(tree, keys, value)
    return changed


def _set(node: Any, keys: Sequence[str | int], value: Any) -> Any:
    if not keys:
        return value
    head, *tail = keys
    if isinstance(node, list) and isinstance(head, int):
        return [_set(item, tail, value) if i == head else item for i, item in enumerate(node)]
    return {**(node if isinstance(node, dict) else {}), head: _set(dig(node, head), tail, value)}


def json_bytes(value: Any) -> bytes | None:
    """The value as JSON; None if it cannot be encoded, for example because of lone surrogates.

    Looking for `null` in the result takes a tenth of the time of a walk in Python.
    """
    try:
        return msgspec.json.encode(value)
    except ValueError:
        return None


def without_nulls(value: Any) -> Any:
    """The tree without members that are null: null means absent. Items of lists that are null stay."""
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
