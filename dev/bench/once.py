"""What is measured once for a manager and without fake nodes: admission, the simulated API server, the plan.

Must not judge: that is the report's.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cli import local
from dev.bench import managers, plan, saturation
from dev.bench.managers import Entry
from dev.bench.run import Bench
from dev.bench.simulated import run as simulated
from dev.cluster.assets import Sources, locate
from dev.cluster.cluster import running
from dev.cluster.errors import DevclusterError
from dev.cluster.spec import ClusterSpec

JSON = dict[str, Any]

WORKERS = (1, 2)
"""Processes that serve admission; a manager that cannot do more than one is measured with one."""


def measure(bench: Bench) -> JSON:
    """The wanted ones of admission (P8, P9) and simulated (P12), by manager, and plan (P11); errors beside them."""
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
    rows = []
    for workers in WORKERS:
        bench.say(f"{entry.name}: P8 and P9, {workers} process{'es' if workers > 1 else ''}")
        # Sections that the Go manager's file does not have are left out where they are the default.
        sections: JSON = {"childDryRun": {"enable": False}}
        if workers > 1:
            sections["webhook"] = {"workers": workers}
        try:
            rows += [{"workers": workers, **row} for row in _saturated(entry, sections)]
        except (DevclusterError, local.LocalError) as error:
            errors.append(f"{entry.name}: P8 and P9 with {workers} processes: {error}")
    return rows


def _saturated(entry: Entry, sections: JSON) -> list[JSON]:
    spec = ClusterSpec(name="bench-admission", profile="api")
    with tempfile.TemporaryDirectory(prefix="jobset-bench-") as scratch:
        folder = Path(scratch)
        with (
            running(spec, sources=Sources(assets=locate(Sources())), state_root=folder / "cluster") as cluster,
            managers.started(cluster, folder / "manager", entry, sections) as manager,
        ):
            authority = folder / "manager" / "certs" / "ca.crt"
            return saturation.measure(manager.webhook_port, authority, pid=manager.process.pid)
