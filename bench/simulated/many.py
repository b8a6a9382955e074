"""What one more JobSet costs a manager that has many, most of them at rest: `python -m bench.simulated.many`.

Each has five Jobs of one pod, all running. Measured for each number of them: the start until the manager is idle,
memory, processor time while nothing happens but nodes that report, the time from a Job's failure to the write that
counts the restart, twenty failures a second, each in another JobSet; what the deletion of all JobSets costs; and how
soon a standby acts when the leader has ended.
"""

from __future__ import annotations

import argparse
import math
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bench.ending import unwound_by_sigterm
from bench.options import numbers
from bench.proc import cpu_seconds, memory_mib, shared_once_mib
from bench.simulated import sizes
from bench.simulated.fleet import NAMESPACE, WORKERS, Fleet, set_name
from bench.simulated.run import JSON, QUIET_SECONDS, Bench, running_manager, simulated_server
from controllers.resources import JOBSETS
from devcluster.rest import Connection

FLEET = Fleet(domains=100, nodes=10, jobsets=0, jobs=5, pods=1, exclusive=False)
NODE_SECONDS = 300
"""How often a kubelet reports when nothing has changed; the Leases that it renews besides are not watched."""

NODE_GATE = "JobSetNodeFailure"
FAILURES_PER_SECOND = 20
IDLE = 0.05
"""Of a core: a manager that takes less for some seconds has come to rest."""

NO_TAKEOVER = {"takeover_ms": 0.0, "deletion_seconds": 0.0, "deletion_cpu_ms_per_set": 0.0, "deletion_calls": 0}
ENDS_SECONDS = 30
"""So long a manager may take to end."""

GOAL_KIB_PER_SET, GOAL_REST_PERCENT, GOAL_P99_MS, GOAL_TAKEOVER_MS = 15, 1, 250, 2000


