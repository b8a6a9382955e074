"""Answers of commands for programs: one object, as JSON or YAML."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from app.terminal import CONTROL, escape
from cli.check.findings import printable

FORMS: Final = ("json", "yaml")


class _Plain(yaml.SafeDumper):
    """Writes a list out wherever it stands, and no reference to where it stood before."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def _represent_text(dumper: _Plain, text: str) -> yaml.Node:
    """In double quotes where it holds what a terminal would obey: an escape means the same there."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, '"' if CONTROL.search(text) else None)


_Plain.add_representer(str, _represent_text)


def dump(body: Mapping[str, Any], output: str) -> str:
    """The object in one of these forms, on several lines."""
    if output == "yaml":
        return escape(yaml.dump(dict(body), None, _Plain, sort_keys=False, allow_unicode=True, width=2**31 - 1))
    return json.dumps(body, indent=2) + "\n"


def columns(rows: Sequence[Sequence[str]], gap: int = 3) -> Iterator[str]:
    """Rows as lines, in columns as wide as they need to be; the last column is never cut."""
    texts = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) + gap for column in zip(*texts, strict=True)][:-1]
    for *cells, last in texts:
        yield "".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)) + last + "\n"
