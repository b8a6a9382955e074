"""P19: the cost of many JobSets for a manager on a real control plane. Most JobSets are at rest.

Each JobSet has five Jobs of one pod.
"""

import dataclasses
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus

from dev import local
from dev.bench.counts import counts
from dev.bench.phases import count_requests
from dev.bench.play import Play
from dev.bench.proc import cpu_seconds, shared_once_mib
from dev.bench.scene import BenchmarkError, Scene, wait
from dev.bench.sets import end_pod, statuses
from dev.cluster import audit
from dev.cluster.audit import Call
from kube.model.meta import JSON
from manifests import NAMESPACE, SERVICE_ACCOUNT

SETS, JOBS, FAILURES = 1000, 5, 100
"""Numbers of JobSets, of Jobs of each JobSet, and of JobSets of which a Job fails."""

REST_SECONDS = 30
FAILURES_PER_SECOND = 1
IDLE_SHARE, IDLE_SECONDS = 0.05, 3
"""A manager that uses less than this share of a core for this many seconds is at rest."""

WAIT_SECONDS = 300
ELECTION = {"leaderElection": {"leaderElect": True, "resourceNamespace": NAMESPACE}}
JOB_CONTROLLER = "job-controller"
"""Last part of the name of the user that writes the status of Jobs."""


def rest(play: Play) -> JSON:
    """The phase at rest, in which only nodes report, and Leases are renewed."""
    scene, seconds = play.scene, max(1.0, REST_SECONDS * play.scale)
    _wait_until_idle(scene)
    with count_requests(scene) as phase:
        time.sleep(seconds)
    share = 100 * phase["manager_cpu_seconds"] / seconds
    return {**phase, "seconds": seconds, "percent": share, "pss_mib": shared_once_mib(scene.pid)}


def fail_jobs(play: Play) -> JSON:
    """The phase in which the first Job of some JobSets fails, one JobSet after the other at a fixed rate."""
    scene = play.scene
    pods = {pod["metadata"]["labels"]["job-name"]: pod for pod in scene.items(scene.path("pods"))}
    names = [_set_name(number) for number in range(play.scale_count(FAILURES))]
    with count_requests(scene) as phase:
        offset, start = audit.log_size(scene.cluster.audit_log), time.monotonic()
        for number, name in enumerate(names):
            time.sleep(max(0.0, start + number / FAILURES_PER_SECOND - time.monotonic()))
            end_pod(scene, pods[_first_job_name(name)]["metadata"]["name"], code=1)
        wait(lambda: _all_restarted(scene, len(pods), len(names)), WAIT_SECONDS, "all that have failed to run again")
        phase["seconds"] = time.monotonic() - start
    return _with_delays(phase, delays_ms(_calls(scene, offset), names))


def _all_restarted(scene: Scene, pods: int, failures: int) -> bool:
    all_statuses = statuses(scene)
    ready = sum(row["ready"] for status in all_statuses for row in status.get("replicatedJobsStatus", ()))
    return bool(ready == pods and sum(status.get("restarts", 0) for status in all_statuses) == failures)


def start_another(play: Play) -> JSON:
    """End the manager, and start another one with all JobSets, until it is at rest."""
    local.stop(play.managers[-1])
    offset, start = audit.log_size(play.scene.cluster.audit_log), time.monotonic()
    scene = _start_manager(play)
    phase = {"seconds": _wait_until_idle(scene) - start, **counts(_calls(scene, offset), SERVICE_ACCOUNT)}
    return phase | {"manager_cpu_seconds": cpu_seconds(scene.pid), "pss_mib": shared_once_mib(scene.pid)}


def _start_manager(play: Play) -> Scene:
    """Start another manager. Returns the scene with this manager, once it is ready."""
    play.managers.append(play.exit_stack.enter_context(play.start_manager(f"manager-{len(play.managers)}")))
    return dataclasses.replace(play.scene, pid=play.managers[-1].process.pid)


