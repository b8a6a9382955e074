"""Validates JobSets by the CRD's structural schema, and finds all faults of an invalid JobSet. Pure.

A library recognizes, in microseconds, objects that are certainly valid. All other objects are walked (`walk.py`), and
the walk decides. No object raises an error.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any

import jsonschema_rs
import msgspec

from kube.model.field import FieldError
from kube.model.meta import JSON
from webhooks.jobset.schema.unknown import UnknownFields
from webhooks.jobset.schema.walk import BITS_BY_FORMAT, Walk, bounds, list_keys, pattern, required_members
from webhooks.jobset.schema.words import INT_OR_STRING
from webhooks.work import Work

_COPIED_KEYWORDS = ("enum", "maxItems", "maxLength", "minLength")
_KNOWN_KEYWORDS = {
    *_COPIED_KEYWORDS, INT_OR_STRING, "additionalProperties", "anyOf", "default", "description", "example", "format",
    "items",
    "maximum", "minimum", "pattern", "properties", "required", "type", "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-validations",
}  # fmt: skip
_LARGE_NODE_COUNT = 100
"""If the schema of list items has at least this many nodes, the library checks each item before a walk."""
_Check = Callable[[Any], bool]
_Definitions = dict[bytes, tuple[str, JSON]]
"""The name and the schema of each `$defs` entry, by the JSON of the schema."""
_TYPES = {"array", "boolean", "integer", "number", "object", "string"}


class Schema:
    """The CRD's `openAPIV3Schema`, compiled. Raises ValueError for an unknown keyword."""

    def __init__(self, schema: JSON) -> None:
        _require_supported(schema, "")
        members = {name: node for name, node in schema["properties"].items() if name != "status"}
        self._schema = {**schema, "properties": members}
        self._is_valid = _validity_check(self._schema)
        self._large_schemas = {id(node): node for node in _large_items(self._schema)}
        self._unknown_fields = UnknownFields(schema)

    @cached_property
    def _item_checks(self) -> dict[int, _Check]:
        """Checks of large list items, created with the first invalid object, as they take 2 MiB."""
        return {number: _validity_check(node) for number, node in self._large_schemas.items()}

    def faults(self, obj: JSON, work: Work | None = None) -> list[FieldError]:
        """The errors of the API server's schema validation, at most 500; empty for a valid object.

        Items of a list beyond its limit are not checked, nor is `status`, which the API server replaces.
        """
        if self._is_valid(obj):
            return []
        walk = Walk(self._item_checks, work)
        walk.repair(obj, self._schema)
        return walk.faults

    def unknown_fields(self, obj: JSON) -> list[FieldError]:
        """Fields that the schema does not have, as the API server's strict decoding finds them, at most 500."""
        return self._unknown_fields.find(obj)

    def with_right_names(self, obj: JSON) -> tuple[JSON, list[tuple[FieldError, str]]]:
        """The object with misspelled fields renamed, and for each of these fields a finding and its right name."""
        return self._unknown_fields.with_right_names(obj)

    def repair(self, obj: JSON, faults: Sequence[FieldError], work: Work | None = None) -> JSON:
        """The object without its invalid parts, so that other checks can read it. It shares the valid parts.

        An invalid member or item is removed, or gets the simplest value of its type if it is required. Unsupported
        values and duplicates stay. An object with more faults than are reported becomes empty, as further findings
        would not help.
        """
        if not faults:
            return obj
        return {"metadata": {}, "spec": {}, **Walk(self._item_checks, work).repair(obj, self._schema)}


def _require_supported(node: JSON, path: str) -> None:
    """Raise ValueError for a schema that the walk would misread."""
    if unknown := node.keys() - _KNOWN_KEYWORDS:
        raise ValueError(f"schema of {path or 'the object'}: no such keyword: {', '.join(sorted(unknown))}")
    kind = node.get("type", "integer" if INT_OR_STRING in node else "")
    if (
        kind not in _TYPES
        or ("anyOf" in node and INT_OR_STRING not in node)
        or (kind == "array" and "items" not in node)
    ):
        raise ValueError(f"schema of {path or 'the object'}: type {kind!r} without its items, or in alternatives")
    if kind == "integer" and node.get("format") not in BITS_BY_FORMAT:
        raise ValueError(f"schema of {path}: no such format of integers: {node['format']}")
    for name, child in _child_schemas(node):
        _require_supported(child, f"{path}.{name}".lstrip("."))


def _child_schemas(node: JSON) -> list[tuple[str, JSON]]:
    properties = list(node.get("properties", {}).items())
    return properties + [(key, node[key]) for key in ("items", "additionalProperties") if key in node]


