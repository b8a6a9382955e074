"""`python -m dev.bench.many`: what many JobSets cost a manager on a real control plane, most of them at rest.

Each has five Jobs of one pod. In this order: all are created; the manager is at rest; some fail, a few each second; a
manager starts that has all of them; a standby takes over; the namespace is deleted. `dev.bench.simulated.many` measures
more of them, without what an API server adds.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cli import local
from dev.bench import managers
from dev.bench.counts import counts
from dev.bench.ending import unwound_by_sigterm
from dev.bench.machine import machine
from dev.bench.options import positive
from dev.bench.phases import counted, measured
from dev.bench.proc import cpu_seconds, shared_once_mib
from dev.bench.scene import JSON, BenchmarkError, Scene, say, wait
from dev.bench.sets import GROUP, attempt, checked, end, jobset, says, statuses
from dev.cluster import audit
from dev.cluster.assets import Sources, locate
from dev.cluster.audit import Call
from dev.cluster.cluster import running
from dev.cluster.errors import DevclusterError
from dev.cluster.spec import ClusterSpec, FakeNodes
from manifests import NAMESPACE

FIRST = "first"
"""Folder of the manager that is there from the beginning."""

PODS_A_NODE = 25
FAILURES_PER_SECOND = 1
IDLE, IDLE_SECONDS = 0.05, 3
"""Of a core: a manager that takes less for so long has come to rest."""

WAIT_SECONDS = 300
ELECTION = {"leaderElection": {"leaderElect": True, "resourceNamespace": NAMESPACE}}
JOB_CONTROLLER = "job-controller"
"""Last part of the name of the user who writes the status of Jobs."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is, and how much of it fails."""

    sets: int = 1000
    jobs: int = 5
    failures: int = 100
    rest_seconds: int = 30

    @property
    def pods(self) -> int:
        return self.sets * self.jobs


@unwound_by_sigterm()
def main() -> int:
    options = _options()
    size = Size(options.sets, failures=min(options.failures, options.sets), rest_seconds=options.rest_seconds)
    try:
        phases = measure(options.manager, size)
    except (BenchmarkError, DevclusterError, local.LocalError, OSError, HTTPException) as error:
        print(f"error: {str(error) or type(error).__name__}", file=sys.stderr)
        return 1
    results = {"manager": options.manager.name, "machine": machine(), "size": asdict(size), "phases": phases}
    if options.output == "json":
        print(json.dumps(results, indent=2))
    else:
        show(results)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m dev.bench.many", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    usual = Size()
    parser.add_argument(
        "--manager", type=managers.entry, default="jobset", metavar="COMMAND", help="as for make bench (our own)"
    )
    parser.add_argument("--sets", type=positive, default=usual.sets, help="JobSets (default %(default)s)")
    parser.add_argument(
        "--failures", type=positive, default=usual.failures, help="JobSets that fail (default %(default)s)"
    )
    parser.add_argument(
        "--rest-seconds", type=positive, default=usual.rest_seconds, help="time at rest (default %(default)s)"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="format of the result")
    options = parser.parse_args()
    if options.manager.floor:
        parser.error(f"--manager: {options.manager.name} neither restarts JobSets by itself nor elects a leader")
    return options


def measure(entry: managers.Entry, size: Size) -> JSON:
    """Figures of each phase by its name."""
    nodes = FakeNodes(count=math.ceil(size.pods / PODS_A_NODE))
    spec = ClusterSpec(name="bench-many", nodes=nodes)
    with tempfile.TemporaryDirectory(prefix="jobset-bench-") as scratch:
        folder = Path(scratch)
        say(f"starting a control plane with {nodes.count} fake nodes")
        with running(spec, sources=Sources(assets=locate(Sources())), state_root=folder / "cluster") as cluster:
            with managers.started(cluster, folder / FIRST, entry, ELECTION) as first:
                scene = Scene(cluster, first.process.pid, "many")
                scene.create_namespace()
                phases = {"create": _created(scene, size), "rest": _resting(scene, size)}
                phases["failures"] = _failures(scene, size)
            with (
                _another(scene, folder / "second", entry) as (_, leader, phases["start"]),
                _another(scene, folder / "third", entry) as (standby, _, _),
            ):
                phases["takeover"] = _taken_over(standby, leader)
                phases["deletion"] = _deleted(standby)
    return phases


