"""P20 and P21: the cost of one more JobSet for a manager that has many, most of them at rest.

Each has five Jobs of one pod, all running; one Job has failed just before the manager starts. Measured for each number
of them: the start until the manager writes a status because of this failure, and until it is idle; memory; processor
time at rest, while nodes report; the time from a Job's failure to the write that counts the restart, twenty failures a
second, each in another JobSet; the cost of a new list of everything after all watches have ended; the time until a
standby acts after the leader has ended; and the cost of the deletion of all JobSets.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from controllers.resources import JOBSETS
from dev.bench.output import JSON, Columns
from dev.bench.proc import cpu_seconds, memory_mib, shared_once_mib
from dev.bench.simulated.bench import Bench, failure_path, running_manager, simulated_server
from dev.bench.simulated.fleet import NAMESPACE, Fleet
from dev.cluster.rest import Connection

FLEET = Fleet(domains=100, nodes=10, jobsets=0, jobs=5, pods=1, exclusive=False)
NODE_SECONDS = 300
"""Interval in which a kubelet reports without changes; the Leases that it renews besides are not watched."""

NODE_GATES = {"JobSetNodeFailure": True}
FAILURES_PER_SECOND = 20
ENDS_SECONDS = 30
"""Time limit for the end of a manager."""

SIZES = (0, 1000, 5000, 20_000)


def measure(
    command: Sequence[str], sets: int, *, rest_seconds: float = 30, failures: int = 400, nodes: int = 0
) -> JSON:
    """One row of the table. `rest_seconds` is the length of the time at rest. Raises `SimulationError`.

    `nodes`: all JobSets watch that many nodes, which report as kubelets do (gate JobSetNodeFailure).
    """
    fleet = replace(FLEET, jobsets=sets)
    gates = NODE_GATES if nodes else None
    if nodes:
        fleet = replace(fleet, domains=max(1, nodes // fleet.nodes), heartbeats=max(1, nodes // NODE_SECONDS))
    with tempfile.TemporaryDirectory() as name, simulated_server(Path(name), fleet) as connection:
        if sets:
            connection.request("POST", failure_path(0, 2))
        started = time.monotonic()
        with running_manager(connection, command, Path(name), feature_gates=gates) as bench:
            bench.wait_for_start()
            bench.wait("counts", lambda counts: len(counts["delays"]) == min(1, sets), "the first reconcile")
            at_rest, pid = bench.wait_until_idle(), bench.manager.pid
            result: JSON = {
                "sets": sets,
                "nodes": fleet.domains * fleet.nodes,
                "first_write_seconds": max(bench.get("counts")["delays"], default=0.0),
                "start_seconds": at_rest - started,
                "start_cpu_seconds": cpu_seconds(pid),
                "rss_mib": memory_mib(pid),
                "pss_mib": shared_once_mib(pid),
            }
            busy = cpu_seconds(pid)
            time.sleep(rest_seconds)
            result["rest_percent"] = 100 * (cpu_seconds(pid) - busy) / rest_seconds
            result |= _fail_jobs(bench, min(failures, sets)) | _relist(bench)
            result["peak_rss_mib"] = memory_mib(pid, "VmHWM")
        return result | (_take_over(command, Path(name), connection, gates, sets) if sets else {})


def _fail_jobs(bench: Bench, count: int) -> JSON:
    """Let a Job of each of that many JobSets fail, at a fixed rate whatever the manager does."""
    earlier = len(bench.get("counts")["delays"])
    with bench.measure_phase() as phase:
        begun = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, begun + number / FAILURES_PER_SECOND - time.monotonic()))
            bench.request("POST", failure_path(number, 0))
        goal = "all restarts to be counted"
        bench.wait("counts", lambda counts: len(counts["delays"]) >= earlier + count, goal)
    delays = sorted(bench.get("counts")["delays"][earlier:]) or [0.0]
    return {
        "failures": count,
        "delay_p50_ms": 1000 * statistics.median(delays),
        "delay_p99_ms": 1000 * delays[math.ceil(0.99 * len(delays)) - 1],
        "calls_per_restart": phase["requests"] / count if count else 0.0,
        "cpu_ms_per_restart": 1000 * phase["cpu_seconds"] / count if count else 0.0,
    }


def _relist(bench: Bench) -> JSON:
    """The server ends all watches, as with an expired history, and the manager lists everything again."""
    bench.wait_until_idle()
    before = bench.calls()
    with bench.measure_phase() as phase:
        bench.request("POST", "/simulated/expire")
        bench.wait("counts", lambda _: bench.calls() != before, "the manager to list again")
    return {
        "relist_seconds": phase["rest_seconds"],
        "relist_cpu_seconds": phase["cpu_seconds"],
        "relist_calls": phase["requests"],
    }


def _take_over(
    command: Sequence[str], folder: Path, connection: Connection, gates: Mapping[str, bool] | None, sets: int
) -> JSON:
    """Milliseconds until a standby writes the status of a JobSet that failed when the leader had just ended.

    Then all JobSets are deleted at once, as with their namespace, which costs the standby something, too.
    """
    with running_manager(connection, command, folder, replica="-leader", feature_gates=gates) as leader:
        leader.wait_until_idle()
        with running_manager(connection, command, folder, replica="-standby", feature_gates=gates) as standby:
            standby.wait_until_idle()
            leader.manager.terminate()
            leader.manager.wait(ENDS_SECONDS)
            before = len(standby.get("counts")["delays"])
            standby.request("POST", failure_path(0, 1))
            counts = standby.wait("counts", lambda counts: len(counts["delays"]) > before, "the standby to act")
            standby.wait_until_idle()
            with standby.measure_phase() as deletion:
                standby.request("DELETE", JOBSETS.path(NAMESPACE))
                standby.wait("counts", lambda counts: counts["pods"] == 0, "all pods to be gone")
    return {
        "takeover_ms": 1000.0 * counts["delays"][-1],
        "deletion_seconds": deletion["rest_seconds"],
        "deletion_cpu_seconds": deletion["cpu_seconds"],
        "deletion_cpu_ms_per_set": 1000 * deletion["cpu_seconds"] / sets,
        "deletion_calls": deletion["requests"],
    }


COLUMNS: Columns = {
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

GROWING = (
    "first_write_seconds",
    "start_seconds",
    "start_cpu_seconds",
    "pss_mib",
    "delay_p50_ms",
    "delay_p99_ms",
    "relist_seconds",
    "relist_cpu_seconds",
    "takeover_ms",
    "deletion_seconds",
    "deletion_cpu_seconds",
)
"""Figures that must not grow faster than the number of JobSets."""
