"""Two replicas on a local control plane, sets that restart, end, fail and are refused, and what the dashboard shows.

After two thirds of the time the leader ends. Writes docs/images/dashboard.svg.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from api import keys
from cli import local
from dev.bench.dashboard.evaluate import evaluate
from dev.bench.dashboard.panels import queries
from dev.bench.dashboard.picture import draw
from dev.bench.dashboard.scrape import EVERY, Scrapes, scraping
from dev.bench.ending import unwound_by_sigterm
from dev.bench.managers import scratch_cluster
from dev.bench.scene import JSON, BenchmarkError, Scene, say, wait
from dev.bench.sets import GROUP, fail_one, jobset
from dev.cluster.cluster import Cluster
from dev.cluster.errors import DevclusterError
from dev.cluster.spec import ClusterSpec, FakeNodes
from manifests.naming import METRICS_SERVICE

PICTURE = Path(__file__).parents[3] / "docs/images/dashboard.svg"
NAMESPACE = "bench"
READY_SECONDS = 30
RUN_SECONDS = "kwok.jobset.dev/run-seconds"
"""Annotation of a fake pod: it succeeds that long after its start."""

GATES = {"JobSetActiveDeadlineSeconds": True, "JobSetStartTimeout": True}

REFUSED: tuple[JSON, ...] = (
    {"managedBy": ""},
    {"replicatedJobs": []},
    {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["none"]}},
    {"network": {"subdomain": "Not A Name"}},
)
"""Changes of a spec that admission refuses."""


def training(number: int) -> JSON:
    """The set of this number: every third is to be failed once, some have no restarts, a deadline, or no room."""
    made = jobset(2 + number % 5, 2, name=f"train-{number}", cpu="1000" if number % 11 == 10 else "")
    made["metadata"]["labels"] = {"fails": str(number % 3 == 0).lower()}
    pods = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    pods["metadata"] = {"annotations": {RUN_SECONDS: str(8 + number % 7)}}
    if number % 11 == 10:
        made["spec"]["failurePolicy"] = {"startTimeoutSeconds": 4}
    elif number % 9 == 6:
        made["spec"]["failurePolicy"] = {"maxRestarts": 0}
    elif number % 7 == 4:
        made["spec"]["activeDeadlineSeconds"] = 5
    return made


def load(scene: Scene, until: float, numbers: Iterator[int]) -> None:
    """A set each second and a refused one every third, until this moment (monotonic); some fail once they are ready."""
    path, failed = scene.path("jobsets", GROUP), set[str]()
    with scene.cluster.connect() as connection:
        for number in numbers:
            due = time.monotonic() + 1
            if due > until:
                return
            connection.request("POST", path, training(number))
            if number % 3 == 0:
                wrong = jobset(1, name=f"wrong-{number}")
                wrong["spec"] |= REFUSED[number // 3 % len(REFUSED)]
                connection.request("POST", path, wrong)
            for each in scene.items("jobsets", GROUP, "?labelSelector=fails%3Dtrue"):
                name, status = each["metadata"]["name"], each.get("status") or {}
                jobs = each["spec"]["replicatedJobs"][0]["replicas"]
                if name not in failed and sum(row["ready"] for row in status.get("replicatedJobsStatus") or ()) == jobs:
                    fail_one(scene, scene.items("pods", query=f"?labelSelector={keys.JOBSET_NAME}%3D{name}"))
                    failed.add(name)
            time.sleep(max(0.0, due - time.monotonic()))


def _token(cluster: Cluster) -> str:
    """The token of an account that may read metrics."""
    who = f"system:serviceaccount:{NAMESPACE}:default"
    local.kubectl(
        cluster, "create", "clusterrolebinding", "scraper", "--clusterrole=jobset-metrics-reader", f"--user={who}"
    )
    return local.kubectl(cluster, "create", "token", "default", "-n", NAMESPACE).stdout.strip()


def _refuses(scene: Scene) -> bool:
    """Whether the webhooks are called."""
    wrong = jobset(1)
    wrong["spec"]["managedBy"] = ""
    with scene.cluster.connect() as connection:
        return connection.request("POST", scene.path("jobsets", GROUP) + "?dryRun=All", wrong)[0] == 422


def scrape_load(seconds: int) -> Scrapes:
    """The scrapes of a run with `seconds` of load. Raises `BenchmarkError`, `LocalError` or `DevclusterError`."""
    spec = ClusterSpec(name="dashboard", nodes=FakeNodes(count=20))
    with scratch_cluster(spec) as (cluster, folder), contextlib.ExitStack() as on_end:
        webhooks, metrics = ([local.free_port() for _ in range(2)] for _ in range(2))
        local.install(cluster, webhook_port=webhooks[1])
        managers = []
        for number, port in enumerate(metrics):
            sections = {"metrics": {"bindAddress": f"127.0.0.1:{port}"}, "featureGates": GATES}
            own = folder / f"manager-{number}"
            managers.append(local.start(cluster, own, webhook_port=webhooks[number], sections=sections))
            on_end.callback(local.stop, managers[-1])
        scene = Scene(cluster, managers[0].process.pid, NAMESPACE)
        scene.create_namespace()
        wait(lambda: _refuses(scene), READY_SECONDS, "the webhooks")
        say(f"load for {seconds} s")
        pods = {f"replica-{number}": port for number, port in enumerate(metrics)}
        with scraping(pods, _token(cluster), {"job": METRICS_SERVICE}) as scrapes:
            begun, numbers = time.monotonic(), itertools.count()
            load(scene, begun + seconds * 2 / 3, numbers)
            local.stop(managers[0])
            load(scene, begun + seconds, numbers)
    return scrapes


@unwound_by_sigterm()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dev.bench.dashboard", description=__doc__)
    parser.add_argument("--seconds", type=int, default=120, help="of load (default %(default)s)")
    parser.add_argument("--output", type=Path, default=PICTURE, help="the picture (default: that of the docs)")
    parser.add_argument("--keep", type=Path, help="a file for the lines that are drawn, as JSON")
    args = parser.parse_args()
    try:
        scrapes = scrape_load(args.seconds)
        say("promtool evaluates the queries")
        lines = evaluate([query.expression for _, query in queries()], scrapes, METRICS_SERVICE)
    except (BenchmarkError, local.LocalError, DevclusterError, OSError) as error:
        sys.exit(f"error: {error}")
    if args.keep:
        args.keep.write_text(json.dumps(lines))
    draw(lines, scrapes.count * EVERY, args.output)
    say(f"{args.output}: {sum(bool(each) for each in lines.values())} of {len(lines)} queries have a result")


if __name__ == "__main__":
    main()
