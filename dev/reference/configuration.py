"""docs/reference/configuration.md, made from app/settings.py and cli/manager_flags.py. Nothing else is read."""

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
from dev.hack.generated import beginning

_FOLDER = "docs/reference"
_CITED = re.compile(r"\b(docs/(?:[\w-]+/)*([\w-]+)\.md(?:#[\w-]+)?)")
_EXTENSION = re.compile(r"\s*An extension: the Go manager's file has no such (?:field|section)\.")
_GO_FLAGS = frozenset({
    "--config", "--kubeconfig", "--metrics-bind-address", "--health-probe-bind-address", "--leader-elect",
    "--kube-api-qps", "--kube-api-burst", "--zap-devel", "--zap-encoder", "--zap-log-level", "--zap-stacktrace-level",
    "--zap-time-encoding",
})  # fmt: skip


def page() -> str:
    """The whole page as Markdown."""
    parts = [
        beginning("reference/configuration.md"),
        "\n## Flags\n",
        "| Flag | Values | Meaning |\n|---|---|---|",
        *_flags(),
        "\n## Fields of the file",
    ]
    defaults = effective_configuration(Settings(), FeatureGates())
    schema = Settings.model_json_schema()
    fields = docstrings()
    plain = {name: each for name, each in schema["properties"].items() if "$ref" not in each}
    parts += _section("", Settings, plain, {**defaults, "featureGates": {}}, fields)
    for name, field in Settings.model_fields.items():
        section = getattr(Settings(), name)
        if isinstance(section, BaseModel):
            alias = str(field.alias)
            properties = type(section).model_json_schema()["properties"]
            parts += _section(alias, type(section), properties, defaults[alias], fields)
    return "\n".join(parts) + "\n"


def _flags() -> Iterator[str]:
    parser = argparse.ArgumentParser(add_help=False)
    add_flags(parser)
    for action in parser._actions:  # noqa: SLF001 (it has no public name)
        flag = f"`{', '.join(action.option_strings)}`"
        mark = "" if action.option_strings[-1] in _GO_FLAGS else " **+**"
        values = ", ".join(f"`{choice}`" for choice in action.choices or ()) or f"{action.metavar}"
        yield f"| {flag}{mark} | {_cell(values)} | {_cell(str(action.help))} |"


def _section(
    name: str,
    record: type[BaseModel],
    properties: Mapping[str, Any],
    defaults: Mapping[str, Any],
    documented: Mapping[tuple[str, str], str],
) -> list[str]:
    """Heading, table and example of one section; the fields outside any section for an empty name."""
    about, mark = cell_and_mark(inspect.getdoc(record) or "")
    title = f"`{name}`{mark}" if name else "Outside the sections"
    lines = [f"\n### {title}\n", f"{about}\n"] if name else [f"\n### {title}\n"]
    lines.append("| Field | Default | Values | Meaning |\n|---|---|---|---|")
    for inner, field in record.model_fields.items():
        alias = str(field.alias)
        if alias not in properties:
            continue
        meaning, own = cell_and_mark(documented[record.__name__, inner])
        default = f"`{text(defaults[alias])}`" if defaults[alias] not in ("", [], {}) else "none"
        cells = (f"`{alias}`{own}", default, _values(properties[alias]), meaning)
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    examples = {alias: each["examples"][0] for alias, each in properties.items()}
    head = {"apiVersion": API_VERSION, "kind": KIND}
    example = yaml.safe_dump({name: examples} if name else {**head, **examples}, sort_keys=False)
    return [*lines, f"\n```yaml\n{example}```"]


def docstrings() -> dict[tuple[str, str], str]:
    """The docstring below each field of each class of app/settings.py."""
    found = {}
    for record in ast.parse(inspect.getsource(settings)).body:
        if isinstance(record, ast.ClassDef):
            for field, below in zip(record.body, record.body[1:], strict=False):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(value=str(words))):
                        found[record.name, name] = words
    return found


def cell_and_mark(words: str) -> tuple[str, str]:
    """A text of the source for the page, with the mark for fields that the Go manager does not have."""
    words = " ".join(words.split())
    own = " **+**" if _EXTENSION.search(words) else ""
    return _CITED.sub(_link, _EXTENSION.sub("", words)), own


def _link(cited: re.Match[str]) -> str:
    return f"[{cited[2]}]({posixpath.relpath(cited[1], _FOLDER)})"


def _values(schema: Mapping[str, Any]) -> str:
    """The values that a field takes: `number, 0 to 65535`."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"] if value)
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema["type"]
    if kind in {"integer", "number"}:
        low, high, above = (schema.get(name) for name in ("minimum", "maximum", "exclusiveMinimum"))
        whole = "whole number" if kind == "integer" else "number"
        if above is not None:
            return f"{whole}, above {above}"
        return f"{whole}, {low} to {high}" if high is not None else f"{whole}, from {low}"
    if schema.get("format") == "duration":
        return "duration"
    items = schema.get("items", {})
    listed = _values(items) if "enum" in items else "texts"
    return {
        "boolean": "`true`, `false`",
        "string": "text",
        "array": f"list of {listed}",
        "object": "texts to `true`, `false`",
    }[kind]


def _cell(words: str) -> str:
    return words.replace("|", "\\|")
