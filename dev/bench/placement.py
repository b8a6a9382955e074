"""`python -m dev.bench.placement`: the cost of exclusive placement beside plain pods, on a whole local control plane.

Variants take turns, so that other load on the machine affects all alike. Each run has a fresh manager and an own
namespace. Figures are medians with their range.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from prometheus_client.parser import text_string_to_metric_families

from api import keys
from cli import local
from dev.bench.ending import unwound_by_sigterm
from dev.bench.managers import scratch_cluster
from dev.bench.output import (
    JSON,
    command_line,
    machine,
    machine_text,
    names_among,
    positive,
    print_result,
    print_table,
    print_text,
)
from dev.bench.phases import count_requests
from dev.bench.play import Play
from dev.bench.proc import memory_mib
from dev.bench.report import Spread, median_text
from dev.bench.scene import BenchmarkError, Scene, say, wait
from dev.bench.sets import HALF_A_NODE, TOPOLOGY, check_exclusive, jobset
from dev.cluster.cluster import Cluster
from dev.cluster.errors import DevclusterError
from dev.cluster.spec import ClusterSpec, FakeNodes
from manifests.workload import PodAdmission, pod_admission

EFFECT_SECONDS = 60
"""Time limit for a policy that was created or deleted to take effect; it takes a few seconds."""

IDLE_SECONDS = 1.0
"""Time that a new manager has before its memory is read."""

WEBHOOK_TIMES = "apiserver_admission_webhook_admission_duration_seconds"
PLAIN = "plain"
VARIANTS: dict[str, PodAdmission] = {PLAIN: "webhooks", **{pods: pods for pods in get_args(PodAdmission)}}
"""Pods without exclusive placement, and those with it, by each way of `manifests` to admit them."""


@dataclass(frozen=True, slots=True)
class Size:
    """The nodes in racks, and the JobSet."""

    racks: int = 60
    nodes: int = 10
    jobs: int = 40
    pods: int = 10


@unwound_by_sigterm()
def main() -> int:
    options = _options()
    try:
        runs = measure(options.size, options.variants, repeat=options.repeat, wait_seconds=options.wait_seconds)
    except (BenchmarkError, DevclusterError, local.LocalError) as error:
        print(error, file=sys.stderr)
        return 1
    print_result(options.output, {"machine": machine(), "size": asdict(options.size), "runs": runs}, show)
    refused = sum(phase["pod_creates_refused"] for run in runs for phase in run.values() if isinstance(phase, dict))
    if refused:
        print(f"{refused} creations of pods were refused; the goal is none", file=sys.stderr)
    return int(bool(refused))


def _options() -> argparse.Namespace:
    parser = command_line("dev.bench.placement", __doc__)
    usual = Size()
    parser.add_argument("--racks", type=positive, default=usual.racks, help="topology domains (default %(default)s)")
    parser.add_argument("--nodes", type=positive, default=usual.nodes, help="nodes of each rack (default %(default)s)")
    parser.add_argument("--jobs", type=positive, default=usual.jobs, help="Jobs of the JobSet (default %(default)s)")
    parser.add_argument("--pods", type=positive, default=usual.pods, help="pods of each Job (default %(default)s)")
    parser.add_argument("--repeat", type=positive, default=3, help="runs of each variant (default %(default)s)")
    parser.add_argument(
        "--variants",
        type=names_among(tuple(VARIANTS)),
        default="plain,webhooks,policies",
        help=f"some of {','.join(VARIANTS)} (default %(default)s)",
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


def measure(size: Size, variants: list[str], *, repeat: int, wait_seconds: float) -> list[JSON]:
    """All runs, in the order in which they happened."""
    nodes = FakeNodes(count=size.racks * size.nodes, label_every={TOPOLOGY: size.nodes})
    runs: list[JSON] = []
    say(f"starting a control plane with {nodes.count} fake nodes")
    with scratch_cluster(ClusterSpec(name="bench-placement", nodes=nodes)) as (cluster, folder):
        for number in range(repeat * len(variants)):
            variant = variants[number % len(variants)]
            say(f"run {number + 1} of {repeat * len(variants)}: {variant}")
            with _manager(cluster, folder / f"run-{number}", variant) as scene:
                runs.append({"variant": variant, **_run(scene, size, variant != PLAIN, wait_seconds)})
    return runs


def _run(scene: Scene, size: Size, exclusive: bool, wait_seconds: float) -> JSON:
    """Start and restart. If Jobs wait for a rack, also their requests in `wait_seconds` of waiting."""
    play = Play(scene, room=room(size) if exclusive else None)
    run: JSON = {"idle_rss_mib": memory_mib(scene.pid)}
    with _webhooks_counted(scene) as calls:
        run["start"] = play.create(jobset(size.jobs, size.pods, cpu=HALF_A_NODE, exclusive=exclusive))
    run["start"] |= calls
    if play.room:
        with _webhooks_counted(scene) as calls, count_requests(scene) as run["waiting"]:
            time.sleep(wait_seconds)
        run["waiting"] |= calls
        check_exclusive(scene, scene.items("pods", query="?fieldSelector=status.phase%3DRunning"))
    with _webhooks_counted(scene) as calls:
        run["restart"] = play.restart()
    run["restart"] |= calls
    peak = max(phase["peak_rss_mib"] for phase in run.values() if isinstance(phase, dict))
    return run | {"rss_mib": memory_mib(scene.pid), "peak_rss_mib": peak}


def room(size: Size) -> int | None:
    """The exclusive Jobs that run at once, if there are fewer racks than Jobs: each needs a rack of its own."""
    return size.racks if size.racks < size.jobs else None


@contextlib.contextmanager
def _webhooks_counted(scene: Scene) -> Iterator[JSON]:
    """Calls of the webhooks of pods in the block, and the seconds that the creators of pods waited for them."""
    calls: JSON = {}
    before, seconds_before = webhook_times(scene)
    yield calls
    after, seconds = webhook_times(scene)
    calls |= {"pod_webhook_calls": after - before, "pod_webhook_seconds": seconds - seconds_before}


def webhook_times(scene: Scene) -> tuple[int, float]:
    """Number and seconds of the calls so far, from the API server's metrics."""
    count, seconds = 0.0, 0.0
    text = "\n".join(line for line in scene.request("GET", "/metrics").splitlines() if WEBHOOK_TIMES in line)
    for family in text_string_to_metric_families(text + "\n"):
        for sample in family.samples:
            if "pod" in sample.labels.get("name", ""):
                count += sample.value if sample.name.endswith("_count") else 0
                seconds += sample.value if sample.name.endswith("_sum") else 0
    return int(count), seconds


