"""The structural schemas (apiextensions.k8s.io/v1) of the Kubernetes types inside a JobSet.

Their only source is the OpenAPI v3 document of the pinned API server. openapi/kubernetes.json has the needed
definitions of this document, trimmed. A structural schema allows neither references nor most of OpenAPI's annotations.
It also sets defaults and prunes fields, so an annotation of the document must not become behaviour of the CRD.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from kube.model.quantity import PATTERN

Schema = dict[str, Any]

DEFINITIONS_FILE = Path(__file__).parent / "openapi" / "kubernetes.json"
ROOT_TYPES = {
    "JobTemplateSpec": "io.k8s.api.batch.v1.JobTemplateSpec",
    "PersistentVolumeClaim": "io.k8s.api.core.v1.PersistentVolumeClaim",
}

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
INT_OR_STRING: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_STRINGS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_FIXED_SCHEMAS: dict[str, Schema] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": INT_OR_STRING,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {**INT_OR_STRING, "pattern": PATTERN},
    # The metadata of a template that has an effect (docs/reference/api.md#templates). The API server sets the rest.
    _META: {
        "type": "object",
        "properties": {
            "annotations": _STRINGS,
            "finalizers": {"type": "array", "items": {"type": "string"}},
            "labels": _STRINGS,
            "name": {"type": "string"},
            "namespace": {"type": "string"},
        },
    },
}

_KEPT_KEYWORDS = {
    "$ref",
    "additionalProperties",
    "allOf",
    "default",
    "format",
    "items",
    "properties",
    "required",
    "type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
}
"""Keywords that stay. `description` is left out, since it is 85% of the bytes and `kubectl explain job` has it. `enum`
is left out, since the document lists the values of one release, and values of newer releases have to reach the Job."""

_SERVER_DEFAULTS = {
    ("AzureDiskVolumeSource", "cachingMode"),
    ("AzureDiskVolumeSource", "kind"),
    ("PodFailurePolicyOnPodConditionsPattern", "status"),
}
"""Properties whose defaults a JobSet does not store, since the API server sets them on the Job
(docs/reference/api.md)."""


def _references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(ref := node.get("$ref"), str):
            yield ref.rsplit("/", 1)[-1]
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _references(child)


def trim(definitions: dict[str, Schema]) -> dict[str, Schema]:
    """The definitions that the roots need, reduced to the kept keywords, by name."""
    needed: dict[str, Schema] = {}
    pending = list(ROOT_TYPES.values())
    while pending:
        name = pending.pop()
        if name in needed or name in _FIXED_SCHEMAS:
            continue
        needed[name] = _trim_schema(name.rsplit(".", 1)[-1], definitions[name])
        pending.extend(_references(needed[name]))
    return dict(sorted(needed.items()))


def _trim_schema(owner: str, schema: Schema) -> Schema:
    result = {k: v for k, v in schema.items() if k in _KEPT_KEYWORDS}
    required = result.get("required", [])
    if "properties" in result:
        result["properties"] = {
            name: _trim_property(owner, name, child, required=name in required)
            for name, child in result["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = _trim_schema(owner, result[key])
    return result


def _trim_property(owner: str, name: str, schema: Schema, *, required: bool) -> Schema:
    """A trimmed property, without a `default` that is Go's zero value.

    In a CRD such a default would take effect: a missing required field would be accepted, an absent object created.
    """
    result = _trim_schema(owner, schema)
    if required or result.get("default") == {} or (owner, name) in _SERVER_DEFAULTS:
        result.pop("default", None)
    return result


def _inline_references(definitions: dict[str, Schema], schema: Schema) -> Schema:
    """The schema with every reference replaced by its target."""
    if targets := list(_references({k: schema[k] for k in ("$ref", "allOf") if k in schema})):
        (target,) = targets
        base = _FIXED_SCHEMAS.get(target) or _inline_references(definitions, definitions[target])
        return base | {k: v for k, v in schema.items() if k not in {"$ref", "allOf"}}
    inlined = dict(schema)
    if "properties" in inlined:
        inlined["properties"] = {k: _inline_references(definitions, v) for k, v in inlined["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(inlined.get(key), dict):
            inlined[key] = _inline_references(definitions, inlined[key])
    return inlined


def embedded_schema(root: str, definitions: dict[str, Schema] | None = None) -> Schema:
    """The complete structural schema of `JobTemplateSpec` or `PersistentVolumeClaim`, without descriptions.

    `definitions`: trimmed definitions of an API server, by default of the pinned API server.
    """
    definitions = definitions or cast("dict[str, Schema]", json.loads(DEFINITIONS_FILE.read_text())["definitions"])
    return _inline_references(definitions, definitions[ROOT_TYPES[root]])
