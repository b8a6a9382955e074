"""Measurements that a manager has once and without fake nodes: admission, the simulated API server, the plan."""

from __future__ import annotations

from dataclasses import asdict

from cli import local
from dev.bench import plan, saturation
from dev.bench.managers import Entry, running_manager, scratch_cluster
from dev.bench.output import JSON
from dev.bench.run import Bench
from dev.bench.simulated import run as simulated
from dev.cluster.errors import DevclusterError
from dev.cluster.spec import ClusterSpec

WORKERS = (1, 2)
"""Processes that serve admission; a manager that cannot do more than one is measured with one."""


def measure(bench: Bench) -> JSON:
    """Admission (P8, P9) and the simulated server (P12) by manager, and the plan (P11), with errors beside them."""
    results: JSON = {"admission": {}, "simulated": {}, "errors": []}
    for entry in bench.entries:
        if entry.floor:
            continue
        if bench.wanted & {"P8", "P9"}:
            results["admission"][entry.name] = _admission(bench, entry, results["errors"])
        if "P12" in bench.wanted:
            bench.say(f"{entry.name}: P12, under a simulated API server")
            try:
                results["simulated"][entry.name] = simulated.measure(list(entry.command))
            except simulated.SimulationError as error:
                results["errors"].append(f"{entry.name}: P12: {error}")
    if "P11" in bench.wanted:
        bench.say("P11, plan() of this tree")
        results["plan"] = [asdict(row) for row in plan.measure()]
    return results


def _admission(bench: Bench, entry: Entry, errors: list[str]) -> list[JSON]:
    """Rows of `saturation.measure` with the number of `workers`."""
    rows: list[JSON] = []
    for workers in WORKERS:
        bench.say(f"{entry.name}: P8 and P9, {workers} process{'es' if workers > 1 else ''}")
        # Sections that the Go manager's file does not have are left out where they are the default.
        sections: JSON = {"childDryRun": {"enable": False}}
        if workers > 1:
            sections["webhook"] = {"workers": workers}
        try:
            with (
                scratch_cluster(ClusterSpec(name="bench-admission", profile="api")) as (cluster, folder),
                running_manager(cluster, folder / "manager", entry, sections) as manager,
            ):
                authority = folder / "manager" / "certs" / "ca.crt"
                found = saturation.measure(manager.webhook_port, authority, pid=manager.process.pid)
            rows += [{"workers": workers, **row} for row in found]
        except (DevclusterError, local.LocalError) as error:
            errors.append(f"{entry.name}: P8 and P9 with {workers} processes: {error}")
    return rows
