"""`jobset schema`: a JSON schema of manifests for editors, made from the schema of the CRD.

It differs from the CRD's where an editor needs more: unknown fields are faults, apiVersion and kind have one value, a
field with a default may be left out. It has no rules in CEL and no status, which nobody writes. A field without a value
(null) is marked: the API server takes it, but people who write one have forgotten something.
"""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from cli.commands import Commands, add_command, as_command

EXAMPLES = """examples:
  %(prog)s > jobset.schema.json
  %(prog)s --kind JobSetPolicy > policy.schema.json

An editor with the YAML language server uses it for a file that begins with this line:
  # yaml-language-server: $schema=jobset.schema.json

It knows types, fields and what they mean. `jobset validate` knows the rules as well.

exit codes:
  0  done
  2  a wrong flag"""

_KEPT = {
    "type", "description", "default", "enum", "format", "pattern", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems",
}  # fmt: skip
"""Keywords that mean the same in a CRD and in JSON schema, and hold no schema."""

KINDS = ("JobSet", "JobSetPolicy", "JobSetPolicyException")
"""What there are schemas of."""
FILLED_IN = {"spec.failurePolicy.rules.name", "spec.successPolicy.operator"}
"""Required fields that admission fills in (docs/reference/defaulting.md)."""


def add_schema(commands: Commands) -> None:
    """Register `schema`."""
    parser = add_command(
        commands,
        "schema",
        "print a JSON schema of manifests for editors",
        EXAMPLES,
        "Print a JSON schema of manifests, draft 7, with a description of each field.",
    )
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0], help=f"default: {KINDS[0]}")
    parser.set_defaults(handler=as_command(_print))


def _print(parsed: argparse.Namespace) -> int:
    from cli.output import dump  # noqa: PLC0415 (imports that others need not pay)
    from manifests.definition import crd, exception_crd, policy_crd  # noqa: PLC0415 (the same)

    made = dict(zip(KINDS, (crd, policy_crd, exception_crd), strict=True))
    sys.stdout.write(dump(editor_schema(made[parsed.kind]()), "json"))
    return 0


def editor_schema(crd: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of what people write, from the definition of the resource."""
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
    made = {name: value for name, value in schema.items() if name in _KEPT}
    if "anyOf" in schema:
        made["anyOf"] = [_editor_schema(choice) for choice in schema["anyOf"]]
    if "items" in schema:
        made["items"] = _editor_schema(schema["items"], path)
    if isinstance(schema.get("additionalProperties"), Mapping):
        made["additionalProperties"] = _editor_schema(schema["additionalProperties"])
    if "properties" in schema:
        fields = schema["properties"]
        paths = {name: f"{path}.{name}".removeprefix(".") for name in fields}
        made["properties"] = {name: _editor_schema(field, paths[name]) for name, field in fields.items()}
        made["additionalProperties"] = False
        made["required"] = [
            name
            for name in schema.get("required", ())
            if "default" not in fields[name] and paths[name] not in FILLED_IN
        ]
    return made
