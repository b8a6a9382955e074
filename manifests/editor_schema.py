"""A JSON schema of manifests for editors, made from the schema of a CRD. Pure.

It differs from the CRD's where an editor needs more: unknown fields are faults, apiVersion and kind have one value, a
field with a default may be left out. It has no CEL rules, and no status, which users do not write. A field without a
value (null) is a fault: the API server accepts it, but it is most likely a mistake.
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
    """The schema of a manifest, from the definition of the resource."""
    version, kind = crd["spec"]["versions"][0], crd["spec"]["names"]["kind"]
    root = _editor_schema(version["schema"]["openAPIV3Schema"])
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


def _editor_schema(schema: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    kept = {name: value for name, value in schema.items() if name in _KEPT_KEYWORDS}
    if "anyOf" in schema:
        kept["anyOf"] = [_editor_schema(choice) for choice in schema["anyOf"]]
    if "items" in schema:
        kept["items"] = _editor_schema(schema["items"], path)
    if isinstance(schema.get("additionalProperties"), Mapping):
        kept["additionalProperties"] = _editor_schema(schema["additionalProperties"])
    if "properties" in schema:
        fields = schema["properties"]
        paths = {name: f"{path}.{name}".removeprefix(".") for name in fields}
        kept["properties"] = {name: _editor_schema(field, paths[name]) for name, field in fields.items()}
        kept["additionalProperties"] = False
        kept["required"] = [
            name
            for name in schema.get("required", ())
            if "default" not in fields[name] and paths[name] not in FILLED_IN
        ]
    return kept