def measure(command: list[str], sets: int, *, rest_seconds: float, failures: int, nodes: int = 0) -> JSON:
    """One line of the table. `rest_seconds` is how long it is watched at rest. Raises `SimulationError`.

    `nodes`: all JobSets watch so many nodes, which report as kubelets do (gate JobSetNodeFailure).
    """
    fleet = replace(FLEET, jobsets=sets)
    gates = {NODE_GATE: True} if nodes else None
    if nodes:
        fleet = replace(fleet, domains=max(1, nodes // fleet.nodes), heartbeats=max(1, nodes // NODE_SECONDS))
    with tempfile.TemporaryDirectory() as name, simulated_server(Path(name), fleet) as connection:
        started = time.monotonic()
        with running_manager(command, Path(name), feature_gates=gates) as (process, log):
            bench = Bench(connection, process, log)
            bench.wait_for_counts(lambda state: bool(state["calls"]), "the manager's first request")
            at_rest = _until_at_rest(bench)
            result: JSON = {
                "sets": sets,
                "nodes": fleet.domains * fleet.nodes,
                "start_seconds": at_rest - started,
                "start_cpu_seconds": cpu_seconds(process.pid),
                "rss_mib": memory_mib(process.pid),
                "pss_mib": shared_once_mib(process.pid),
            }
            busy = cpu_seconds(process.pid)
            time.sleep(rest_seconds)
            result["rest_percent"] = 100 * (cpu_seconds(process.pid) - busy) / rest_seconds
            result |= _failures(bench, min(failures, sets))
            result["peak_rss_mib"] = memory_mib(process.pid, "VmHWM")
        return result | (_takeover(command, Path(name), connection, gates, sets) if sets else NO_TAKEOVER)


def _takeover(
    command: list[str], folder: Path, connection: Connection, gates: Mapping[str, bool] | None, sets: int
) -> JSON:
    """Milliseconds until a standby writes the status of a JobSet that failed when the leader had just ended.

    And what the deletion of all JobSets then costs the standby.
    """
    with running_manager(command, folder, replica="-leader", feature_gates=gates) as (leader, log):
        _until_at_rest(Bench(connection, leader, log))
        with running_manager(command, folder, replica="-standby", feature_gates=gates) as (standby, standby_log):
            bench = Bench(connection, standby, standby_log)
            _until_at_rest(bench)
            leader.terminate()
            leader.wait(ENDS_SECONDS)
            before = len(bench.counts()["delays"])
            bench.request("POST", f"/simulated/fail?namespace={NAMESPACE}&name={set_name(0)}-{WORKERS}-1")
            counts = bench.wait_for_counts(lambda state: len(state["delays"]) > before, "the standby to act")
            return {"takeover_ms": 1000.0 * counts["delays"][-1], **_deletion(bench, sets)}


def _deletion(bench: Bench, sets: int) -> JSON:
    """All JobSets are deleted at once, as with their namespace."""
    _until_at_rest(bench)
    calls, busy, begun = _calls_but_leases(bench), cpu_seconds(bench.manager.pid), time.monotonic()
    bench.request("DELETE", JOBSETS.path(NAMESPACE))
    bench.wait_for_counts(lambda state: state["pods"] == 0, "all pods to be gone")
    at_rest = _until_at_rest(bench)
    return {
        "deletion_seconds": max(0.0, at_rest - begun),
        "deletion_cpu_ms_per_set": 1000 * (cpu_seconds(bench.manager.pid) - busy) / sets,
        "deletion_calls": _calls_but_leases(bench) - calls,
    }


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
        bench.request("POST", f"/simulated/fail?namespace={NAMESPACE}&name={set_name(number)}-{WORKERS}-0")
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


def _calls_but_leases(bench: Bench) -> int:
    return sum(count for _, what, _, count in bench.counts()["calls"] if what != "leases")


def _all(counts: JSON) -> int:
    return sum(call[-1] for call in counts["calls"])


def slope(results: list[JSON], field: str) -> float:
    """Growth of a figure with one more JobSet, fitted through all sizes."""
    if len(results) < 2:
        return 0.0
    return statistics.linear_regression([line["sets"] for line in results], [line[field] for line in results]).slope


@unwound_by_sigterm()
def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.simulated.many", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    own = shlex.join([sys.executable, "-m", "app", "manager"])
    parser.add_argument("--manager", default=own, help="command that is given --config and --kubeconfig (our own)")
    parser.add_argument(
        "--sets", type=numbers, default="0,1000,5000,20000", help="numbers of JobSets (default %(default)s)"
    )
    parser.add_argument("--rest", type=float, default=30, metavar="SECONDS", help="at rest (default %(default)s)")
    parser.add_argument("--nodes", type=int, default=0, help="that all JobSets watch, and that report (default: none)")
    parser.add_argument("--failures", type=int, default=400, help="JobSets that fail (default %(default)s)")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table", help="format of the result")
    args = parser.parse_args()
    return sizes.each(
        args.sets,
        "JobSets",
        lambda sets: measure(
            shlex.split(args.manager), sets, rest_seconds=args.rest, failures=args.failures, nodes=args.nodes
        ),
        show,
        args.output,
    )


COLUMNS = {
    "JobSets": ("sets", ",d"),
    "start (s)": ("start_seconds", ".1f"),
    "CPU of it (s)": ("start_cpu_seconds", ".1f"),
    "RSS (MiB)": ("rss_mib", ".0f"),
    "PSS (MiB)": ("pss_mib", ".0f"),
    "peak (MiB)": ("peak_rss_mib", ".0f"),
    "CPU at rest (%)": ("rest_percent", ".2f"),
    "delay p50 (ms)": ("delay_p50_ms", ".0f"),
    "p99 (ms)": ("delay_p99_ms", ".0f"),
    "calls/restart": ("calls_per_restart", ".1f"),
    "CPU (ms/restart)": ("cpu_ms_per_restart", ".1f"),
    "takeover (ms)": ("takeover_ms", ".0f"),
    "deletion (s)": ("deletion_seconds", ".1f"),
    "CPU (ms/set)": ("deletion_cpu_ms_per_set", ".2f"),
    "calls": ("deletion_calls", ",d"),
}


def show(results: list[JSON]) -> None:
    """A line for each number of JobSets, and what one more costs."""
    console = sizes.table(COLUMNS, results)
    kib, start = 1024 * slope(results, "pss_mib"), 1000 * slope(results, "start_cpu_seconds")
    console.print(
        f"One more JobSet: {kib:.1f} KiB (goal: at most {GOAL_KIB_PER_SET}), {start:.2f} ms of processor time at the"
        f" start. At rest at most {GOAL_REST_PERCENT} % of a core, p99 at most {GOAL_P99_MS} ms, takeover at most"
        f" {GOAL_TAKEOVER_MS} ms.",
        highlight=False,
    )


if __name__ == "__main__":
    sys.exit(main())
