"""P22: the cost of a restart in place of one JobSet for the manager, by the number of its pods.

The manager runs with the feature gate InPlaceRestart under the simulated API server, which answers at once. The JobSet
runs when it starts. Then one worker fails, and all restart in their pods. The agents decide as in a pod. Their writes
and those of the kubelets reach the manager as events of its watch, three for each pod: its container has ended, it runs
again, its agent has reported the next attempt. Kubelets take a second to start a container again, twice one after the
other: first in the pod that failed, then in all others at once.

Columns: seconds from the failure until the last agent has let its worker go; the manager's processor time until it
has come to rest, and that for each pod; the processor time of the simulated API server with its kubelets and agents,
which takes some of those seconds; the manager's memory before, and its peak; the bytes that its watches of pods were
sent; its requests and status writes; the size of the JobSet's status; the bytes for the watches of real agents.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dev.bench.output import JSON, Columns
from dev.bench.proc import memory_mib, reset_peak
from dev.bench.simulated.api import STATUS
from dev.bench.simulated.bench import Bench, SimulationError, running_manager, simulated_server
from dev.bench.simulated.fleet import Fleet, set_name

GATES = {"InPlaceRestart": True}
SIZES = (1000, 5000, 20_000)
MIB = 2**20


def measure(command: Sequence[str], pods: int, *, pods_per_job: int = 100, start_seconds: float = 1.0) -> JSON:
    """One row of the table: a JobSet of that many pods restarts in place once. Sizes of memory are in MiB.

    `start_seconds`: the time that a kubelet takes to start a container again. Raises `SimulationError` if the restart
    stalls, or if pods were created.
    """
    jobs = math.ceil(pods / pods_per_job)
    fleet = Fleet(
        domains=100, nodes=10, jobsets=1, jobs=jobs, pods=min(pods, pods_per_job), exclusive=False, in_place=True
    )
    with (
        tempfile.TemporaryDirectory() as name,
        simulated_server(Path(name), fleet) as connection,
        running_manager(connection, command, Path(name), feature_gates=GATES) as bench,
    ):
        bench.wait_for_start()
        return _restart(bench, jobs, jobs * fleet.pods, start_seconds)


def _restart(bench: Bench, jobs: int, pods: int, start_seconds: float) -> JSON:
    """Let a worker fail, and wait until all agents have let theirs go and the manager has come to rest."""
    bench.wait_until_idle()
    pid = bench.manager.pid
    before, idle, resident = bench.get("counts"), bench.get("agents"), memory_mib(pid)
    reset_peak(pid)
    with bench.measure_phase() as phase:
        bench.request("POST", f"/simulated/fail-worker?seconds={start_seconds}")
        bench.wait("agents", lambda agents: agents["lifted"].get("1") == pods, "all agents to let their workers go")
        bench.wait_until_idle()
        bench.wait_until_ready([set_name(0)], jobs, 0)
    agents = bench.get("agents")
    if bench.get("counts")["pods_started"] != before["pods_started"] or agents["lifted"] != {"1": pods}:
        raise SimulationError(f"more happened than a restart in place: {agents}\n{bench.tail()}")
    return {
        "pods": pods,
        "jobs": jobs,
        "seconds": agents["seconds"],
        "cpu_seconds": phase["cpu_seconds"],
        "cpu_ms_per_pod": 1000 * phase["cpu_seconds"] / pods,
        "server_cpu_seconds": agents["cpu_seconds"] - idle["cpu_seconds"],
        "rss_mib": resident,
        "peak_rss_mib": memory_mib(pid, "VmHWM"),
        "pod_events_mib": (agents["sent"]["pods"] - idle["sent"]["pods"]) / MIB,
        "calls": phase["calls"],
        "requests": phase["requests"],
        "status_writes": sum(count for _, resource, _, count in phase["calls"] if resource == STATUS),
        "writes_per_agent": agents["reports"] / pods,
        "kubelet_writes_per_pod": agents["kubelet_writes"] / pods,
        "status_kib": agents["status_bytes"] / 1024,
        "watched_mib": agents["watched_bytes"] * pods / MIB,
    }


COLUMNS: Columns = {
    "pods": ("pods", ",d"),
    "Jobs": ("jobs", ",d"),
    "seconds": ("seconds", ".1f"),
    "CPU (s)": ("cpu_seconds", ".2f"),
    "CPU (ms/pod)": ("cpu_ms_per_pod", ".3f"),
    "server CPU (s)": ("server_cpu_seconds", ".1f"),
    "RSS (MiB)": ("rss_mib", ".0f"),
    "peak (MiB)": ("peak_rss_mib", ".0f"),
    "pod events (MiB)": ("pod_events_mib", ".1f"),
    "requests": ("requests", ",d"),
    "status writes": ("status_writes", ",d"),
    "writes/agent": ("writes_per_agent", ".1f"),
    "status (KiB)": ("status_kib", ".1f"),
    "to agents (MiB)": ("watched_mib", ".0f"),
}
