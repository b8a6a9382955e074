"""Merge patches and strategic merge patches, as far as clients here send them. Pure: arguments are not changed."""

from typing import Any

from kube.model.meta import JSON

KEYS = {"conditions": "type", "containers": "name", "initContainers": "name", "schedulingGates": "name"}
"""Lists that a strategic merge patch merges, and the field that tells items apart (core/v1 Pod). Other lists are
replaced."""
DELETE_FROM = "$deleteFromPrimitiveList/"
"""With the name of a list after it: the values to take out of that."""


def merge(old: Any, patch: Any) -> Any:
    """The object after a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        else:
            new[name] = merge(new.get(name), value)
    return new


def strategic(old: Any, patch: Any) -> Any:
    """A strategic merge patch with `$patch: replace` and, in lists, `$patch: delete` or `$deleteFromPrimitiveList`.

    Raises ValueError for others.
    """
    if not isinstance(patch, dict):
        return patch
    if "$patch" in patch:
        _allow(patch, "replace")
        return _plain(patch)
    new = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        elif name.startswith(DELETE_FROM):
            key = name.removeprefix(DELETE_FROM)
            new[key] = [item for item in new.get(key) or [] if item not in value]
        elif name in KEYS and isinstance(value, list):
            new[name] = _merge_lists(new.get(name) or [], value, KEYS[name])
        else:
            new[name] = strategic(new.get(name), value)
    return new


def _merge_lists(old: list[JSON], patch: list[JSON], key: str) -> list[JSON]:
    """A merged list: items in the order of the old one, then new items."""
    if any(set(item) == {"$patch"} for item in patch):
        for item in patch:
            _allow(item, "replace")
        return [item for item in patch if "$patch" not in item]
    found = {item[key]: item for item in old}
    for item in patch:
        if "$patch" in item:
            _allow(item, "delete")
            found.pop(item[key], None)
        else:
            found[item[key]] = strategic(found.get(item[key]), item)
    return list(found.values())


def _allow(part: JSON, directive: str) -> None:
    if part.get("$patch", directive) != directive:
        raise ValueError(f"$patch: {part['$patch']} is not simulated here")


def _plain(part: JSON) -> JSON:
    return {name: value for name, value in part.items() if name != "$patch"}
