"""Make the moving picture of README.md, docs/images/demo.svg, from docs/images/demo.cast, a record of `make demo`.

The record is an asciinema cast (version 2), which `asciinema play docs/images/demo.cast` shows in a terminal. The
picture is an SVG that moves by CSS alone. It has no script, and loads nothing. `--record` plays the demo and writes
both files.
"""

import argparse
import html
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CAST = ROOT / "docs/images/demo.cast"
PICTURE = ROOT / "docs/images/demo.svg"
COLUMNS, ROWS = 128, 24
LONGEST_PAUSE = 0.7
"""Longest pause in the picture, in seconds."""
LAST = 8.0
"""Seconds for which the end is shown before the picture begins again."""

_COUNTERS = re.compile(r"\s+(\S+: ready \d+|no status yet)")
"""The beginning of a line with counts of Jobs. Such lines are left out, since they are too many for a picture."""
_CELL, _LINE, _EDGE = 7.23, 18, 14
_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="make demo in a terminal">
<style>
text {{ font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #d0d7de; white-space: pre }}
.time {{ fill: #39c5cf }} .fault {{ fill: #d29922 }} .call {{ fill: #7ee787 }}
.lines, .lines text {{ animation: {length:.1f}s step-end infinite }}
.lines {{ animation-name: scroll }}
{rules}@media (prefers-reduced-motion) {{
 .lines, .lines text {{ animation: none !important }}
 .lines {{ transform: {end} }}
}}
</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<svg x="{edge}" y="{edge}" width="{inner_width}" height="{inner_height}">
<g class="lines">
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the record. `at`: seconds from the beginning of the picture."""

    text: str
    at: float


def lines(cast: str) -> list[Line]:
    """Return the lines of a cast without those of counters. Long pauses are shortened, and so are long lines."""
    picture_lines, last_moment, at = [Line("$ make demo", 0.0)], 0.0, 0.0
    for row in cast.splitlines()[1:]:
        moment, _, text = json.loads(row)
        if _COUNTERS.match(text):
            continue
        at += min(moment - last_moment, LONGEST_PAUSE)
        last_moment = moment
        picture_lines += [Line(_cut(part), at) for part in text.splitlines()]
    return picture_lines


def _cut(text: str) -> str:
    """Return a long text without its middle, since a finding begins with its position and ends with its fix."""
    half = COLUMNS // 2 - 2
    return text if len(text) <= COLUMNS else f"{text[:half]} … {text[-half:]}"


def svg(picture_lines: list[Line]) -> str:
    length = picture_lines[-1].at + LAST
    moments = sorted({line.at for line in picture_lines if line.at})
    rules = [
        f"@keyframes a{number} {{ 0% {{ opacity: 0 }} {_percentage(at, length)} {{ opacity: 1 }} }}"
        for number, at in enumerate(moments)
    ]
    steps = dict.fromkeys(moments, 0)
    for number, line in enumerate(picture_lines):
        if line.at:
            steps[line.at] = max(0, number + 1 - ROWS)
    scrolled = "".join(
        f" {_percentage(at, length)} {{ transform: {_scroll_transform(rows)} }}" for at, rows in steps.items() if rows
    )
    rules.append(f"@keyframes scroll {{ 0% {{ transform: {_scroll_transform(0)} }}{scrolled} }}")
    width, height = round(COLUMNS * _CELL), ROWS * _LINE
    head = _HEAD.format(
        width=width + 2 * _EDGE,
        height=height + 2 * _EDGE,
        inner_width=width,
        inner_height=height,
        edge=_EDGE,
        length=length,
        rules="".join(f"{rule}\n" for rule in rules),
        end=_scroll_transform(max(0, len(picture_lines) - ROWS)),
    )
    body = "".join(
        f'<text{_animation_style(moments, line)} y="{number * _LINE + 13}">{_colour_line(line.text)}</text>\n'
        for number, line in enumerate(picture_lines)
    )
    return f"{head}{body}</g>\n</svg>\n</svg>\n"


def _animation_style(moments: list[float], line: Line) -> str:
    return f' style="animation-name: a{moments.index(line.at)}"' if line.at else ""


def _percentage(at: float, length: float) -> str:
    return f"{100 * at / length:.2f}%"


def _scroll_transform(rows: int) -> str:
    return f"translateY({-rows * _LINE}px)"


def _colour_line(text: str) -> str:
    """Return the text as SVG, with its time, a command or a fault in another colour."""
    escaped = html.escape(text, quote=False)
    if text.startswith("$ "):
        return f'<tspan class="call">{escaped}</tspan>'
    if text.startswith(("* ", "The JobSet ")):
        return f'<tspan class="fault">{escaped}</tspan>'
    moment, mark, sentence = escaped.partition(" s  ")
    return f'<tspan class="time">{moment}{mark}</tspan>{sentence}' if mark and _is_number(moment) else escaped


def _is_number(text: str) -> bool:
    return text.strip().replace(".", "", 1).isdigit()


def _demo_lines() -> Iterator[tuple[float, str]]:
    """Play the demo, and yield its lines, each with the seconds since its start."""
    command = [sys.executable, "-u", "-m", "cli", "demo"]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:  # noqa: S603 (ourselves)
        for line in process.stdout or ():
            yield time.monotonic() - began, line
    if process.returncode:
        raise SystemExit("the demo failed")


def cast_of(timed_lines: Iterable[tuple[float, str]]) -> str:
    """Return a cast of these lines, each with its seconds."""
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "make demo"}
    rows = [json.dumps(head), *(json.dumps([round(at, 2), "o", f"{line.rstrip()}\r\n"]) for at, line in timed_lines)]
    return "".join(f"{row}\n" for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dev.hack.demo_picture", description=f"Make {PICTURE.name}.")
    parser.add_argument("--record", action="store_true", help="play the demo, and write what it prints into the record")
    if parser.parse_args().record:
        CAST.write_text(cast_of(_demo_lines()), encoding="utf-8")
    PICTURE.write_text(svg(lines(CAST.read_text(encoding="utf-8"))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
