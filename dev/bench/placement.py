"""`python -m dev.bench.placement`: what exclusive placement costs beside plain pods, on a whole local control plane.

Every variant runs in turn, and all of them again for each repetition, so that what else the machine does hits all
alike; each with a fresh manager and a namespace of its own. Figures are medians with their range.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from rich.console import Console
from rich.table import Table

from api import keys
from cli import local
from dev.bench.ending import unwound_by_sigterm
from dev.bench.machine import machine
from dev.bench.options import positive
from dev.bench.placement_run import Bench, Size, run
from dev.bench.scene import JSON, BenchmarkError, Scene, say, wait
from dev.bench.sets import TOPOLOGY
from dev.cluster.assets import Sources, locate
from dev.cluster.cluster import Cluster, running
from dev.cluster.errors import DevclusterError
from dev.cluster.spec import ClusterSpec, FakeNodes
from manifests.workload import PodAdmission, pod_admission

EFFECT_SECONDS = 60
"""Until a policy that was made or deleted shows at the API server; it takes a few seconds."""

IDLE_SECONDS = 1.0
"""Rest of a new manager before its memory is read."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The JobSet, exclusive or not, with pods admitted in one of the ways of `manifests`."""

    name: str
    exclusive: bool = True
    pods: PodAdmission = "webhooks"


PLAIN = Variant("plain", exclusive=False)
VARIANTS = {PLAIN.name: PLAIN, **{pods: Variant(pods, pods=pods) for pods in get_args(PodAdmission)}}
USUAL = "plain,webhooks,policies"


@unwound_by_sigterm()
def main() -> int:
    options = _options()
    try:
        runs = measure(options.size, options.variants, repeat=options.repeat, wait_seconds=options.wait_seconds)
    except (BenchmarkError, DevclusterError, local.LocalError) as error:
        print(error, file=sys.stderr)
        return 1
    results = {"machine": machine(), "size": asdict(options.size), "runs": runs}
    if options.output == "json":
        print(json.dumps(results, indent=2))
    else:
        show(results)
    refused = sum(phase["pod_creates_refused"] for one in runs for phase in one.values() if isinstance(phase, dict))
    if refused:
        print(f"{refused} creations of pods were refused; the goal is none", file=sys.stderr)
    return 1 if refused else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dev.bench.placement", description=__doc__)
    usual = Size()
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--racks", type=positive, default=usual.racks, help="topology domains (default %(default)s)")
    parser.add_argument("--nodes", type=positive, default=usual.nodes, help="nodes of each rack (default %(default)s)")
    parser.add_argument("--jobs", type=positive, default=usual.jobs, help="Jobs of the JobSet (default %(default)s)")
    parser.add_argument("--pods", type=positive, default=usual.pods, help="pods of each Job (default %(default)s)")
    parser.add_argument("--repeat", type=positive, default=3, help="runs of each variant (default %(default)s)")
    parser.add_argument(
        "--variants", type=_variants, default=USUAL, help=f"some of {','.join(VARIANTS)} (default %(default)s)"
    )
    parser.add_argument(
        "--wait-seconds",
        type=float,
        default=30.0,
        help="with fewer racks than Jobs: how long to count the requests of waiting Jobs (default %(default)s)",
    )
    options = parser.parse_args()
    options.size = Size(options.racks, options.nodes, options.jobs, options.pods)
    if options.pods < 2:
        parser.error("--pods: a Job of one pod has no followers, so there is nothing to measure; give 2 or more")
    if options.pods > 2 * options.nodes:
        parser.error(f"--pods: two pods fill a node, so {options.nodes} nodes hold no more than {2 * options.nodes}")
    if PLAIN in options.variants and options.jobs * options.pods > 2 * options.racks * options.nodes:
        parser.error("--jobs: two pods fill a node, so not all pods of the plain variant have room")
    return options


