"""Makes a JSON schema of manifests for editors from the schema of a CRD. Pure.

The schema for editors differs from the schema of the CRD. Unknown fields are faults, apiVersion and kind have one
value, and a field with a default may be left out. It has no CEL rules, and no status, which users do not write. A field
with the value null is a fault, since it is most likely a mistake, though the API server accepts it.
"""

from collections.abc import Mapping
from typing import Any

_KEPT_KEYWORDS = {
    "type", "description", "default", "enum", "format", "pattern", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems",
}  # fmt: skip
"""Keywords that mean the same in a CRD and in JSON schema, and contain no schema."""

FILLED_IN = {"spec.failurePolicy.rules.name", "spec.successPolicy.operator"}
"""Required fields that admission fills in (docs/reference/defaulting.md)."""


def editor_schema(crd: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a manifest, from the CustomResourceDefinition of its kind."""
    version, kind = crd["spec"]["versions"][0], crd["spec"]["names"]["kind"]
    root = _convert_schema(version["schema"]["openAPIV3Schema"])
    fields = {name: field for name, field in root["properties"].items() if name != "status"}
    fields["apiVersion"] |= {"enum": [f"{crd['spec']['group']}/{version['name']}"]}
    fields["kind"] |= {"enum": [kind]}
    fields["metadata"] |= {"type": "object"}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": kind,
        **root,
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": fields,
    }


def _convert_schema(schema: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    converted = {name: value for name, value in schema.items() if name in _KEPT_KEYWORDS}
    if "anyOf" in schema:
        converted["anyOf"] = [_convert_schema(choice) for choice in schema["anyOf"]]
    if "items" in schema:
        converted["items"] = _convert_schema(schema["items"], path)
    if isinstance(schema.get("additionalProperties"), Mapping):
        converted["additionalProperties"] = _convert_schema(schema["additionalProperties"])
    if "properties" in schema:
        fields = schema["properties"]
        paths = {name: f"{path}.{name}".removeprefix(".") for name in fields}
        converted["properties"] = {name: _convert_schema(field, paths[name]) for name, field in fields.items()}
        converted["additionalProperties"] = False
        converted["required"] = [
            name
            for name in schema.get("required", ())
            if "default" not in fields[name] and paths[name] not in FILLED_IN
        ]
    return converted