def _created(scene: Scene, size: Size) -> JSON:
    """All JobSets at once."""
    say(f"{size.sets:,} JobSets of {size.jobs} Jobs are created")
    bodies = [jobset(size.jobs, name=_name(number)) for number in range(size.sets)]
    with measured(scene, size.pods, selector=attempt(0), reported=lambda: says(scene, ready=size.pods)) as phase:
        scene.create_all(scene.path("jobsets", GROUP), bodies)
    checked(scene, size.pods)
    return phase


def _resting(scene: Scene, size: Size) -> JSON:
    """Nothing happens but nodes that report and Leases that are renewed."""
    _until_idle(scene)
    say(f"at rest for {size.rest_seconds} s")
    with counted(scene) as phase:
        time.sleep(size.rest_seconds)
    share = 100 * phase["manager_cpu_seconds"] / size.rest_seconds
    return {**phase, "seconds": float(size.rest_seconds), "percent": share, "pss_mib": shared_once_mib(scene.pid)}


def _failures(scene: Scene, size: Size) -> JSON:
    """The first Job of each of some JobSets fails, at a fixed rate whatever the manager does."""
    say(f"{size.failures} of them fail, {FAILURES_PER_SECOND} a second")
    pods = {pod["metadata"]["labels"]["job-name"]: pod for pod in scene.request("GET", scene.path("pods"))["items"]}
    names = [_name(number) for number in range(size.failures)]
    with counted(scene) as phase:
        offset, begun = audit.size(scene.cluster.audit_log), time.monotonic()
        for number, name in enumerate(names):
            time.sleep(max(0.0, begun + number / FAILURES_PER_SECOND - time.monotonic()))
            end(scene, pods[_first_job(name)]["metadata"]["name"], code=1)
        wait(lambda: _restarted(scene, size), WAIT_SECONDS, "all that have failed to run again")
        seconds = time.monotonic() - begun
    return {**phase, "seconds": seconds, "delays_ms": delays_ms(_calls(scene, offset), names)}


def _restarted(scene: Scene, size: Size) -> bool:
    found = statuses(scene)
    ready = sum(row["ready"] for status in found for row in status["replicatedJobsStatus"])
    return bool(ready == size.pods and sum(status.get("restarts", 0) for status in found) == size.failures)


@contextlib.contextmanager
def _another(scene: Scene, folder: Path, entry: managers.Entry) -> Iterator[tuple[Scene, local.Manager, JSON]]:
    """A further replica with the first one's certificate, once it is idle, and what its start has cost."""
    say("another manager starts")
    shutil.copytree(folder.parent / FIRST / "certs", folder / "certs")
    offset, begun = audit.size(scene.cluster.audit_log), time.monotonic()
    sections = {**managers.ALONE, **ELECTION}
    manager = local.start(
        scene.cluster, folder, webhook_port=local.free_port(), command=entry.command, sections=sections
    )
    try:
        place = dataclasses.replace(scene, pid=manager.process.pid)
        seconds = _until_idle(place) - begun
        yield (
            place,
            manager,
            {
                **counts(_calls(place, offset), place.user),
                "seconds": seconds,
                "manager_cpu_seconds": cpu_seconds(place.pid),
                "pss_mib": shared_once_mib(place.pid),
            },
        )
    finally:
        local.stop(manager)


def _until_idle(scene: Scene) -> float:
    """Wait until the manager has come to rest; since when it is (monotonic seconds)."""
    begun = since = time.monotonic()
    busy = cpu_seconds(scene.pid)
    while time.monotonic() < since + IDLE_SECONDS:
        time.sleep(0.2)
        now = cpu_seconds(scene.pid)
        if now - busy > IDLE * (time.monotonic() - since):
            since, busy = time.monotonic(), now
        if since > begun + WAIT_SECONDS:
            raise BenchmarkError(f"the manager has not come to rest in {WAIT_SECONDS} s")
    return since


