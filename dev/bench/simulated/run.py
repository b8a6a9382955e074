"""P12: a manager that starts with a fleet of exclusive JobSets, restarts all of them, and runs one more."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from controllers.resources import JOBSETS
from dev.bench.output import JSON, Columns, cells
from dev.bench.proc import cpu_seconds, memory_mib
from dev.bench.simulated.bench import Bench, running_manager, simulated_server
from dev.bench.simulated.fleet import NAMESPACE, WORKERS, Fleet, jobset, set_name

PROBE, SINGLE = "probe", "single"
SINGLE_JOBS = 5000


def measure(command: Sequence[str], fleet: Fleet, single: int) -> JSON:
    """Start, restart of everything, and creation and restart of a JobSet with `single` Jobs of one pod.

    Sizes are in MiB, times in seconds.
    """
    collection = JOBSETS.path(NAMESPACE)
    with tempfile.TemporaryDirectory() as name, simulated_server(Path(name), fleet) as connection:
        connection.request("POST", collection, jobset(PROBE, 1, 1, exclusive=False))
        started = time.monotonic()
        with running_manager(connection, command, Path(name)) as bench:
            first = bench.wait("counts", lambda now: now["first_write"] is not None, "the first reconcile")
            bench.wait_until_idle()
            counts, pid = bench.get("counts"), bench.manager.pid
            start = {
                "seconds": first["first_write"] - started,
                "cpu_seconds": cpu_seconds(pid),
                "requests": sum(bench.calls().values()),
                "rss_mib": memory_mib(pid),
            }
            restart = _restart(bench, [set_name(number) for number in range(fleet.jobsets)], fleet.jobs)
            with bench.measure_phase() as created:
                bench.request("POST", collection, jobset(SINGLE, single, 1, exclusive=False))
                bench.wait_until_ready([SINGLE], single, 0)
            _add_rates(created, single, single)
            again = _restart(bench, [SINGLE], single)
            peak = memory_mib(pid, "VmHWM")
    return {
        "fleet": asdict(fleet),
        "nodes": counts["nodes"],
        "pods": counts["pods"],
        "start": start,
        "restart": restart,
        "single": {"create": created, "restart": again},
        "peak_rss_mib": peak,
        "kib_per_node": peak * 1024 / counts["nodes"],
    }


def _restart(bench: Bench, names: Sequence[str], jobs: int) -> JSON:
    """Let one Job of each of these JobSets fail, and wait until all their Jobs run again."""
    restarts = bench.get("jobsets")[names[0]]["restarts"] + 1
    pods = bench.get("counts")["pods_started"]
    with bench.measure_phase() as phase:
        for name in names:
            bench.request("POST", f"/simulated/fail?namespace={NAMESPACE}&name={name}-{WORKERS}-0")
        bench.wait_until_ready(names, jobs, restarts)
    _add_rates(phase, jobs * len(names), bench.get("counts")["pods_started"] - pods)
    return phase


def _add_rates(phase: JSON, jobs: int, pods: int) -> None:
    phase |= {
        "jobs": jobs,
        "pods": pods,
        "pods_per_second": pods / phase["seconds"],
        "pods_per_cpu_second": pods / phase["cpu_seconds"],
        "cpu_ms_per_job": 1000 * phase["cpu_seconds"] / jobs,
    }


COLUMNS: Columns = {
    "seconds": ("seconds", ".1f"),
    "pods/s": ("pods_per_second", ",.0f"),
    "CPU (s)": ("cpu_seconds", ".1f"),
    "CPU (ms/Job)": ("cpu_ms_per_job", ".2f"),
    "requests": ("requests", "d"),
    "RSS (MiB)": ("rss_mib", ".0f"),
}


def rows(result: JSON) -> list[dict[str, str]]:
    """A row of a table for each phase."""
    single = result["single"]
    phases = {
        "restart of all": result["restart"],
        "one pod a Job, create": single["create"],
        "one pod a Job, restart": single["restart"],
    }
    titles = {f"start: {result['nodes']:,} nodes, {result['pods']:,} pods": result["start"]}
    titles |= {f"{title}: {phase['jobs']:,} Jobs, {phase['pods']:,} pods": phase for title, phase in phases.items()}
    return [{"phase": title, **cells(COLUMNS, phase)} for title, phase in titles.items()]
