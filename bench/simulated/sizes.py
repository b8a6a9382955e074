"""A measurement that is taken for several sizes: progress while it runs, then JSON or a table with a line for each."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from bench.simulated.run import JSON, SimulationError


def each(
    sizes: Sequence[int], what: str, measure: Callable[[int], JSON], show: Callable[[list[JSON]], None], output: str
) -> int:
    """Measure and write; the first size that cannot be measured is the last. Gives the exit code."""
    results: list[JSON] = []
    failed = False
    for size in sizes:
        print(f"measuring {size:,} {what}", file=sys.stderr)
        try:
            results.append(measure(size))
        except SimulationError as error:
            print(f"error: {error}", file=sys.stderr)
            failed = True
            break
    if output == "json":
        print(json.dumps(results, indent=2))
    else:
        show(results)
    return 1 if failed else 0


def table(columns: Mapping[str, tuple[str, str]], results: Sequence[JSON]) -> Console:
    """Print the lines; `columns`: field and format by title. Gives the console, for what stands below."""
    shown = Table(*columns, box=None, pad_edge=False)
    for column in shown.columns:
        column.justify = "right"
    for line in results:
        shown.add_row(*(format(line[field], style) for field, style in columns.values()))
    console = Console(width=None if sys.stdout.isatty() else 190)
    console.print(shown)
    return console
