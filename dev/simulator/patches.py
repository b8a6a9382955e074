"""Apply merge patches and strategic merge patches, as far as the clients in this repository send them.

The functions change no argument.
"""

from typing import Any

from kube.model.meta import JSON

MERGE_KEYS = {"conditions": "type", "containers": "name", "initContainers": "name", "schedulingGates": "name"}
"""The lists of core/v1 Pod that a strategic merge patch merges, and the field that identifies an item. Other lists are
replaced."""
DELETE_FROM = "$deleteFromPrimitiveList/"
"""Prefix of a key in a patch. The rest of the key is the name of a list. The value has the items to remove from it."""


def merge(old: Any, patch: Any) -> Any:
    """Return the object after a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        else:
            new[name] = merge(new.get(name), value)
    return new


def merge_strategically(old: Any, patch: Any) -> Any:
    """Return the object after a strategic merge patch.

    Knows `$patch: replace` and, for lists, `$patch: delete` and `$deleteFromPrimitiveList`. Raises ValueError for
    other directives.
    """
    if not isinstance(patch, dict):
        return patch
    if "$patch" in patch:
        _require_directive(patch, "replace")
        return _without_directive(patch)
    new = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        elif name.startswith(DELETE_FROM):
            key = name.removeprefix(DELETE_FROM)
            new[key] = [item for item in new.get(key) or [] if item not in value]
        elif name in MERGE_KEYS and isinstance(value, list):
            new[name] = _merge_lists(new.get(name) or [], value, MERGE_KEYS[name])
        else:
            new[name] = merge_strategically(new.get(name), value)
    return new


def _merge_lists(old: list[JSON], patch: list[JSON], key: str) -> list[JSON]:
    """Return the merged list, with items in the order of the old list, then new items."""
    if any(set(item) == {"$patch"} for item in patch):
        for item in patch:
            _require_directive(item, "replace")
        return [item for item in patch if "$patch" not in item]
    merged = {item[key]: item for item in old}
    for item in patch:
        if "$patch" in item:
            _require_directive(item, "delete")
            merged.pop(item[key], None)
        else:
            merged[item[key]] = merge_strategically(merged.get(item[key]), item)
    return list(merged.values())


def _require_directive(part: JSON, directive: str) -> None:
    if part.get("$patch", directive) != directive:
        raise ValueError(f"$patch: {part['$patch']} is not simulated here")


def _without_directive(part: JSON) -> JSON:
    return {name: value for name, value in part.items() if name != "$patch"}
