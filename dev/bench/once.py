"""Measures admission and the plan, once and without fake nodes."""

from collections.abc import Iterator
from http.client import HTTPException

from dev import local
from dev.bench import plan, saturation
from dev.bench.managers import Entry, running_manager
from dev.bench.run import Bench
from dev.cluster.errors import DevclusterError
from dev.cluster.spec import ClusterSpec
from kube.model.meta import JSON

WORKER_COUNTS = (1, 2)
"""Numbers of processes that serve admission. The Go JobSet is measured with the first only."""
GO = "go"
"""The name that the Go JobSet has to have. It refuses fields of the configuration that it does not know."""


def measure(bench: Bench) -> JSON:
    """Measure admission (P8, P9) of each manager, and the plan (P11). Returns rows of figures, and errors."""
    results: JSON = {"admission": {}, "errors": []}
    for entry in bench.entries:
        if entry.is_floor or bench.wanted.isdisjoint({"P8", "P9"}):
            continue
        for workers in WORKER_COUNTS[:1] if entry.name == GO else WORKER_COUNTS:
            title = f"{entry.name}: P8 and P9, processes: {workers}"
            bench.say(title)
            try:
                for row in _measure_admission(workers, entry):
                    results["admission"].setdefault(entry.name, []).append(row)
            except (DevclusterError, OSError, HTTPException) as error:
                results["errors"].append(f"{title}: {str(error) or type(error).__name__}")
    if "P11" in bench.wanted:
        bench.say("P11, plan() of this tree")
        results["plan"] = plan.measure()
    return results


def _measure_admission(workers: int, entry: Entry) -> Iterator[JSON]:
    """Rows of `saturation.measure` with the number of `workers`, the processes that serve."""
    sections: JSON = {} if entry.name == GO else {"childDryRun": {"enable": False}}
    if workers > 1:
        sections["webhook"] = {"workers": workers}
    with (
        local.temporary_cluster(ClusterSpec(name="bench-admission", profile="api")) as cluster,
        running_manager(cluster, cluster.plan.layout.root / "manager", entry, sections) as manager,
    ):
        authority = manager.log.with_name("certs") / "ca.crt"
        for row in saturation.measure(manager.webhook_port, authority, pid=manager.process.pid):
            yield {"workers": workers, **row}