def _large_items(node: JSON) -> Iterator[JSON]:
    """Schemas of list items that are worth a check of their own, so that a walk skips valid items."""
    for key, child in _child_schemas(node):
        if key == "items" and _node_count(child) >= _LARGE_NODE_COUNT:
            yield child
        yield from _large_items(child)


def _node_count(node: JSON) -> int:
    return 1 + sum(_node_count(child) for _, child in _child_schemas(node))


def _validity_check(node: JSON) -> _Check:
    """A fast check of values for the schema `node`. A value that passes is certainly valid."""
    definitions: _Definitions = {}
    schema = _json_schema(node, definitions)
    schema = {**schema, "$defs": dict(definitions.values())}
    is_valid = jsonschema_rs.Draft202012Validator(schema, pattern_options=jsonschema_rs.RegexOptions()).is_valid
    is_unique = _uniqueness(node) or (lambda _: True)

    def is_certainly_valid(value: Any) -> bool:
        try:
            return is_valid(value) and is_unique(value)
        except ValueError:  # nested too deeply for the library, or a text that is not Unicode
            return False

    return is_certainly_valid


def _json_schema(node: JSON, definitions: _Definitions, *, nullable: bool = False) -> JSON:
    """A JSON Schema that refuses all that the walk refuses. `nullable`: null is accepted, since it means absent.

    Schemas of objects are stored in `definitions`. Equal schemas (mostly of containers) are stored once, since a
    compiled schema stays in memory.
    """
    types = ["integer", "string"] if INT_OR_STRING in node else [node["type"]]
    null = ["null"] if nullable else []
    schema: JSON = {"type": types + null, **{key: node[key] for key in _COPIED_KEYWORDS if key in node}}
    if "enum" in node:
        schema["enum"] = [*node["enum"], *([None] if nullable else [])]
    if expression := pattern(node):
        schema["pattern"] = expression
    if "integer" in types:
        low, high = bounds(node)
        schema |= {"minimum": max(low, node.get("minimum", low)), "maximum": min(high, node.get("maximum", high))}
    if node.get("x-kubernetes-list-type") == "set":
        schema["uniqueItems"] = True
    if "items" in node:
        schema["items"] = _json_schema(node["items"], definitions)
    if "additionalProperties" in node:
        schema["additionalProperties"] = _json_schema(node["additionalProperties"], definitions, nullable=True)
    if "properties" in node:
        required = required_members(node)
        schema["required"] = required
        members = node["properties"].items()
        schema["properties"] = {
            name: _json_schema(child, definitions, nullable=name not in required) for name, child in members
        }
        name, _ = definitions.setdefault(msgspec.json.encode(schema), (str(len(definitions)), schema))
        return {"$ref": f"#/$defs/{name}"}
    return schema


def _uniqueness(node: JSON) -> _Check | None:
    """A check that the items of every list of type map differ in their keys; None if there is no such list.

    JSON Schema has no keyword for this check. It expects values that are valid otherwise, and may refuse a valid value.
    """
    if node.get("type") == "array":
        return _unique_items(node, _uniqueness(node["items"]))
    checks = {name: check for name, child in _child_schemas(node) if (check := _uniqueness(child))}
    if check_value := checks.pop("additionalProperties", None):
        return lambda value: all(check_value(member) for member in value.values() if member)
    if len(checks) == 1:
        ((name, check),) = checks.items()
        return lambda value: not (member := value.get(name)) or check(member)
    return _unique_members(checks) if checks else None


def _unique_members(checks: Mapping[str, _Check]) -> _Check:
    check_of = checks.get

    def has_valid_members(value: JSON) -> bool:
        for name in value:  # noqa: SIM110 - a generator would double the time
            if (check := check_of(name)) and (member := value[name]) and not check(member):
                return False
        return True

    return has_valid_members


def _unique_items(node: JSON, check: _Check | None) -> _Check | None:
    keys = list_keys(node)
    if not keys:
        return check and (lambda value: all(map(check, value)))
    required_keys = [key for key in keys if key in required_members(node["items"])]
    first_key = itemgetter(required_keys[0]) if required_keys else (lambda _: None)

    def has_unique_items(value: list[JSON]) -> bool:
        if len(value) > 1 and len(set(map(first_key, value))) < len(value):
            distinct_keys = {tuple(item.get(key) or default for key, default in keys.items()) for item in value}
            if len(distinct_keys) < len(value):
                return False
        return check is None or all(map(check, value))

    return has_unique_items