def _wait_until_idle(scene: Scene) -> float:
    """Wait until the manager is at rest. Returns when its rest began (monotonic seconds)."""
    start = idle_since = time.monotonic()
    cpu_before = cpu_seconds(scene.pid)
    while time.monotonic() < idle_since + IDLE_SECONDS:
        time.sleep(0.2)
        now = cpu_seconds(scene.pid)
        if now - cpu_before > IDLE_SHARE * (time.monotonic() - idle_since):
            idle_since, cpu_before = time.monotonic(), now
        if idle_since > start + WAIT_SECONDS:
            raise BenchmarkError(f"the manager has not come to rest in {WAIT_SECONDS} s")
    return idle_since


def take_over(play: Play) -> JSON:
    """The phase in which the leader ends, then a Job fails. Its `seconds` last until the standby has the Lease."""
    leader = play.managers[-1]
    play.scene = standby = _start_manager(play)
    _wait_until_idle(standby)
    name = _set_name(0)
    [pod] = standby.items(f"{standby.path('pods')}?labelSelector=job-name%3D{_first_job_name(name)}")
    with count_requests(standby) as phase:
        offset, start = audit.log_size(standby.cluster.audit_log), datetime.now(UTC)
        local.stop(leader)
        end_pod(standby, pod["metadata"]["name"], code=1)
        wait(lambda: bool(delays_ms(_calls(standby, offset), [name])), WAIT_SECONDS, "the standby to act")
    leases = standby.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases")["items"]
    acquired = max(datetime.fromisoformat(lease["spec"]["acquireTime"]) for lease in leases)
    phase["seconds"] = (acquired - start).total_seconds()
    return _with_delays(phase, delays_ms(_calls(standby, offset), [name]))


def delete_all(play: Play) -> JSON:
    """The phase in which the namespace is deleted with everything in it."""
    with count_requests(play.scene) as phase:
        start = time.monotonic()
        play.scene.drop_namespace()
        phase["seconds"] = time.monotonic() - start
        _wait_until_idle(play.scene)
    return phase


def delays_ms(calls: Sequence[Call], names: Sequence[str]) -> list[float]:
    """Milliseconds until the manager reacted to the failed first Job of each JobSet, sorted.

    A delay lasts from the Job controller's last write about the old Job to the manager's next write of the JobSet's
    status. Both are the times at which the API server received the write, so a delay includes the time in which the Job
    controller's write is stored.
    """
    job_failures, status_writes, creations = (defaultdict[str, list[float]](list) for _ in range(3))
    for call in calls:
        if call.code >= HTTPStatus.BAD_REQUEST or call.dry_run:
            continue
        if call.resource == "jobs/status" and call.user.endswith(JOB_CONTROLLER):
            job_failures[call.name].append(call.started)
        elif call.resource == "jobsets/status":
            status_writes[call.name].append(call.started)
        elif call.resource == "jobs" and call.verb == "create":
            creations[call.name].append(call.started)
    delays = []
    for name in names:
        job = _first_job_name(name)
        failed_at = max((at for at in job_failures[job] if creations[job] and at < min(creations[job])), default=0.0)
        if failed_at and (later_writes := [at for at in status_writes[name] if at > failed_at]):
            delays.append((min(later_writes) - failed_at) * 1000)
    return sorted(delays)


def _with_delays(phase: JSON, delays: list[float]) -> JSON:
    """The phase with its delays, their median and their 99th percentile."""
    p99 = delays[math.ceil(0.99 * len(delays)) - 1]
    return {**phase, "delays_ms": delays, "p50_ms": statistics.median(delays), "p99_ms": p99}


def _calls(scene: Scene, offset: int) -> list[Call]:
    return list(audit.calls(scene.cluster.audit_log, offset))


def _set_name(number: int) -> str:
    return f"set-{number}"


def _first_job_name(name: str) -> str:
    return f"{name}-workers-0"
