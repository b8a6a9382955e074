"""Make docs/reference/fields.md, with every field of a JobSet, from the CRD and the examples."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from api import keys
from api.features import GATES
from dev.hack.generated import beginning, escape_cell
from kube.model.meta import SINCE_GO
from manifests.definition import ABSENT_IN_GO, jobset_schema

_ROOT = Path(__file__).parents[2]
TEMPLATES = {
    "spec.replicatedJobs[].template": "batch/v1 JobTemplateSpec",
    "spec.volumeClaimPolicies[].templates": "list of PersistentVolumeClaim",
}
"""Fields that contain objects of the Kubernetes API."""
SINCE_GO_0_13 = {"spec.scheduling", "spec.activeDeadlineSeconds", "status.startTime", "status.executionAttempts"}
"""Fields that the Go JobSet has only since version 0.13."""
_GATE = re.compile(r"\b(" + "|".join(GATES) + r")\b")
_BY_WEBHOOK = re.compile(r"\bDefault [^.]*\(webhook\)")
_LONGEST_VALUE = 60
_HEAD = "| Field | Type | Meaning |\n|---|---|---|"


def page() -> str:
    root = jobset_schema()
    values = _example_values()
    parts = [beginning("reference/fields.md")]
    for name in ("spec", "status"):
        for path, schema, inherited in _objects_with_marks(name, root["properties"][name], Marks()):
            parts.append(f"\n## {path}\n\n{_HEAD}")
            for field, inner in schema["properties"].items():
                field_path = f"{path}.{field}"
                required = field in schema.get("required", ())
                parts.append(
                    _row(
                        field_path,
                        inner,
                        marks(field_path, inner, inherited),
                        values.get(field_path),
                        required=required,
                    )
                )
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class Marks:
    """The Go JobSet's first version with a field, and the gates that the field needs.

    `since` is `**+**` if no version has the field, and empty if all versions have it.
    """

    since: str = ""
    gates: tuple[str, ...] = ()


def marks(path: str, schema: Mapping[str, Any], inherited: Marks) -> Marks:
    """Return the marks of a field. `inherited` are those of the object that it is in."""
    text = schema.get("description", "")
    own_since = "0.13" if path in SINCE_GO_0_13 else "**+**" if schema.get(SINCE_GO) is False else ""
    return Marks(inherited.since or own_since, tuple(dict.fromkeys((*inherited.gates, *_GATE.findall(text)))))


def _objects_with_marks(
    path: str, schema: Mapping[str, Any], inherited: Marks
) -> Iterator[tuple[str, Mapping[str, Any], Marks]]:
    """Yield the path, the schema and the marks of an object and of all objects inside it."""
    if not schema.get("properties"):
        return
    yield path, schema, inherited
    for name, field in schema["properties"].items():
        inner, field_path = field, f"{path}.{name}"
        if field_path in TEMPLATES:
            continue
        field_marks = marks(field_path, field, inherited)
        while inner.get("type") == "array":
            inner, field_path = inner["items"], f"{field_path}[]"
        yield from _objects_with_marks(field_path, inner, field_marks)


def _row(
    path: str, schema: Mapping[str, Any], field_marks: Marks, example: tuple[str, str] | None, *, required: bool
) -> str:
    text = " ".join(schema.get("description", "").split()).removesuffix(f" {ABSENT_IN_GO}")
    kind = _type_text(path, schema)
    if "default" in schema:
        kind += f", default `{json.dumps(schema['default'])}`"
    elif required:
        kind += ", the webhook's default" if _BY_WEBHOOK.search(text) else ", required"
    if inherited := [gate for gate in field_marks.gates if gate not in text]:
        text += f" Gate: {', '.join(inherited)}."
    if example:
        text += f" Example: [`{example[0]}`](../../{example[1]})."
    name = f"`{path.rpartition('.')[2]}`"
    return f"| {' | '.join(escape_cell(cell) for cell in (f'{name} {field_marks.since}'.rstrip(), kind, text))} |"


def _type_text(path: str, schema: Mapping[str, Any]) -> str:
    if path in TEMPLATES:
        return TEMPLATES[path]
    if schema.get("type") == "array":
        return f"list of {_type_text(path + '[]', schema['items'])}"
    if schema.get("enum"):
        return "one of " + ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = str(schema.get("type", "object"))
    return str(schema.get("format", kind)) if kind == "integer" else kind


def _example_values() -> dict[str, tuple[str, str]]:
    """Return the first short value of each field in examples/, and its file, by the path of the field."""
    examples: dict[str, tuple[str, str]] = {}
    for file in sorted((_ROOT / "examples").rglob("*.yaml")):
        if file.name == "mistakes.yaml":
            continue
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if isinstance(document, dict) and document.get("kind") == keys.KIND:
                for path, value in _values_by_path("spec", document["spec"]):
                    text = json.dumps(value)
                    if len(text) <= _LONGEST_VALUE:
                        examples.setdefault(path, (text, str(file.relative_to(_ROOT))))
    return examples


def _values_by_path(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a value and all values inside it, each with the path of its field. Items of lists have no entry."""
    if path in TEMPLATES:
        return
    yield path, value
    match value:
        case dict():
            for name, inner in value.items():
                yield from _values_by_path(f"{path}.{name}", inner)
        case list():
            for inner in value:
                for field_path, inner_value in _values_by_path(f"{path}[]", inner):
                    if field_path != f"{path}[]":
                        yield field_path, inner_value
