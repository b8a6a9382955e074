"""Measures a manager under a simulated API server: `python -m dev.bench.simulated`."""

import argparse
import json
import shlex
import sys

from rich.console import Console
from rich.table import Table

from dev.bench.ending import unwound_by_sigterm
from dev.bench.simulated.fleet import Fleet
from dev.bench.simulated.run import GOAL_KIB_PER_NODE, GOAL_PODS_PER_SECOND, JSON, SimulationError, measure, rows


@unwound_by_sigterm()
def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dev.bench.simulated", description=__doc__)
    own = shlex.join([sys.executable, "-m", "cli", "manager"])
    parser.add_argument("--manager", default=own, help="command that is given --config and --kubeconfig (our own)")
    parser.add_argument("--small", action="store_true", help="a fleet of 16 nodes, to see whether it works")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table", help="format of the result")
    args = parser.parse_args()
    fleet, single = (Fleet(8, 2, 2, 3, 4), 20) if args.small else (Fleet(), 5000)
    try:
        result = measure(shlex.split(args.manager), fleet, single)
    except SimulationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if args.output == "json":
        print(json.dumps(result, indent=2))
    else:
        show(result)
    return 0


def show(result: JSON) -> None:
    lines = rows(result)
    table = Table(box=None, pad_edge=False)
    for column in lines[0]:
        table.add_column(column, justify="left" if column == "phase" else "right", no_wrap=True)
    for line in lines:
        table.add_row(*line.values())
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    console.print(
        f"Peak memory: {result['peak_rss_mib']:.0f} MiB, {result['kib_per_node']:.1f} KiB a node (goal: at most"
        f" {GOAL_KIB_PER_NODE}). Restart: {result['restart']['pods_per_second']:,.0f} pods/s (goal: at least"
        f" {GOAL_PODS_PER_SECOND:,}).",
        highlight=False,
    )


if __name__ == "__main__":
    sys.exit(main())
