"""Finds the fields of JobSets that the CRD of a cluster lacks, in the OpenAPI document of the API server. Pure."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

import msgspec
from msgspec import inspect as mi

from api.jobset import JobSet
from api.keys import KIND

_CHECKED_FIELDS = ("spec", "status")
_ITEMS = "[*]"

Fields: TypeAlias = "dict[str, Fields]"
"""Fields by name, each with the fields inside it. For a list, the only name is `_ITEMS`, with the fields of each
element."""


class _Components(msgspec.Struct, frozen=True):
    schemas: dict[str, msgspec.Raw] = {}


class _Document(msgspec.Struct, frozen=True):
    components: _Components = _Components()


def missing_fields(document: bytes) -> list[str]:
    """Paths of the fields of a JobSet that the OpenAPI document of its API group lacks."""
    schemas = msgspec.json.decode(document, type=_Document).components.schemas
    jobset_schema = next((schema for name, schema in schemas.items() if name.rpartition(".")[2] == KIND), None)
    if jobset_schema is None:
        return []
    crd_schema = msgspec.json.decode(jobset_schema, type=dict[str, Any])
    return [path for path in _missing_paths(jobset_fields(), crd_schema, "") if path.startswith(_CHECKED_FIELDS)]


@cache
def jobset_fields() -> Fields:
    """All fields of JobSets. Finding them touches much memory, so a manager does it before it forks."""
    return _fields_of(mi.type_info(JobSet))


def _fields_of(node: mi.Type) -> Fields:
    while isinstance(node, mi.Metadata):
        node = node.type
    if isinstance(node, mi.UnionType):
        return {name: inner for part in node.types for name, inner in _fields_of(part).items()}
    if isinstance(node, mi.VarTupleType):
        return {_ITEMS: _fields_of(node.item_type)}
    return (
        {field.encode_name: _fields_of(field.type) for field in node.fields} if isinstance(node, mi.StructType) else {}
    )


def _missing_paths(fields: Fields, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Paths of fields that the schema lacks, without the fields inside them."""
    if _ITEMS in fields:
        yield from _missing_paths(fields[_ITEMS], schema.get("items") or {}, f"{path}{_ITEMS}")
        return
    properties = schema.get("properties") or {}
    for name, inner in fields.items() if properties else ():
        field_path = f"{path}.{name}".lstrip(".")
        if name in properties:
            yield from _missing_paths(inner, properties[name], field_path)
        else:
            yield field_path
