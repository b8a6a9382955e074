"""Says at the start which fields of JobSets the cluster's CRD lacks: it is older than this program then.

The API server drops such fields, or refuses manifests that have them. The fields are read from the OpenAPI document,
which everybody may read who is logged in: the manager has no right to get CRDs.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect as mi

from api.jobset import JobSet
from api.keys import API_VERSION, KIND
from kube.client import Client
from kube.errors import KubeError
from manifests.naming import APPLY_CRD

log = logging.getLogger(__name__)

DOCUMENT = f"/openapi/v3/apis/{API_VERSION}"

LOOK_AGAIN = 10.0
"""Seconds in which a CRD that has just been applied reaches the document."""

_CHECKED = ("spec", "status")


class _Components(msgspec.Struct, frozen=True):
    schemas: dict[str, msgspec.Raw] = {}


class _Document(msgspec.Struct, frozen=True):
    components: _Components = _Components()


async def warn_of_old_crd(client: Client) -> None:
    """Log once what the CRD lacks. A document that cannot be read is taken for a good one."""
    if await _lacking(client):
        await asyncio.sleep(LOOK_AGAIN)
    if fields := await _lacking(client):
        log.warning(
            "the CRD of JobSets is older than this manager and lacks %s: the API server refuses or drops these fields."
            " Apply it again: %s",
            ", ".join(fields),
            APPLY_CRD,
        )


async def _lacking(client: Client) -> list[str]:
    try:
        return lacking(await client.raw(DOCUMENT))
    except (KubeError, msgspec.MsgspecError) as error:
        log.debug("which fields the CRD of JobSets has is not known: %s", error)
        return []


def lacking(document: bytes) -> list[str]:
    """Fields of a JobSet that the OpenAPI document of its API group does not have."""
    schemas = msgspec.json.decode(document, type=_Document).components.schemas
    found = next((schema for name, schema in schemas.items() if name.rpartition(".")[2] == KIND), None)
    if found is None:
        return []
    known = msgspec.json.decode(found, type=dict[str, Any])
    return [path for path in _missing(mi.type_info(JobSet), known, "") if path.startswith(_CHECKED)]


def _missing(node: mi.Type, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Paths of fields that the schema does not know; of one that is missing, not its parts."""
    while isinstance(node, mi.Metadata):
        node = node.type
    if isinstance(node, mi.UnionType):
        for part in node.types:
            yield from _missing(part, schema, path)
    elif isinstance(node, mi.VarTupleType):
        yield from _missing(node.item_type, schema.get("items") or {}, f"{path}[*]")
    elif isinstance(node, mi.StructType):
        properties = schema.get("properties") or {}
        for field in node.fields if properties else ():
            place = f"{path}.{field.encode_name}".lstrip(".")
            if field.encode_name in properties:
                yield from _missing(field.type, properties[field.encode_name], place)
            else:
                yield place
