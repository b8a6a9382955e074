"""A measurement for several sizes: progress, the result, and how figures grow with the size."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence

from dev.bench.output import JSON, print_result
from dev.bench.simulated.bench import SimulationError

FITTED = 1000
"""The size from which on growth is fitted: below, the constant part of a figure dominates."""

GOAL_EXPONENT = 1.1
"""Growth that is steeper than linear is a defect."""


def run_sizes(
    sizes: Sequence[int], unit: str, measure: Callable[[int], JSON], show: Callable[[list[JSON]], None], output: str
) -> int:
    """Measure each size and print the results; an error ends the series. Returns the exit code."""
    results: list[JSON] = []
    failed = False
    for size in sizes:
        print(f"measuring {size:,} {unit}", file=sys.stderr)
        try:
            results.append(measure(size))
        except SimulationError as error:
            print(f"error: {error}", file=sys.stderr)
            failed = True
            break
    print_result(output, results, show)
    return int(failed)


def exponent(results: Sequence[JSON], size: str, figure: str) -> float | None:
    """Least-squares exponent of a figure over the size: 1 is linear, 2 grows with the square.

    The figure at size 0, if that was measured, is subtracted. None for fewer than two sizes of at least `FITTED` that
    have the figure.
    """
    base = next((line[figure] for line in results if line[size] == 0), 0)
    fitted = [line for line in results if line[size] >= FITTED and line[figure] > base]
    if len(fitted) < 2:
        return None
    logarithms = [math.log(line[size]) for line in fitted]
    return statistics.linear_regression(logarithms, [math.log(line[figure] - base) for line in fitted]).slope
