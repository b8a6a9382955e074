"""How many reviews a second an admission server answers at most: P8 (mutate) and P9 (validate).

`python -m dev.bench.saturation` measures one server without a cluster; `measure` any manager that is there already.
Reviews are creates of JobSets that differ in name and uid. A manager has to run without the child dry run, for with it
the figure is the API server's. It must not judge: goals belong to who asks.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from dev.bench import proc
from dev.bench.admission import samples
from dev.bench.admission.load import cores, server
from dev.bench.closed_loop import Load, run
from dev.bench.ending import unwound_by_sigterm
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH

CONNECTIONS = (1, 16, 64)
SIZES = {"2 KB": (1, 0), "20 KB": (8, 21)}
"""ReplicatedJobs and environment variables of each that make a review of about this size."""

SECONDS = 5.0
DIFFERENT = 64
"""JobSets that are sent in turn."""


def measure(
    port: int,
    ca_file: Path,
    seconds: float = SECONDS,
    connections: Sequence[int] = CONNECTIONS,
    sizes: Sequence[str] = tuple(SIZES),
    *,
    pid: int | None = None,
) -> list[dict[str, Any]]:
    """A row for each webhook, size and number of connections; with `pid`, what the server used is in it, too.

    A row has what `dev.bench.closed_loop.run` reports, `webhook`, `size`, `bytes` of a review and `connections`; with
    `pid` also `cpu_us`, processor time of the server and its children for one request, and their `rss_mib`.
    """
    return [
        {"webhook": webhook, "size": size, **_row(port, ca_file, path, size, Load(count, seconds, seconds / 5), pid)}
        for webhook, path in (("mutate", MUTATE_PATH), ("validate", VALIDATE_PATH))
        for size in sizes
        for count in connections
    ]


def _row(port: int, ca_file: Path, path: str, size: str, load: Load, pid: int | None) -> dict[str, Any]:
    bodies = list(reviews(path, *SIZES[size]))
    before = proc.cpu_seconds(pid) if pid else 0.0
    report = {"bytes": len(bodies[0]), "connections": load.connections, **run(port, ca_file, path, bodies, load)}
    if pid:
        used = proc.cpu_seconds(pid) - before
        report |= {"cpu_us": used * 1e6 / max(report["answered"], 1), "rss_mib": proc.memory_mib(pid)}
    return report


def reviews(path: str, rjobs: int, env: int) -> Iterator[bytes]:
    """As the API server sends them: what a validating webhook gets has its defaults."""
    for i in range(DIFFERENT):
        js = samples.jobset(rjobs, env)
        js["metadata"]["name"] += f"-{i:02}"
        yield samples.review(
            samples.stored(js) if path == VALIDATE_PATH else js, uid=f"705ab4f5-6393-11e8-b7cc-{i:012}"
        )


HEAD = ("webhook", "size", "conns", "req/s", "p50", "p99", "refused", "lost", "CPU", "RSS")
UNITS = "p50, p99: milliseconds; CPU: microseconds of the server for one request; RSS: MiB"


def rows(result: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The result as texts under `HEAD`, in `UNITS`; empty where it is not known."""
    return [
        (
            row["webhook"],
            row["size"],
            str(row["connections"]),
            f"{row['per_s']:,.0f}",
            *(f"{row[key]:.2f}" for key in ("p50_ms", "p99_ms")),
            str(row["refused"]),
            str(row["lost"]),
            *(f"{row[key]:.0f}" if key in row else "" for key in ("cpu_us", "rss_mib")),
        )
        for row in result
    ]


@unwound_by_sigterm()
def main() -> None:
    options = _options()
    ours, theirs = cores()
    with server(ours) as (running, _):
        os.sched_setaffinity(0, {theirs})  # the generator inherits it
        pid = running.process.pid
        result = measure(
            running.port, running.authorities, options.seconds, options.connections, options.sizes, pid=pid
        )
    if options.output == "json":
        print(json.dumps(result, indent=2))
        return
    title = f"Admission at saturation, {options.seconds:g} s each, load {os.getloadavg()[0]:.2f}"
    table = Table(*HEAD, title=title, caption=UNITS, box=SIMPLE_HEAD)
    for row in rows(result):
        table.add_row(*row)
    Console().print(table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dev.bench.saturation", description=__doc__)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="format of the result")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of a run (default %(default)s)")
    parser.add_argument("--connections", type=int, nargs="+", default=CONNECTIONS, help="numbers of connections")
    parser.add_argument("--sizes", choices=SIZES, nargs="+", default=tuple(SIZES), help="sizes of reviews")
    return parser.parse_args()


if __name__ == "__main__":
    main()
