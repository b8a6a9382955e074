"""Make docs/reference/configuration.md, only from app/settings.py and cli/manager_flags.py."""

import argparse
import ast
import inspect
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from pydantic import BaseModel

from api.features import FeatureGates
from app import settings
from app.settings import API_VERSION, KIND, Settings
from cli.config_check import effective_configuration, text
from cli.manager_flags import add_flags
from dev.hack.generated import beginning, escape_cell

_FOLDER = "docs/reference"
_CITED = re.compile(r"\b(docs/(?:[\w-]+/)*([\w-]+)\.md(?:#[\w-]+)?)")
_EXTENSION = re.compile(r"\s*An extension: the Go manager's file has no such (?:field|section)\.")
_GO_FLAGS = frozenset({
    "--config", "--kubeconfig", "--metrics-bind-address", "--health-probe-bind-address", "--leader-elect",
    "--kube-api-qps", "--kube-api-burst", "--zap-devel", "--zap-encoder", "--zap-log-level", "--zap-stacktrace-level",
    "--zap-time-encoding",
})  # fmt: skip


def page() -> str:
    parts = [
        beginning("reference/configuration.md"),
        "\n## Flags\n",
        "| Flag | Values | Meaning |\n|---|---|---|",
        *_flags(),
        "\n## Fields of the file",
    ]
    defaults = effective_configuration(Settings(), FeatureGates())
    schema = Settings.model_json_schema()
    field_docs = docstrings()
    outside_sections = {name: each for name, each in schema["properties"].items() if "$ref" not in each}
    parts += _section("", Settings, outside_sections, {**defaults, "featureGates": {}}, field_docs)
    for name, field in Settings.model_fields.items():
        section = getattr(Settings(), name)
        if isinstance(section, BaseModel):
            alias = str(field.alias)
            properties = type(section).model_json_schema()["properties"]
            parts += _section(alias, type(section), properties, defaults[alias], field_docs)
    return "\n".join(parts) + "\n"


def _flags() -> Iterator[str]:
    parser = argparse.ArgumentParser(add_help=False)
    add_flags(parser)
    for action in parser._actions:  # noqa: SLF001 (argparse has no public name for it)
        flag = f"`{', '.join(action.option_strings)}`"
        mark = "" if action.option_strings[-1] in _GO_FLAGS else " **+**"
        values = ", ".join(f"`{choice}`" for choice in action.choices or ()) or f"{action.metavar}"
        yield f"| {flag}{mark} | {escape_cell(values)} | {escape_cell(str(action.help))} |"


def _section(
    name: str,
    record: type[BaseModel],
    properties: Mapping[str, Any],
    defaults: Mapping[str, Any],
    field_docs: Mapping[tuple[str, str], str],
) -> list[str]:
    """Return heading, table and example of a section as lines. `name` is "" for the fields outside sections."""
    description, mark = cell_and_mark(inspect.getdoc(record) or "")
    title = f"`{name}`{mark}" if name else "Outside the sections"
    lines = [f"\n### {title}\n", f"{description}\n"] if name else [f"\n### {title}\n"]
    lines.append("| Field | Default | Values | Meaning |\n|---|---|---|---|")
    for attribute, field in record.model_fields.items():
        alias = str(field.alias)
        if alias not in properties:
            continue
        meaning, field_mark = cell_and_mark(field_docs[record.__name__, attribute])
        default = f"`{text(defaults[alias])}`" if defaults[alias] not in ("", [], {}) else "none"
        cells = (f"`{alias}`{field_mark}", default, _values(properties[alias]), meaning)
        lines.append(f"| {' | '.join(map(escape_cell, cells))} |")
    examples = {alias: each["examples"][0] for alias, each in properties.items()}
    head = {"apiVersion": API_VERSION, "kind": KIND}
    example = yaml.safe_dump({name: examples} if name else {**head, **examples}, sort_keys=False)
    return [*lines, f"\n```yaml\n{example}```"]


def docstrings() -> dict[tuple[str, str], str]:
    """Return the docstring below each field of app/settings.py, by the names of class and field."""
    texts = {}
    for record in ast.parse(inspect.getsource(settings)).body:
        if isinstance(record, ast.ClassDef):
            for field, next_statement in zip(record.body, record.body[1:], strict=False):
                match field, next_statement:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(value=str(words))):
                        texts[record.name, name] = words
    return texts


def cell_and_mark(words: str) -> tuple[str, str]:
    """Return a docstring as text of a table cell, and the mark of a field that the Go manager lacks, else ""."""
    words = " ".join(words.split())
    mark = " **+**" if _EXTENSION.search(words) else ""
    return _CITED.sub(_link, _EXTENSION.sub("", words)), mark


def _link(cited: re.Match[str]) -> str:
    return f"[{cited[2]}]({posixpath.relpath(cited[1], _FOLDER)})"


def _values(schema: Mapping[str, Any]) -> str:
    """Return the values that a field may have, in words such as `number, 0 to 65535`."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"] if value)
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema["type"]
    if kind in {"integer", "number"}:
        low, high, above = (schema.get(name) for name in ("minimum", "maximum", "exclusiveMinimum"))
        number_word = "whole number" if kind == "integer" else "number"
        if above is not None:
            return f"{number_word}, above {above}"
        return f"{number_word}, {low} to {high}" if high is not None else f"{number_word}, from {low}"
    if schema.get("format") == "duration":
        return "duration"
    items = schema.get("items", {})
    item_values = _values(items) if "enum" in items else "texts"
    return {
        "boolean": "`true`, `false`",
        "string": "text",
        "array": f"list of {item_values}",
        "object": "texts to `true`, `false`",
    }[kind]
