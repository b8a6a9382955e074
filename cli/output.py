"""Answers of commands for programs: objects as JSON or YAML; and tables for people."""

import json
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TextIO

import yaml

from app.terminal import CONTROL, escape
from cli.messages import printable
from jobset_client.scalars import plain_value

FORMS: Final = ("json", "yaml")
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_WIDTH = 2**31 - 1
"""Characters after which long texts are folded: never."""
_LEAST_BESIDE, _NARROWEST = 40, 30
"""Least number of characters of a table's last column beside the others, and of any line beside its indent."""


class _Dumper(_DUMPER):  # type: ignore[misc]  # one of two bases, by how PyYAML was built
    """Block style, no anchors, and quotes around every text that a YAML reader could misread."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    """Use double quotes, with escapes, if the text contains control characters."""
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
    """The object in one of these forms, on several lines. `separated`: with a YAML document separator before it."""
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


def columns(rows: Sequence[Sequence[str]], gap: int = 3, width: int = 0) -> Iterator[str]:
    """Rows as lines, in columns as wide as they need to be; the last column is never cut.

    `width`: of a terminal, where the last column is wrapped; below the others if too little room is left beside them.
    """
    texts = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) + gap for column in zip(*texts, strict=True)][:-1]
    beside, below = sum(widths), "    "
    for *cells, last in texts:
        line = "".join(f"{cell:{width_of_cell}}" for cell, width_of_cell in zip(cells, widths, strict=True))
        if not width or len(line) + len(last) <= width:
            yield f"{line}{last}\n"
        elif width - beside >= _LEAST_BESIDE:
            yield "".join(f"{part}\n" for part in wrap(last, width, line, " " * beside))
        else:
            yield f"{line.rstrip()}\n" + "".join(f"{part}\n" for part in wrap(last, width, below, below))


def wrap(words: str, width: int, lead: str, below: str) -> list[str]:
    """The words in lines; all but the first line begin with `below`. A word longer than a line is not cut."""
    most = max(width, len(below) + _NARROWEST)
    return textwrap.wrap(
        words, most, initial_indent=lead, subsequent_indent=below, break_long_words=False, break_on_hyphens=False
    )


def width_of(stream: TextIO) -> int:
    """Columns of the terminal that a stream writes to; 0 for a file or a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() else 0