@contextlib.contextmanager
def _manager(cluster: Cluster, folder: Path, variant: str) -> Iterator[Scene]:
    """A fresh manager with the variant installed, and a namespace that is empty and gone afterwards."""
    port = local.free_port()
    install(cluster, VARIANTS[variant], port)
    manager = local.start(cluster, folder, webhook_port=port)
    try:
        time.sleep(IDLE_SECONDS)
        scene = Scene(cluster, manager.process.pid, folder.name)
        scene.create_namespace()
        yield scene
        scene.drop_namespace()
    finally:
        local.stop(manager)


def install(cluster: Cluster, pods: PodAdmission, port: int) -> None:
    """Install a way to admit pods, in the place of the one before."""
    admission = json.dumps({"apiVersion": "v1", "kind": "List", "items": pod_admission("policies")})
    local.kubectl(cluster, "delete", "--ignore-not-found", "-f", "-", stdin=admission)
    wait(lambda: _policies_work(cluster) is False, EFFECT_SECONDS, "the policies of the run before to go")
    local.install(cluster, webhook_port=port, pods=pods)
    if pods != "webhooks":
        wait(lambda: _policies_work(cluster) is True, EFFECT_SECONDS, "the policies to work")


def _policies_work(cluster: Cluster) -> bool | None:
    """Whether the API server itself changes leaders and followers; None while that differs, or cannot be told."""
    changed = set()
    for index in ("0", "1"):
        labels = {keys.JOBSET_NAME: "probe", keys.JOB_KEY: "probe"}
        annotations = {
            keys.JOBSET_NAME: "probe",
            keys.EXCLUSIVE_TOPOLOGY: TOPOLOGY,
            keys.COMPLETION_INDEX: index,
        }
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "probe", "uid": "probe", "controller": True}
        meta = {"name": "probe", "labels": labels, "annotations": annotations, "ownerReferences": [owner]}
        pod = {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "train"}]}}
        with cluster.connect() as connection:
            status, answer = connection.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
        if status != 201:
            return None
        changed.add("affinity" in answer["spec"] or "schedulingGates" in answer["spec"])
    return changed.pop() if len(changed) == 1 else None


def show(results: JSON) -> None:
    """One table for each phase; each figure is the median of the runs."""
    size = Size(**results["size"])
    print_text(f"{machine_text(results['machine'])} at the end")
    for phase in ("start", "restart", "waiting"):
        title = f"{phase}: {size.jobs} Jobs of {size.pods} pods on {size.racks} racks of {size.nodes} nodes"
        print_table(phase_rows(results["runs"], phase), title)


COLUMNS = {
    "refused": ("pod_creates_refused", 0),
    "created": ("pods_created", 0),
    "patched": ("pods_patched_by_manager", 0),
    "webhooks": ("pod_webhook_calls", 0),
    "therein (s)": ("pod_webhook_seconds", 1),
    "requests": ("requests", 0),
    "CPU (s)": ("manager_cpu_seconds", 1),
}
"""Path of a figure and its digits, by the title of the column."""


def phase_rows(runs: list[JSON], phase: str) -> list[dict[str, str]]:
    """Column -> text for each variant that has had this phase, in the order of the first runs."""
    by_variant: dict[str, list[JSON]] = {}
    for run in runs:
        if phase in run:
            by_variant.setdefault(run["variant"], []).append(run)
    plain = Spread.at(by_variant.get(PLAIN, []), f"{phase}.seconds")
    rows = []
    for variant, found in by_variant.items():
        phases = [run[phase] for run in found]
        row = {"variant": variant, "runs": str(len(found))}
        if seconds := Spread.at(phases, "seconds"):
            row["all run (s)"] = seconds.text()
            row["x plain"] = f"{seconds.median / plain.median:.2f}" if plain else "-"
            row["half run (s)"] = median_text(phases, "half_seconds", 1)
        row |= {title: median_text(phases, *column) for title, column in COLUMNS.items()}
        row["RSS (MiB)"] = f"{median_text(found, 'idle_rss_mib', 0)} -> {median_text(found, 'peak_rss_mib', 0)}"
        rows.append(row)
    return rows


if __name__ == "__main__":
    sys.exit(main())
