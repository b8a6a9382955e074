"""Walks over an object along a CRD's structural schema, and finds and repairs values that the API server would refuse.

The walk decides like the API server after it has pruned unknown fields and set the schema's defaults: a null member is
absent, and an absent member with a default is present. CEL rules are not checked.
"""

import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import re2

from kube.model.field import FieldError, Parts, Path
from kube.model.meta import JSON
from webhooks.jobset.schema import words
from webhooks.work import Work

MAX_FAULTS = 500
"""The most faults of one object that are reported, which also limits the work for the object."""
BITS_BY_FORMAT: Final = {None: 64, "int32": 32, "int64": 64}
"""The bits of an integer by the format in its schema."""
DATE_TIME: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})$"
)
_REMOVED: Final[Any] = object()
_NO_KEY: Final = [None]
# Go's patterns are RE2 patterns. In Python's own patterns `$` also matches before a line feed at the end.
_compiled = cache(re2.compile)


def bounds(node: JSON) -> tuple[int, int]:
    """The smallest and the largest integer of the node's format."""
    limit = 1 << BITS_BY_FORMAT[node.get("format")] - 1
    return -limit, limit - 1


def pattern(node: JSON) -> str:
    """The regular expression for the node's texts; empty if every text is valid."""
    return DATE_TIME if node.get("format") == "date-time" else node.get("pattern", "")


def required_members(node: JSON) -> list[str]:
    """The members that an object must have: required members without a default in the schema."""
    return [name for name in node.get("required", ()) if "default" not in node["properties"].get(name, {})]


def list_keys(node: JSON) -> dict[str, Any]:
    """The members that distinguish the items of a list, with their defaults (None: no default)."""
    members = node.get("items", {}).get("properties", {})
    return {key: members.get(key, {}).get("default") for key in node.get("x-kubernetes-list-map-keys", ())}


def simplest_value(node: JSON) -> Any:
    """The simplest valid value of a node."""
    match node.get("type", "integer"):
        case "object":
            return {name: simplest_value(node["properties"][name]) for name in required_members(node)}
        case "array":
            return []
        case "string":
            return node.get("enum", [""])[0]
        case "boolean":
            return False
        case _:
            return max(0, node.get("minimum", 0))


_STEPS_PER_VALUE = 40
"""Steps of work for visiting one value."""


class _MaxFaultsError(Exception):
    """Raised to end the walk once MAX_FAULTS faults are known."""


