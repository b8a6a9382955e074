"""Measures a manager under a simulated API server: `python -m dev.bench.simulated`."""

import sys

from dev.bench.ending import unwound_by_sigterm
from dev.bench.output import JSON, print_result, print_table, print_text
from dev.bench.simulated.bench import SimulationError, simulation_options
from dev.bench.simulated.fleet import Fleet
from dev.bench.simulated.run import GOAL_KIB_PER_NODE, GOAL_PODS_PER_SECOND, measure, rows


@unwound_by_sigterm()
def main() -> int:
    parser = simulation_options("dev.bench.simulated", __doc__)
    parser.add_argument("--small", action="store_true", help="a fleet of 16 nodes, to see whether it works")
    options = parser.parse_args()
    fleet, single = (Fleet(8, 2, 2, 3, 4), 20) if options.small else (Fleet(), 5000)
    try:
        print_result(options.output, measure(options.manager, fleet, single), show)
    except SimulationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def show(result: JSON) -> None:
    print_table(rows(result))
    print_text(
        f"Peak memory: {result['peak_rss_mib']:.0f} MiB, {result['kib_per_node']:.1f} KiB a node (goal: at most"
        f" {GOAL_KIB_PER_NODE}). Restart: {result['restart']['pods_per_second']:,.0f} pods/s (goal: at least"
        f" {GOAL_PODS_PER_SECOND:,})."
    )


if __name__ == "__main__":
    sys.exit(main())
