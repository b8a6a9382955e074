"""A measurement that is taken for several sizes: progress while it runs, then JSON or a table with a line for each."""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from dev.bench.simulated.run import JSON, SimulationError

FITTED = 1000
"""The size from which on growth is fitted: below, what does not depend on the size is most of a figure."""

GOAL_EXPONENT = 1.1
"""Of growth: anything steeper than linear is a defect."""


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


def exponent(results: Sequence[JSON], size: str, figure: str) -> float | None:
    """Least-squares exponent of a figure over the size: 1 is linear, 2 grows with the square.

    What the figure is at size 0, if that was measured, is not part of the growth. None for fewer than two sizes of at
    least `FITTED` that have the figure.
    """
    base = next((line[figure] for line in results if line[size] == 0), 0)
    fitted = [line for line in results if line[size] >= FITTED and line[figure] > base]
    if len(fitted) < 2:
        return None
    over = [math.log(line[size]) for line in fitted]
    return statistics.linear_regression(over, [math.log(line[figure] - base) for line in fitted]).slope


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
