"""Answers of commands for programs: objects as JSON or YAML; and tables for people."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TextIO

import yaml

from app.terminal import CONTROL, escape
from cli.check.findings import printable
from jobset_client.scalars import plain_value

FORMS: Final = ("json", "yaml")
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_WIDTH = 2**31 - 1
"""Characters after which long texts are folded: never."""


class _Dumper(_DUMPER):  # type: ignore[misc]  # one of two bases, by how PyYAML was built
    """Block style, no anchors, and every text quoted that some YAML reader would take for something else."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    """In double quotes also where it holds what a terminal would obey: an escape means the same there."""
    style = None
    if CONTROL.search(text):
        style = '"'
    elif "\n" in text:
        style = "|"
    elif plain_value(text) != text or text == "<<":
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump(body: Mapping[str, Any], output: str, *, separated: bool = False) -> str:
    """The object in one of these forms, on several lines. `separated`: after a line that begins a YAML document."""
    if output == "json":
        return json.dumps(body, indent=2) + "\n"
    return escape(
        yaml.dump(
            dict(body), None, _Dumper, sort_keys=False, explicit_start=separated, default_flow_style=False,
            width=_WIDTH, allow_unicode=True,
        )
    )  # fmt: skip


def write_list(bodies: Iterable[Mapping[str, Any]], out: TextIO) -> None:
    """A List of Kubernetes as JSON, written item by item."""
    out.write('{\n  "apiVersion": "v1",\n  "kind": "List",\n  "items": [')
    separator = "\n"
    for body in bodies:
        text = json.dumps(body, indent=2).replace("\n", "\n    ")
        out.write(f"{separator}    {text}")
        separator = ",\n"
    out.write("\n  ]\n}\n")


def columns(rows: Sequence[Sequence[str]], gap: int = 3) -> Iterator[str]:
    """Rows as lines, in columns as wide as they need to be; the last column is never cut."""
    texts = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) + gap for column in zip(*texts, strict=True)][:-1]
    for *cells, last in texts:
        yield "".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)) + last + "\n"