def _taken_over(standby: Scene, leader: local.Manager) -> JSON:
    """The leader is told to end, then a Job fails. The time is from there until the standby has the Lease."""
    say("the leader ends")
    name = _name(0)
    [pod] = standby.request("GET", f"{standby.path('pods')}?labelSelector=job-name%3D{_first_job(name)}")["items"]
    with counted(standby) as phase:
        offset = audit.size(standby.cluster.audit_log)
        told = datetime.now(UTC)
        local.stop(leader)
        end(standby, pod["metadata"]["name"], code=1)
        wait(lambda: bool(delays_ms(_calls(standby, offset), [name])), WAIT_SECONDS, "the standby to act")
    leases = standby.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases")["items"]
    taken = max(_moment(lease["spec"]["acquireTime"]) for lease in leases)
    return {**phase, "seconds": (taken - told).total_seconds(), "delays_ms": delays_ms(_calls(standby, offset), [name])}


def _deleted(scene: Scene) -> JSON:
    """The namespace goes, and all that is in it."""
    say("the namespace is deleted")
    with counted(scene) as phase:
        begun = time.monotonic()
        scene.drop_namespace()
        phase["seconds"] = time.monotonic() - begun
        _until_idle(scene)
    return phase


def delays_ms(found: Sequence[Call], names: Sequence[str]) -> list[float]:
    """Milliseconds for each of these JobSets whose first Job has failed and was created again, in order of their size.

    From the Job controller's last write about the old Job to the manager's next write of the JobSet's status, as the
    API server received both: so the time in which the Job controller's own write is stored counts, too.
    """
    failed, written, created = (defaultdict[str, list[str]](list) for _ in range(3))
    for call in found:
        if call.code >= HTTPStatus.BAD_REQUEST or call.dry_run:
            continue
        if call.resource == "jobs/status" and call.user.endswith(JOB_CONTROLLER):
            failed[call.name].append(call.received)
        elif call.resource == "jobsets/status":
            written[call.name].append(call.received)
        elif call.resource == "jobs" and call.verb == "create":
            created[call.name].append(call.received)
    delays = []
    for name in names:
        job = _first_job(name)
        last = max((at for at in failed[job] if created[job] and at < min(created[job])), default="")
        if last and (after := [at for at in written[name] if at > last]):
            delays.append((_moment(min(after)) - _moment(last)).total_seconds() * 1000)
    return sorted(delays)


def _calls(scene: Scene, offset: int) -> list[Call]:
    return list(audit.calls(scene.cluster.audit_log, offset))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _name(number: int) -> str:
    return f"set-{number}"


def _first_job(name: str) -> str:
    return f"{name}-workers-0"


def show(results: JSON) -> None:
    """One line for each phase."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    size, machine = Size(**results["size"]), results["machine"]
    where = f"{machine['system']}, {machine['cores']} cores, load {machine['load_average']:.2f} at the end"
    console.print(f"Python {machine['python']} on {where}", highlight=False)
    table = Table(
        title=f"{results['manager']}: {size.sets:,} JobSets of {size.jobs} Jobs", title_justify="left", box=None
    )
    for column in ("phase", "seconds", "CPU (s)", "PSS (MiB)", "requests", "status writes", "p50 (ms)", "p99 (ms)"):
        table.add_column(column, justify="left" if column == "phase" else "right", no_wrap=True)
    for name, phase in results["phases"].items():
        table.add_row(name, *_row(phase))
    console.print(table)


def _row(phase: JSON) -> list[str]:
    delays = phase.get("delays_ms")
    return [
        f"{phase['seconds']:.1f}",
        f"{phase['manager_cpu_seconds']:.1f}",
        f"{phase['pss_mib']:.0f}" if "pss_mib" in phase else "",
        f"{phase['manager']['requests']:,}",
        f"{phase['manager']['status_writes']:,}",
        f"{statistics.median(delays):.0f}" if delays else "",
        f"{delays[math.ceil(0.99 * len(delays)) - 1]:.0f}" if delays else "",
    ]


if __name__ == "__main__":
    sys.exit(main())
