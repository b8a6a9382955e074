"""Writes objects as JSON or YAML, and tables."""

import json
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TextIO

import yaml

from app.control_characters import CONTROL, escape
from cli.messages import printable
from jobset_client.scalars import plain_value

DATA_FORMATS: Final = ("json", "yaml")
"""Values of the flag --output that `dump` takes."""
_BASE_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_WIDTH = 2**31 - 1
"""Line width for YAML at which no text is folded."""
_MIN_LAST_COLUMN = 40
"""If a table has fewer characters for its last column, this column is written below the others."""
_MIN_LINE = 30
"""A wrapped line has at least this many characters beside its indent."""


class _Dumper(_BASE_DUMPER):  # type: ignore[misc]  # the base depends on how PyYAML was built
    """Writes block style, without anchors, and quotes each text that a YAML parser could take for another value."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    style = None
    if CONTROL.search(text):
        style = '"'
    elif "\n" in text:
        style = "|"
    elif plain_value(text) != text or text == "<<":
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump(body: Mapping[str, Any], data_format: str, *, has_separator: bool = False) -> str:
    """The object as indented JSON or YAML. `has_separator`: whether a YAML document begins with `---`."""
    if data_format == "json":
        return json.dumps(body, indent=2) + "\n"
    return escape(
        yaml.dump(
            dict(body), None, _Dumper, sort_keys=False, explicit_start=has_separator, default_flow_style=False,
            width=_WIDTH, allow_unicode=True,
        )
    )  # fmt: skip


def write_list(bodies: Iterable[Mapping[str, Any]], out: TextIO) -> None:
    """Write a List of Kubernetes as JSON, item by item."""
    out.write('{\n  "apiVersion": "v1",\n  "kind": "List",\n  "items": [')
    separator = "\n"
    for body in bodies:
        text = json.dumps(body, indent=2).replace("\n", "\n    ")
        out.write(f"{separator}    {text}")
        separator = ",\n"
    out.write("\n  ]\n}\n")


def columns(rows: Sequence[Sequence[str]], gap: int = 3, width: int = 0) -> Iterator[str]:
    """The lines of a table. Columns are as wide as their widest cell.

    `width`: the width of a terminal, where the last column is wrapped; 0 for no wrapping. If the other columns leave
    too little space, the last column is written below them.
    """
    printable_rows = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) + gap for column in zip(*printable_rows, strict=True)][:-1]
    indent, below = sum(widths), "    "
    for *cells, last in printable_rows:
        line = "".join(f"{cell:{width_of_cell}}" for cell, width_of_cell in zip(cells, widths, strict=True))
        if not width or len(line) + len(last) <= width:
            yield f"{line}{last}\n"
        elif width - indent >= _MIN_LAST_COLUMN:
            yield "".join(f"{text}\n" for text in wrap(last, width, line, " " * indent))
        else:
            yield f"{line.rstrip()}\n" + "".join(f"{text}\n" for text in wrap(last, width, below, below))


def wrap(text: str, width: int, prefix: str, next_prefix: str) -> list[str]:
    """The text in lines. The first line begins with `prefix`, each other line with `next_prefix`. Words are not cut."""
    return textwrap.wrap(
        text,
        max(width, len(next_prefix) + _MIN_LINE),
        initial_indent=prefix,
        subsequent_indent=next_prefix,
        break_long_words=False,
        break_on_hyphens=False,
    )


def width_of(stream: TextIO) -> int:
    """The width of the terminal of a stream in characters; 0 for a file or a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() else 0