class Walk:
    """A walk over one object, and the faults that it has found. It ends after MAX_FAULTS faults."""

    def __init__(self, fast_checks: Mapping[int, Callable[[Any], bool]], work: Work | None = None) -> None:
        """`fast_checks`: checks of some nodes, by the id of the node. Values that pass them are not walked."""
        self.faults: list[FieldError] = []
        self._fast_checks = fast_checks
        self._work = work or Work()

    def repair(self, value: Any, node: JSON) -> Any:
        """The value with invalid parts removed or set to their simplest value; the same object if it is valid.

        Unsupported values and duplicates stay. Items beyond the limit are removed without a check. If nothing can be
        kept, the result is the simplest value of the node. A whole number that was written as 2.0 becomes 2.
        """
        try:
            repaired = self._visit(value, node, ())
        except _MaxFaultsError:
            return simplest_value(node)
        return simplest_value(node) if repaired is _REMOVED else repaired

    def _report(self, make_fault: Callable[..., FieldError], path: Parts, *arguments: Any, **words: Any) -> None:
        if len(self.faults) == MAX_FAULTS:
            raise _MaxFaultsError
        self.faults.append(make_fault(Path(path), *arguments, **words))

    def _visit(self, value: Any, node: JSON, path: Parts) -> Any:
        self._work.spend(_STEPS_PER_VALUE)
        if (is_valid := self._fast_checks.get(id(node))) and is_valid(value):
            return value
        kind = words.type_name(value)
        if words.INT_OR_STRING in node:
            fits = kind in {"integer", "string"}
        else:
            fits = kind == node["type"] or (kind == "integer" and node["type"] == "number")
        if not fits:
            self._report(words.wrong_type_fault, path, value, node)
            return _REMOVED
        visit = _VISIT_BY_TYPE.get(kind)
        return visit(self, value, node, path) if visit else value

    def _visit_object(self, value: JSON, node: JSON, path: Parts) -> JSON:
        properties, other_members = node.get("properties", {}), node.get("additionalProperties")
        changed_members: JSON = {}
        for name, member in value.items():
            child = properties.get(name, other_members)
            if child and member is not None:
                repaired = self._visit(member, child, (*path, name))
                if repaired is not member:
                    changed_members[name] = repaired
        for name in required_members(node):
            if value.get(name) is None:
                self._report(words.missing_member_fault, (*path, name), properties[name])
                changed_members[name] = _REMOVED
            if changed_members.get(name) is _REMOVED:
                changed_members[name] = simplest_value(properties[name])
        if not changed_members:
            return value
        return {name: member for name, member in {**value, **changed_members}.items() if member is not _REMOVED}

    def _visit_array(self, array: list[Any], node: JSON, path: Parts) -> list[Any]:
        limit, allowed_items = node.get("maxItems"), array
        if limit is not None and len(array) > limit:
            self._report(words.MAX_ITEMS.at, path, len(array), limit=limit, surplus=len(array) - limit)
            allowed_items = array[:limit]
        item_node = node["items"]
        report_duplicate = self._duplicate_reporter(node, path)
        repaired = []
        for i, item in enumerate(allowed_items):
            report_duplicate(i, item)
            repaired.append(self._visit(item, item_node, (*path, i)))
        if len(repaired) == len(array) and all(map(operator.is_, repaired, array)):
            return array
        return [simplest_value(item_node) if item is _REMOVED else item for item in repaired]

    def _duplicate_reporter(self, node: JSON, path: Parts) -> Callable[[int, Any], None]:
        """A function that gets the items of one list with their indexes, and reports duplicates."""
        kind = node.get("x-kubernetes-list-type")
        if kind not in {"map", "set"}:
            return lambda _i, _item: None
        keys = list_keys(node)
        first_indexes: dict[Any, int] = {}

        def report_duplicate(i: int, item: Any) -> None:
            item_key = [item] if kind == "set" else _key_values(item, keys)
            try:
                # True, 1 and 1.0 are equal in Python but not for the API server.
                first = first_indexes.setdefault((*item_key, *map(type, item_key)), i)
            except TypeError:  # a list or an object
                return
            if first == i or None in item_key:
                return
            if kind == "set":
                self._report(words.DUPLICATE_ITEM.at, (*path, i), item, first=first)
            else:
                key, *_ = keys
                item_path = (*path, i) if item.get(key) is None else (*path, i, key)
                self._report(words.duplicate_fault, item_path, first, dict(zip(keys, item_key, strict=True)))

        return report_duplicate

    def _visit_string(self, value: str, node: JSON, path: Parts) -> Any:
        if "enum" in node:
            if value not in node["enum"]:
                self._report(words.enum_fault, path, value, node["enum"])
            return value
        if len(value) > node.get("maxLength", len(value)):
            self._report(words.too_long_fault, path, node)
        elif len(value) < node.get("minLength", 0):
            self._report(words.too_short_fault, path, value, node)
        elif (expression := pattern(node)) and not _compiled(expression).search(value.encode(errors="replace")):
            self._report(words.wrong_text_fault, path, value, node)
        else:
            return value
        return _REMOVED

    def _visit_integer(self, value: float, node: JSON, path: Parts) -> Any:
        low, high = bounds(node)
        if not low <= value <= high:
            limits = {"low": max(low, node.get("minimum", low)), "high": min(high, node.get("maximum", high))}
            self._report(words.RANGE.at, path, value, format=node.get("format", "int64"), **limits)
        elif value < node.get("minimum", low):
            self._report(words.MINIMUM.at, path, value, minimum=node["minimum"])
        elif value > node.get("maximum", high):
            self._report(words.MAXIMUM.at, path, value, maximum=node["maximum"])
        else:
            return int(value)
        return _REMOVED


_VISIT_BY_TYPE: Final[Mapping[str, Callable[[Walk, Any, JSON, Parts], Any]]] = {
    "object": Walk._visit_object,  # noqa: SLF001 - the class's own table
    "array": Walk._visit_array,  # noqa: SLF001
    "string": Walk._visit_string,  # noqa: SLF001
    "integer": Walk._visit_integer,  # noqa: SLF001
}


def _key_values(item: Any, keys: Mapping[str, Any]) -> list[Any]:
    """The values of an item's keys, or their defaults; None for an absent value without a default."""
    if not isinstance(item, dict):
        return _NO_KEY
    return [default if (value := item.get(key)) is None else value for key, default in keys.items()]