def _variants(text: str) -> list[Variant]:
    """The variants of a comma-separated list."""
    names = text.split(",")
    if unknown := [name for name in names if name not in VARIANTS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not among {', '.join(VARIANTS)}")
    return [VARIANTS[name] for name in names]


def measure(size: Size, variants: list[Variant], *, repeat: int, wait_seconds: float) -> list[JSON]:
    """All runs, in the order in which they happened."""
    nodes = FakeNodes(count=size.racks * size.nodes, label_every={TOPOLOGY: size.nodes})
    spec = ClusterSpec(name="bench-placement", nodes=nodes)
    runs = []
    with tempfile.TemporaryDirectory(prefix="jobset-bench-") as scratch:
        folder = Path(scratch)
        say(f"starting a control plane with {nodes.count} fake nodes")
        with running(spec, sources=Sources(assets=locate(Sources())), state_root=folder / "cluster") as cluster:
            for number in range(repeat * len(variants)):
                variant = variants[number % len(variants)]
                say(f"run {number + 1} of {repeat * len(variants)}: {variant.name}")
                with prepared(cluster, folder / f"run-{number}", variant, size) as bench:
                    runs.append({"variant": variant.name, **run(bench, wait_seconds)})
    return runs


@contextlib.contextmanager
def prepared(cluster: Cluster, folder: Path, variant: Variant, size: Size) -> Iterator[Bench]:
    """A fresh manager, the variant installed, a namespace; the namespace is empty and gone afterwards."""
    port = local.free_port()
    install(cluster, variant, port)
    manager = local.start(cluster, folder, webhook_port=port)
    try:
        time.sleep(IDLE_SECONDS)
        scene = Scene(cluster, manager.process.pid, folder.name)
        scene.create_namespace()
        yield Bench(scene, size, variant.exclusive)
        scene.drop_namespace()
    finally:
        local.stop(manager)


def install(cluster: Cluster, variant: Variant, port: int) -> None:
    """What the variant needs, and nothing of the one before."""
    admission = json.dumps({"apiVersion": "v1", "kind": "List", "items": pod_admission("policies")})
    local.kubectl(cluster, "delete", "--ignore-not-found", "-f", "-", stdin=admission)
    wait(lambda: _policies_work(cluster) is False, EFFECT_SECONDS, "the policies of the run before to go")
    local.install(cluster, webhook_port=port, pods=variant.pods)
    if variant.pods != "webhooks":
        wait(lambda: _policies_work(cluster) is True, EFFECT_SECONDS, "the policies to work")


def _policies_work(cluster: Cluster) -> bool | None:
    """Whether the API server changes leaders and followers by itself; None while it does so to some, or not yet."""
    changed = []
    for index in ("0", "1"):
        meta = {
            "name": "probe",
            "labels": {keys.JOBSET_NAME: "probe", keys.JOB_KEY: "probe"},
            "annotations": {
                keys.JOBSET_NAME: "probe",
                keys.EXCLUSIVE_TOPOLOGY: TOPOLOGY,
                keys.COMPLETION_INDEX: index,
            },
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "probe", "uid": "probe", "controller": True}
            ],
        }
        pod = {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "train"}]}}
        with cluster.connect() as connection:
            status, answer = connection.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
        if status != 201:
            return None
        changed.append("affinity" in answer["spec"] or "schedulingGates" in answer["spec"])
    return changed[0] if len(set(changed)) == 1 else None


def show(results: JSON) -> None:
    """One table for each phase; each figure is the median of the runs."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    size, machine = Size(**results["size"]), results["machine"]
    where = f"{machine['system']}, {machine['cores']} cores, load {machine['load_average']:.2f} at the end"
    console.print(f"Python {machine['python']} on {where}", highlight=False)
    what = f"{size.jobs} Jobs of {size.pods} pods on {size.racks} racks of {size.nodes} nodes"
    for phase in ("start", "restart", "waiting"):
        rows = phase_rows(results["runs"], phase)
        if not rows:
            continue
        table = Table(title=f"{phase}: {what}", title_justify="left", box=None, pad_edge=False)
        for column in rows[0]:
            table.add_column(column, justify="left" if column == "variant" else "right", no_wrap=True)
        for row in rows:
            table.add_row(*row.values())
        console.print("", table)


def phase_rows(runs: list[JSON], phase: str) -> list[dict[str, str]]:
    """Column -> text for each variant that has had this phase, in the order of the first runs."""
    by_variant: dict[str, list[JSON]] = {}
    for one in runs:
        if phase in one:
            by_variant.setdefault(one["variant"], []).append(one)
    plain = _median(by_variant.get(PLAIN.name, []), phase, "seconds")
    return [_row(name, phase, found, plain) for name, found in by_variant.items()]


def _row(name: str, phase: str, runs: list[JSON], plain: float | None) -> dict[str, str]:
    """One line of a table."""
    row = {"variant": name, "runs": str(len(runs))}
    seconds = [one[phase]["seconds"] for one in runs if "seconds" in one[phase]]
    if seconds:
        row["all run (s)"] = f"{statistics.median(seconds):.1f} ({min(seconds):.1f}-{max(seconds):.1f})"
        row["x plain"] = f"{statistics.median(seconds) / plain:.2f}" if plain else "-"
        row["half run (s)"] = f"{_median(runs, phase, 'half_seconds'):.1f}"
    columns = {
        "refused": "pod_creates_refused",
        "created": "pods_created",
        "patched": "pods_patched_by_manager",
        "webhooks": "pod_webhook_calls",
        "therein (s)": "pod_webhook_seconds",
        "requests": "requests",
        "CPU (s)": "manager_cpu_seconds",
    }
    for column, key in columns.items():
        row[column] = f"{_median(runs, phase, key):.{1 if key.endswith('seconds') else 0}f}"
    row["RSS (MiB)"] = f"{_median(runs, 'idle_rss_mib'):.0f} -> {_median(runs, 'peak_rss_mib'):.0f}"
    return row


def _median(runs: list[JSON], *path: str) -> float | None:
    """Median of a figure of the runs; None without runs."""
    found = []
    for one in runs:
        value: Any = one
        for key in path:
            value = value.get(key) if value is not None else None
        if value is not None:
            found.append(value)
    return statistics.median(found) if found else None


if __name__ == "__main__":
    sys.exit(main())
