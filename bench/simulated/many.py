"""What one more JobSet costs a manager that has many, most of them at rest: `python -m bench.simulated.many`.

Each has five Jobs of one pod, all running. Measured for each number of them: the start until the manager is idle,
memory, processor time while nothing happens, and the time from a Job's failure to the write that counts the restart,
twenty failures a second, each in another JobSet.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.proc import cpu_seconds, memory_mib
from bench.simulated.fleet import NAMESPACE, WORKERS, Fleet
from bench.simulated.run import JSON, QUIET_SECONDS, Bench, SimulationError, running_manager, simulated_server

FLEET = Fleet(domains=100, nodes=10, jobsets=0, jobs=5, pods=1, exclusive=False)
FAILURES_PER_SECOND = 20
IDLE = 0.05
"""Of a core: a manager that takes less for some seconds has come to rest."""

GOAL_KIB_PER_SET, GOAL_REST_PERCENT, GOAL_P99_MS = 15, 1, 250


def measure(command: list[str], sets: int, *, rest_seconds: float, failures: int) -> JSON:
    """One line of the table. `rest_seconds` is how long it is watched at rest. Raises `SimulationError`."""
    fleet = replace(FLEET, jobsets=sets)
    with tempfile.TemporaryDirectory() as name, simulated_server(Path(name), fleet) as connection:
        started = time.monotonic()
        with running_manager(command, Path(name)) as (process, log):
            bench = Bench(connection, process, log)
            bench.wait_for_counts(lambda state: bool(state["calls"]), "the manager's first request")
            at_rest = _until_at_rest(bench)
            result: JSON = {
                "sets": sets,
                "start_seconds": at_rest - started,
                "start_cpu_seconds": cpu_seconds(process.pid),
                "rss_mib": memory_mib(process.pid),
            }
            busy = cpu_seconds(process.pid)
            time.sleep(rest_seconds)
            result["rest_percent"] = 100 * (cpu_seconds(process.pid) - busy) / rest_seconds
            result |= _failures(bench, min(failures, sets))
            result["peak_rss_mib"] = memory_mib(process.pid, "VmHWM")
    return result


def _until_at_rest(bench: Bench) -> float:
    """When a manager has become idle, in seconds of the machine's monotonic clock."""
    since, busy = time.monotonic(), cpu_seconds(bench.manager.pid)
    while time.monotonic() < since + QUIET_SECONDS:
        bench.settle()
        now = cpu_seconds(bench.manager.pid)
        if now - busy > IDLE * (time.monotonic() - since):
            since, busy = time.monotonic(), now
    return since


def _failures(bench: Bench, count: int) -> JSON:
    """Let a Job of each of so many JobSets fail, at a fixed rate whatever the manager does."""
    calls, busy = _all(bench.counts()), cpu_seconds(bench.manager.pid)
    begun = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begun + number / FAILURES_PER_SECOND - time.monotonic()))
        bench.request("POST", f"/simulated/fail?namespace={NAMESPACE}&name=train-{number:02}-{WORKERS}-0")
    bench.wait_for_counts(lambda state: len(state["delays"]) >= count, "all restarts to be counted")
    counts = bench.settle()
    delays = sorted(counts["delays"])
    return {
        "failures": count,
        "delay_p50_ms": 1000 * statistics.median(delays) if delays else 0.0,
        "delay_p99_ms": 1000 * delays[math.ceil(0.99 * len(delays)) - 1] if delays else 0.0,
        "calls_per_restart": (_all(counts) - calls) / count if count else 0.0,
        "cpu_ms_per_restart": 1000 * (cpu_seconds(bench.manager.pid) - busy) / count if count else 0.0,
    }


def _all(counts: JSON) -> int:
    return sum(call[-1] for call in counts["calls"])


def slope(results: list[JSON], field: str) -> float:
    """Growth of a figure with one more JobSet, fitted through all sizes."""
    if len(results) < 2:
        return 0.0
    return statistics.linear_regression([line["sets"] for line in results], [line[field] for line in results]).slope


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.simulated.many", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    own = shlex.join([sys.executable, "-m", "app", "manager"])
    parser.add_argument("--manager", default=own, help="command that is given --config and --kubeconfig (our own)")
    parser.add_argument("--sets", default="0,1000,5000,20000", help="numbers of JobSets (default %(default)s)")
    parser.add_argument("--rest", type=float, default=30, metavar="SECONDS", help="at rest (default %(default)s)")
    parser.add_argument("--failures", type=int, default=400, help="JobSets that fail (default %(default)s)")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table", help="format of the result")
    args = parser.parse_args()
    try:
        numbers = [int(number) for number in args.sets.split(",")]
    except ValueError:
        parser.error(f"--sets: {args.sets} are not numbers separated by commas")
    results: list[JSON] = []
    failed = False
    for number in numbers:
        print(f"measuring {number:,} JobSets", file=sys.stderr)
        try:
            line = measure(shlex.split(args.manager), number, rest_seconds=args.rest, failures=args.failures)
        except SimulationError as error:
            print(f"error: {error}", file=sys.stderr)
            failed = True
            break
        results.append(line)
    if args.output == "json":
        print(json.dumps(results, indent=2))
    else:
        show(results)
    return 1 if failed else 0


COLUMNS = {
    "JobSets": ("sets", ",d"),
    "start (s)": ("start_seconds", ".1f"),
    "CPU of it (s)": ("start_cpu_seconds", ".1f"),
    "RSS (MiB)": ("rss_mib", ".0f"),
    "peak (MiB)": ("peak_rss_mib", ".0f"),
    "CPU at rest (%)": ("rest_percent", ".2f"),
    "delay p50 (ms)": ("delay_p50_ms", ".0f"),
    "p99 (ms)": ("delay_p99_ms", ".0f"),
    "calls/restart": ("calls_per_restart", ".1f"),
    "CPU (ms/restart)": ("cpu_ms_per_restart", ".1f"),
}


def show(results: list[JSON]) -> None:
    """A line for each number of JobSets, and what one more costs."""
    table = Table(*COLUMNS, box=None, pad_edge=False)
    for column in table.columns:
        column.justify = "right"
    for line in results:
        table.add_row(*(format(line[field], style) for field, style in COLUMNS.values()))
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    kib, start = 1024 * slope(results, "rss_mib"), 1000 * slope(results, "start_cpu_seconds")
    console.print(
        f"One more JobSet: {kib:.1f} KiB (goal: at most {GOAL_KIB_PER_SET}), {start:.2f} ms of processor time at the"
        f" start. At rest at most {GOAL_REST_PERCENT} % of a core, p99 at most {GOAL_P99_MS} ms.",
        highlight=False,
    )


if __name__ == "__main__":
    sys.exit(main())
