"""Which fields of JobSets the CRD of a cluster has, by the OpenAPI document that the API server serves. Pure."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

import msgspec
from msgspec import inspect as mi

from api.jobset import JobSet
from api.keys import KIND

_CHECKED = ("spec", "status")
_EACH = "[*]"

Fields: TypeAlias = "dict[str, Fields]"
"""Fields by name, each with those in it; `_EACH` instead of a name: those of each element of a list."""


class _Components(msgspec.Struct, frozen=True):
    schemas: dict[str, msgspec.Raw] = {}


class _Document(msgspec.Struct, frozen=True):
    components: _Components = _Components()


def lacking(document: bytes) -> list[str]:
    """Fields of a JobSet that the OpenAPI document of its API group lacks."""
    schemas = msgspec.json.decode(document, type=_Document).components.schemas
    found = next((schema for name, schema in schemas.items() if name.rpartition(".")[2] == KIND), None)
    if found is None:
        return []
    known = msgspec.json.decode(found, type=dict[str, Any])
    return [path for path in _missing(jobset_fields(), known, "") if path.startswith(_CHECKED)]


@cache
def jobset_fields() -> Fields:
    """All fields of JobSets. Finding them touches much memory: a manager does it before it forks."""
    return _fields(mi.type_info(JobSet))


def _fields(node: mi.Type) -> Fields:
    while isinstance(node, mi.Metadata):
        node = node.type
    if isinstance(node, mi.UnionType):
        return {name: inner for part in node.types for name, inner in _fields(part).items()}
    if isinstance(node, mi.VarTupleType):
        return {_EACH: _fields(node.item_type)}
    return {field.encode_name: _fields(field.type) for field in node.fields} if isinstance(node, mi.StructType) else {}


def _missing(fields: Fields, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Paths of fields that the schema lacks, without the fields inside them."""
    if _EACH in fields:
        yield from _missing(fields[_EACH], schema.get("items") or {}, f"{path}{_EACH}")
        return
    properties = schema.get("properties") or {}
    for name, inner in fields.items() if properties else ():
        field_path = f"{path}.{name}".lstrip(".")
        if name in properties:
            yield from _missing(inner, properties[name], field_path)
        else:
            yield field_path
