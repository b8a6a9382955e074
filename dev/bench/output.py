"""The command line and the tables of all benchmarks, and properties of the machine."""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from kube.model.meta import JSON

Columns = Mapping[str, tuple[str, str]]
"""By the title of a column, the path of its figure (keys joined by dots) and its format."""


def command_line(module: str, description: str | None) -> argparse.ArgumentParser:
    """A parser for `python -m MODULE` with the option for the format of the result."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="format of the result (default %(default)s)"
    )
    return parser


def positive(text: str) -> int:
    """A whole number of at least 1. Raises ArgumentTypeError."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def print_result(output: str, result: object, show: Callable[[Any], None]) -> None:
    """Print JSON, or call `show` for the tables."""
    if output == "json":
        print(json.dumps(result, indent=2))
    else:
        show(result)


def value_at(figures: Any, path: str) -> Any:
    """The figure at a path; None without a figure."""
    for key in path.split("."):
        figures = figures.get(key) if isinstance(figures, dict) else None
    return figures


def cells(columns: Columns, figures: JSON) -> dict[str, str]:
    """A row of a table: the text by title, which is empty without a figure."""
    values = {title: (value_at(figures, path), style) for title, (path, style) in columns.items()}
    return {title: "" if value is None else format(value, style) for title, (value, style) in values.items()}


def console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 190)


def print_table(rows: Sequence[Mapping[str, str]], title: str = "") -> None:
    """Print rows of cells by column, with columns of words aligned to the left. Prints nothing without rows."""
    if not rows:
        return
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for column in rows[0]:
        has_words = any(row[column][:1].isalpha() for row in rows)
        table.add_column(column, justify="left" if has_words else "right", no_wrap=has_words)
    for row in rows:
        table.add_row(*row.values())
    console().print(*([""] if title else []), table)


def print_text(text: str) -> None:
    console().print(text, highlight=False, markup=False)


def goal_verdict(name: str, value: float, limit: float) -> str:
    """Whether a figure in milliseconds is at most the limit, as a sentence."""
    return f"{name}: {value:.2f} ms, goal <= {limit:g} ms: {'reached' if value <= limit else 'MISSED'}"


def machine() -> JSON:
    """The properties of this machine that figures depend on, and its load."""
    return {
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def machine_text(machine: JSON) -> str:
    return (
        f"Python {machine['python']} on {machine['system']}, {machine['cores']} cores, load"
        f" {machine['load_average']:.2f}"
    )


def revision() -> str:
    """The output of `git describe`; empty outside of a repository."""
    output = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607 - its place differs between systems
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return output.stdout.strip()
