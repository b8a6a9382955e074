"""Builds merge patches. Pure."""

from collections.abc import Mapping
from typing import Any


def merge_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) from `old` to `new`; {} if they are equal.

    Lists are replaced whole. A member that is absent or None in `new` is deleted, as a merge patch cannot store a null.
    """
    patch: dict[str, Any] = {key: None for key in old if key not in new and old[key] is not None}
    for key, value in new.items():
        old_value = old.get(key)
        if isinstance(old_value, Mapping) and isinstance(value, Mapping):
            if inner := merge_diff(old_value, value):
                patch[key] = inner
        elif _differ(old_value, value):
            patch[key] = value
    return patch


def _differ(old: Any, new: Any) -> bool:
    """Whether two values differ as JSON: to Python, 0 and false are the same, at any depth."""
    if type(old) is not type(new):
        return True
    if isinstance(old, list):
        return len(old) != len(new) or any(map(_differ, old, new))
    if isinstance(old, dict):
        return old.keys() != new.keys() or any(_differ(old[key], new[key]) for key in old)
    return bool(old != new)
