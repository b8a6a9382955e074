"""What one more JobSet costs a manager that has many, most of them at rest: `python -m dev.bench.simulated.many`.

Each has five Jobs of one pod, all running; one Job has failed just before the manager starts. Measured for each number
of them: the start until the manager writes a status because of this failure, and until it is idle; memory; processor
time while nothing happens but nodes that report; the time from a Job's failure to the write that counts the restart,
twenty failures a second, each in another JobSet; what it costs to list all again after all watches have ended; how soon
a standby acts when the leader has ended; and what the deletion of all JobSets costs.
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

from controllers.resources import JOBSETS
from dev.bench.ending import unwound_by_sigterm
from dev.bench.options import numbers
from dev.bench.proc import cpu_seconds, memory_mib, shared_once_mib
from dev.bench.simulated import sizes
from dev.bench.simulated.fleet import NAMESPACE, WORKERS, Fleet, set_name
from dev.bench.simulated.run import (
    JSON,
    LONGEST_SECONDS,
    PROMPT_SECONDS,
    QUIET_SECONDS,
    Bench,
    SimulationError,
    running_manager,
    simulated_server,
)
from dev.cluster.rest import Connection

FLEET = Fleet(domains=100, nodes=10, jobsets=0, jobs=5, pods=1, exclusive=False)
NODE_SECONDS = 300
"""How often a kubelet reports when nothing has changed; the Leases that it renews besides are not watched."""

NODE_GATE = "JobSetNodeFailure"
FAILURES_PER_SECOND = 20
IDLE = 0.05
"""Of a core: a manager that takes less for some seconds has come to rest."""

NO_TAKEOVER = {
    "takeover_ms": 0.0,
    "deletion_seconds": 0.0,
    "deletion_cpu_seconds": 0.0,
    "deletion_cpu_ms_per_set": 0.0,
    "deletion_calls": 0,
}
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
        if sets:
            connection.request("POST", _fail(0, 2))
        started = time.monotonic()
        with running_manager(command, Path(name), feature_gates=gates) as (process, log):
            bench = Bench(connection, process, log)
            bench.wait_for_counts(lambda state: bool(state["calls"]), "the manager's first request")
            bench.wait_for_counts(lambda state: len(state["delays"]) == min(1, sets), "the first reconcile")
            at_rest = _until_at_rest(bench)
            result: JSON = {
                "sets": sets,
                "nodes": fleet.domains * fleet.nodes,
                "first_write_seconds": max(bench.counts()["delays"], default=0.0),
                "start_seconds": at_rest - started,
                "start_cpu_seconds": cpu_seconds(process.pid),
                "rss_mib": memory_mib(process.pid),
                "pss_mib": shared_once_mib(process.pid),
            }
            busy = cpu_seconds(process.pid)
            time.sleep(rest_seconds)
            result["rest_percent"] = 100 * (cpu_seconds(process.pid) - busy) / rest_seconds
            result |= _failures(bench, min(failures, sets))
            result |= _relist(bench)
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
            bench.request("POST", _fail(0, 1))
            counts = bench.wait_for_counts(lambda state: len(state["delays"]) > before, "the standby to act")
            return {"takeover_ms": 1000.0 * counts["delays"][-1], **_deletion(bench, sets)}


def _deletion(bench: Bench, sets: int) -> JSON:
    """All JobSets are deleted at once, as with their namespace."""
    _until_at_rest(bench)
    calls, busy, begun = _calls_but_leases(bench), cpu_seconds(bench.manager.pid), time.monotonic()
    bench.request("DELETE", JOBSETS.path(NAMESPACE))
    bench.wait_for_counts(lambda state: state["pods"] == 0, "all pods to be gone")
    at_rest = _until_at_rest(bench)
    spent = cpu_seconds(bench.manager.pid) - busy
    return {
        "deletion_seconds": max(0.0, at_rest - begun),
        "deletion_cpu_seconds": spent,
        "deletion_cpu_ms_per_set": 1000 * spent / sets,
        "deletion_calls": _calls_but_leases(bench) - calls,
    }


def _until_at_rest(bench: Bench) -> float:
    """Since when a manager is idle and asks for nothing, in seconds of the machine's monotonic clock.

    Raises `SimulationError` if that never comes.
    """
    begun = since = time.monotonic()
    busy, asked = cpu_seconds(bench.manager.pid), -1
    while time.monotonic() < since + QUIET_SECONDS:
        look = time.monotonic()
        calls, now = _calls_but_leases(bench), cpu_seconds(bench.manager.pid)
        waits = time.monotonic() > look + PROMPT_SECONDS
        if waits or calls != asked or now - busy > IDLE * (time.monotonic() - since):
            since, busy, asked = time.monotonic(), now, calls
        if since > begun + LONGEST_SECONDS:
            raise SimulationError(f"the manager has not come to rest in {LONGEST_SECONDS} s\n{bench.tail()}")
        time.sleep(0.1)
    return since


def _relist(bench: Bench) -> JSON:
    """The server ends all watches, as it does when it has forgotten the changes since: all is listed again."""
    _until_at_rest(bench)
    calls, busy, begun = _calls_but_leases(bench), cpu_seconds(bench.manager.pid), time.monotonic()
    bench.request("POST", "/simulated/expire")
    bench.wait_for_counts(lambda state: _all(state) > calls, "the manager to list again")
    at_rest = _until_at_rest(bench)
    return {
        "relist_seconds": at_rest - begun,
        "relist_cpu_seconds": cpu_seconds(bench.manager.pid) - busy,
        "relist_calls": _calls_but_leases(bench) - calls,
    }


def _failures(bench: Bench, count: int) -> JSON:
    """Let a Job of each of so many JobSets fail, at a fixed rate whatever the manager does."""
    before, busy = bench.counts(), cpu_seconds(bench.manager.pid)
    calls, earlier = _all(before), len(before["delays"])
    begun = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begun + number / FAILURES_PER_SECOND - time.monotonic()))
        bench.request("POST", _fail(number, 0))
    bench.wait_for_counts(lambda state: len(state["delays"]) >= earlier + count, "all restarts to be counted")
    counts = bench.settle()
    delays = sorted(counts["delays"][earlier:])
    return {
        "failures": count,
        "delay_p50_ms": 1000 * statistics.median(delays) if delays else 0.0,
        "delay_p99_ms": 1000 * delays[math.ceil(0.99 * len(delays)) - 1] if delays else 0.0,
        "calls_per_restart": (_all(counts) - calls) / count if count else 0.0,
        "cpu_ms_per_restart": 1000 * (cpu_seconds(bench.manager.pid) - busy) / count if count else 0.0,
    }


def _fail(number: int, job: int) -> str:
    """The path that lets a Job of a JobSet fail."""
    return f"/simulated/fail?namespace={NAMESPACE}&name={set_name(number)}-{WORKERS}-{job}"


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
        prog="python -m dev.bench.simulated.many",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    own = shlex.join([sys.executable, "-m", "cli", "manager"])
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
    "first write (s)": ("first_write_seconds", ".1f"),
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
    "relist (s)": ("relist_seconds", ".1f"),
    "relist CPU (s)": ("relist_cpu_seconds", ".1f"),
    "takeover (ms)": ("takeover_ms", ".0f"),
    "deletion (s)": ("deletion_seconds", ".1f"),
    "CPU (ms/set)": ("deletion_cpu_ms_per_set", ".2f"),
    "calls": ("deletion_calls", ",d"),
}

GROWING = {
    "first write": "first_write_seconds",
    "start": "start_seconds",
    "CPU of the start": "start_cpu_seconds",
    "memory": "pss_mib",
    "delay p50": "delay_p50_ms",
    "p99": "delay_p99_ms",
    "relist": "relist_seconds",
    "CPU of the relist": "relist_cpu_seconds",
    "takeover": "takeover_ms",
    "deletion": "deletion_seconds",
    "CPU of the deletion": "deletion_cpu_seconds",
}
"""What must not grow faster than the number of JobSets: figure by title."""


def growth(results: list[JSON]) -> str:
    """By which power of the number of JobSets each figure grows, and which of them miss the goal."""
    found = {title: sizes.exponent(results, "sets", figure) for title, figure in GROWING.items()}
    powers = {title: power for title, power in found.items() if power is not None}
    if not powers:
        return f"How figures grow shows from two sizes of at least {sizes.FITTED:,} JobSets on."
    steep = [title for title, power in powers.items() if power > sizes.GOAL_EXPONENT]
    listed = ", ".join(f"{title} {power:.2f}" for title, power in powers.items())
    verdict = f"steeper: {', '.join(steep)}" if steep else "none is steeper"
    return f"Figures grow by this power of the number (goal: at most {sizes.GOAL_EXPONENT}): {listed}; {verdict}."


def show(results: list[JSON]) -> None:
    """A line for each number of JobSets, what one more costs, and how figures grow."""
    console = sizes.table(COLUMNS, results)
    kib, start = 1024 * slope(results, "pss_mib"), 1000 * slope(results, "start_cpu_seconds")
    console.print(
        f"One more JobSet: {kib:.1f} KiB (goal: at most {GOAL_KIB_PER_SET}), {start:.2f} ms of processor time at the"
        f" start. At rest at most {GOAL_REST_PERCENT} % of a core, p99 at most {GOAL_P99_MS} ms, takeover at most"
        f" {GOAL_TAKEOVER_MS} ms.",
        highlight=False,
    )
    console.print(growth(results), highlight=False)


if __name__ == "__main__":
    sys.exit(main())
