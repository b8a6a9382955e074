"""`python -m dev.bench.many`: the cost of many JobSets for a manager on a real control plane, most of them at rest.

Each has five Jobs of one pod. In this order: all are created; the manager is at rest; some fail, one each second; a
manager starts that has all of them; a standby takes over; the namespace is deleted. `dev.bench.simulated.many` measures
more of them, without the API server's part.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import shutil
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path

from cli import local
from dev.bench import managers
from dev.bench.counts import counts
from dev.bench.ending import unwound_by_sigterm
from dev.bench.output import (
    JSON,
    Columns,
    cells,
    command_line,
    machine,
    machine_text,
    positive,
    print_result,
    print_table,
    print_text,
)
from dev.bench.phases import count_requests
from dev.bench.play import Play
from dev.bench.proc import cpu_seconds, shared_once_mib
from dev.bench.scenarios import create_many
from dev.bench.scene import BenchmarkError, Scene, say, wait
from dev.bench.sets import end_pod, statuses
from dev.cluster import audit
from dev.cluster.audit import Call
from dev.cluster.errors import DevclusterError
from dev.cluster.spec import ClusterSpec, FakeNodes
from manifests import NAMESPACE

FIRST = "first"
"""Folder of the first manager."""

PODS_A_NODE = 25
FAILURES_PER_SECOND = 1
IDLE, IDLE_SECONDS = 0.05, 3
"""Share of a core, and time: a manager that takes less for so long is at rest."""

WAIT_SECONDS = 300
ELECTION = {"leaderElection": {"leaderElect": True, "resourceNamespace": NAMESPACE}}
JOB_CONTROLLER = "job-controller"
"""Last part of the name of the user who writes the status of Jobs."""


@dataclass(frozen=True, slots=True)
class Size:
    """The number of JobSets and their Jobs, and of failures."""

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
    print_result(options.output, results, show)
    return 0


def _options() -> argparse.Namespace:
    parser = command_line("dev.bench.many", __doc__)
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
    options = parser.parse_args()
    if options.manager.floor:
        parser.error(f"--manager: {options.manager.name} neither restarts JobSets by itself nor elects a leader")
    return options


def measure(entry: managers.Entry, size: Size) -> JSON:
    """Figures of each phase by its name."""
    nodes = FakeNodes(count=math.ceil(size.pods / PODS_A_NODE))
    say(f"starting a control plane with {nodes.count} fake nodes")
    with managers.scratch_cluster(ClusterSpec(name="bench-many", nodes=nodes)) as (cluster, folder):
        with managers.running_manager(cluster, folder / FIRST, entry, ELECTION) as first:
            scene = Scene(cluster, first.process.pid, "many")
            scene.create_namespace()
            say(f"{size.sets:,} JobSets of {size.jobs} Jobs are created")
            phases = {"create": create_many(size.sets, size.jobs)(Play(scene)), "rest": _measure_rest(scene, size)}
            phases["failures"] = _fail_jobs(scene, size)
        with (
            _replica(scene, folder / "second", entry) as (_, leader, phases["start"]),
            _replica(scene, folder / "third", entry) as (standby, _, _),
        ):
            phases["takeover"] = _take_over(standby, leader)
            phases["deletion"] = _delete_all(standby)
    return phases


def _measure_rest(scene: Scene, size: Size) -> JSON:
    """Nothing happens but nodes that report and Leases that are renewed."""
    _wait_until_idle(scene)
    say(f"at rest for {size.rest_seconds} s")
    with count_requests(scene) as phase:
        time.sleep(size.rest_seconds)
    share = 100 * phase["manager_cpu_seconds"] / size.rest_seconds
    return {**phase, "seconds": float(size.rest_seconds), "percent": share, "pss_mib": shared_once_mib(scene.pid)}


def _fail_jobs(scene: Scene, size: Size) -> JSON:
    """The first Job of each of some JobSets fails, at a fixed rate whatever the manager does."""
    say(f"{size.failures} of them fail, {FAILURES_PER_SECOND} a second")
    pods = {pod["metadata"]["labels"]["job-name"]: pod for pod in scene.items("pods")}
    names = [_name(number) for number in range(size.failures)]
    with count_requests(scene) as phase:
        offset, begun = audit.size(scene.cluster.audit_log), time.monotonic()
        for number, name in enumerate(names):
            time.sleep(max(0.0, begun + number / FAILURES_PER_SECOND - time.monotonic()))
            end_pod(scene, pods[_first_job(name)]["metadata"]["name"], code=1)
        wait(lambda: _all_restarted(scene, size), WAIT_SECONDS, "all that have failed to run again")
        phase["seconds"] = time.monotonic() - begun
    return _with_delays(phase, delays_ms(_calls(scene, offset), names))


def _all_restarted(scene: Scene, size: Size) -> bool:
    found = statuses(scene)
    ready = sum(row["ready"] for status in found for row in status["replicatedJobsStatus"])
    return bool(ready == size.pods and sum(status.get("restarts", 0) for status in found) == size.failures)


@contextlib.contextmanager
def _replica(scene: Scene, folder: Path, entry: managers.Entry) -> Iterator[tuple[Scene, local.Manager, JSON]]:
    """A further manager with the certificate of the first one, once it is idle, and the figures of its start."""
    say("another manager starts")
    shutil.copytree(folder.parent / FIRST / "certs", folder / "certs")
    offset, begun = audit.size(scene.cluster.audit_log), time.monotonic()
    sections = {**managers.ALONE, **ELECTION}
    manager = local.start(
        scene.cluster, folder, webhook_port=local.free_port(), command=entry.command, sections=sections
    )
    try:
        own = dataclasses.replace(scene, pid=manager.process.pid)
        start = {"seconds": _wait_until_idle(own) - begun, **counts(_calls(own, offset), own.user)}
        start |= {"manager_cpu_seconds": cpu_seconds(own.pid), "pss_mib": shared_once_mib(own.pid)}
        yield own, manager, start
    finally:
        local.stop(manager)


def _wait_until_idle(scene: Scene) -> float:
    """Wait until the manager is at rest; since when it is (monotonic seconds)."""
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


def _take_over(standby: Scene, leader: local.Manager) -> JSON:
    """The leader ends, then a Job fails. The time is from there until the standby has the Lease."""
    say("the leader ends")
    name = _name(0)
    [pod] = standby.items("pods", query=f"?labelSelector=job-name%3D{_first_job(name)}")
    with count_requests(standby) as phase:
        offset, begun = audit.size(standby.cluster.audit_log), datetime.now(UTC)
        local.stop(leader)
        end_pod(standby, pod["metadata"]["name"], code=1)
        wait(lambda: bool(delays_ms(_calls(standby, offset), [name])), WAIT_SECONDS, "the standby to act")
    leases = standby.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases")["items"]
    acquired = max(_moment(lease["spec"]["acquireTime"]) for lease in leases)
    phase["seconds"] = (acquired - begun).total_seconds()
    return _with_delays(phase, delays_ms(_calls(standby, offset), [name]))


def _delete_all(scene: Scene) -> JSON:
    """The namespace is deleted with everything in it."""
    say("the namespace is deleted")
    with count_requests(scene) as phase:
        begun = time.monotonic()
        scene.drop_namespace()
        phase["seconds"] = time.monotonic() - begun
        _wait_until_idle(scene)
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


def _with_delays(phase: JSON, delays: list[float]) -> JSON:
    """The phase with its delays, their median and their 99th percentile."""
    p99 = delays[math.ceil(0.99 * len(delays)) - 1]
    return {**phase, "delays_ms": delays, "p50_ms": statistics.median(delays), "p99_ms": p99}


def _calls(scene: Scene, offset: int) -> list[Call]:
    return list(audit.calls(scene.cluster.audit_log, offset))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _name(number: int) -> str:
    return f"set-{number}"


def _first_job(name: str) -> str:
    return f"{name}-workers-0"


COLUMNS: Columns = {
    "seconds": ("seconds", ".1f"),
    "CPU (s)": ("manager_cpu_seconds", ".1f"),
    "PSS (MiB)": ("pss_mib", ".0f"),
    "requests": ("manager.requests", ",d"),
    "status writes": ("manager.status_writes", ",d"),
    "p50 (ms)": ("p50_ms", ".0f"),
    "p99 (ms)": ("p99_ms", ".0f"),
}


def show(results: JSON) -> None:
    """One row for each phase."""
    size = Size(**results["size"])
    print_text(f"{machine_text(results['machine'])} at the end")
    rows = [{"phase": name, **cells(COLUMNS, phase)} for name, phase in results["phases"].items()]
    print_table(rows, f"{results['manager']}: {size.sets:,} JobSets of {size.jobs} Jobs")


if __name__ == "__main__":
    sys.exit(main())
