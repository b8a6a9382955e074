"""Measurements that a manager has once and without fake nodes: admission, the simulated API server, the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from http.client import HTTPException

from cli import local
from dev.bench import plan, saturation
from dev.bench.managers import Entry, running_manager, scratch_cluster
from dev.bench.output import JSON
from dev.bench.run import Bench
from dev.bench.simulated import in_place, many
from dev.bench.simulated import run as simulated
from dev.bench.simulated.bench import SimulationError
from dev.bench.simulated.fleet import Fleet
from dev.cluster.errors import DevclusterError
from dev.cluster.spec import ClusterSpec


@dataclass(frozen=True, slots=True)
class Measurement:
    """Rows for one manager, which go under `key` of the results."""

    codes: frozenset[str]
    title: str
    key: str
    rows: Callable[[Bench, Entry], Iterator[JSON]]


def measure(bench: Bench) -> JSON:
    """Rows by key and manager, and those of the plan (P11), with errors beside them."""
    results: JSON = {"admission": {}, "simulated": {}, "errors": []}
    for entry in bench.entries:
        for each in MEASUREMENTS:
            if entry.floor or not bench.wanted & each.codes:
                continue
            bench.say(f"{entry.name}: {each.title}")
            try:
                for row in each.rows(bench, entry):
                    results.setdefault(each.key, {}).setdefault(entry.name, []).append(row)
            except (SimulationError, DevclusterError, local.LocalError, OSError, HTTPException) as error:
                results["errors"].append(f"{entry.name}: {each.title}: {str(error) or type(error).__name__}")
    results["simulated"] = {name: row for name, [row] in results["simulated"].items()}
    if "P11" in bench.wanted:
        bench.say("P11, plan() of this tree")
        results["plan"] = [asdict(row) for row in plan.measure()]
    return results


def _admission(workers: int, _bench: Bench, entry: Entry) -> Iterator[JSON]:
    """Rows of `saturation.measure` with the number of `workers`, the processes that serve."""
    # Sections that the Go manager's file does not have are left out where they are the default.
    sections: JSON = {"childDryRun": {"enable": False}}
    if workers > 1:
        sections["webhook"] = {"workers": workers}
    with (
        scratch_cluster(ClusterSpec(name="bench-admission", profile="api")) as (cluster, folder),
        running_manager(cluster, folder / "manager", entry, sections) as manager,
    ):
        authority = folder / "manager" / "certs" / "ca.crt"
        for row in saturation.measure(manager.webhook_port, authority, pid=manager.process.pid):
            yield {"workers": workers, **row}


def _fleet(bench: Bench, entry: Entry) -> Iterator[JSON]:
    usual = Fleet()
    jobs = bench.scale_count(usual.jobs)
    fleet = replace(usual, domains=usual.jobsets * jobs, jobs=jobs)
    yield simulated.measure(entry.command, fleet, bench.scale_count(simulated.SINGLE_JOBS))


def _many(bench: Bench, entry: Entry, sizes: tuple[int, ...] = many.SIZES, nodes: int = 0) -> Iterator[JSON]:
    for sets in bench.sizes or sizes:
        bench.say(f"  {sets:,} JobSets")
        yield many.measure(entry.command, sets, nodes=nodes)


def _in_place(bench: Bench, entry: Entry) -> Iterator[JSON]:
    for pods in filter(None, bench.sizes or in_place.SIZES):
        bench.say(f"  {pods:,} pods")
        yield in_place.measure(entry.command, pods)


MEASUREMENTS = (
    Measurement(frozenset({"P8", "P9"}), "P8 and P9, 1 process", "admission", partial(_admission, 1)),
    # A manager that cannot do more than one is measured with one.
    Measurement(frozenset({"P8", "P9"}), "P8 and P9, 2 processes", "admission", partial(_admission, 2)),
    Measurement(frozenset({"P12"}), "P12, under a simulated API server", "simulated", _fleet),
    Measurement(frozenset({"P20"}), "P20, many JobSets", "many", _many),
    Measurement(
        frozenset({"P21"}), "P21, JobSets that watch nodes", "watching", partial(_many, sizes=(1000,), nodes=15_000)
    ),
    Measurement(frozenset({"P22"}), "P22, a large restart in place", "in_place", _in_place),
)
