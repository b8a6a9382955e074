"""What a restart in place of one JobSet costs the manager, by the number of its pods.

    python -m dev.bench.simulated.in_place
    python -m dev.bench.simulated.in_place --pods 1000,5000,20000 -o json

The manager runs with the feature gate InPlaceRestart under the simulated API server, which answers at once. The set
runs when it starts. Then one worker fails, and all restart in their pods. The agents decide as in a pod, and what they
and the kubelets write reaches the manager as events of its watch, three for each pod: its container has ended, it runs
again, its agent has reported the next attempt. Kubelets take --start seconds to start a container again, twice one
after the other: first in the pod that failed, then in all others at once.

Columns: seconds from the failure until the last agent has let its worker go; the manager's processor time until it
has come to rest, and that for each pod; the processor time of the simulated API server with its kubelets and agents,
which takes some of those seconds; the manager's memory before, and the most there was; what its watches of pods were
sent; its requests and status writes; the size of the JobSet's status; what the agents' watches would have been sent.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import tempfile
from pathlib import Path

from dev.bench.ending import unwound_by_sigterm
from dev.bench.goals import IN_PLACE_STATUS_WRITES, WRITES_PER_AGENT
from dev.bench.options import numbers, positive
from dev.bench.proc import cpu_seconds, memory_mib, reset_peak
from dev.bench.simulated import sizes
from dev.bench.simulated.api import STATUS
from dev.bench.simulated.fleet import Fleet, set_name
from dev.bench.simulated.run import JSON, Bench, SimulationError, running_manager, simulated_server

GATE = "InPlaceRestart"
GOAL_STATUS_KIB = 100
MIB = 2**20
AGENTS = "/simulated/in-place"


def measure(command: list[str], pods: int, *, pods_per_job: int = 100, start_seconds: float = 1.0) -> JSON:
    """One line of the table: a JobSet of so many pods restarts in place once. Sizes of memory are in MiB.

    `start_seconds`: how long a kubelet takes to start a container again. Raises `SimulationError` if the restart
    stalls, or has done more than to restart.
    """
    jobs = math.ceil(pods / pods_per_job)
    fleet = Fleet(
        domains=100, nodes=10, jobsets=1, jobs=jobs, pods=min(pods, pods_per_job), exclusive=False, in_place=True
    )
    with (
        tempfile.TemporaryDirectory() as name,
        simulated_server(Path(name), fleet) as connection,
        running_manager(command, Path(name), feature_gates={GATE: True}) as (process, log),
    ):
        bench = Bench(connection, process, log)
        bench.wait_for_counts(lambda state: bool(state["calls"]), "the manager's first request")
        return _restart(bench, jobs, jobs * fleet.pods, start_seconds)


def _restart(bench: Bench, jobs: int, pods: int, start_seconds: float) -> JSON:
    """Let a worker fail; measured until all agents have let theirs go, and the manager has come to rest."""
    pid = bench.manager.pid
    before, resident = bench.settle(), memory_mib(pid)
    idle = bench.request("GET", AGENTS)
    reset_peak(pid)
    busy = cpu_seconds(pid)
    bench.request("POST", f"/simulated/fail-worker?seconds={start_seconds}")
    bench.wait(lambda _: bench.request("GET", AGENTS)["lifted"].get("1") == pods, "all agents to let their workers go")
    bench.settle()
    bench.wait(lambda state: _ready(state) == (0, jobs), "the status to say that all Jobs are ready")
    after = bench.settle()
    bench.check([set_name(0)], jobs)
    agents = bench.request("GET", AGENTS)
    if after["pods_started"] != before["pods_started"] or agents["lifted"] != {"1": pods}:
        raise SimulationError(f"more happened than a restart in place: {agents}\n{bench.tail()}")
    calls = {tuple(what): count for *what, count in before["calls"]}
    made = [[*what, count - calls.get(tuple(what), 0)] for *what, count in after["calls"] if what[1] != "leases"]
    cpu = cpu_seconds(pid) - busy
    return {
        "pods": pods,
        "jobs": jobs,
        "seconds": agents["seconds"],
        "cpu_seconds": cpu,
        "cpu_ms_per_pod": 1000 * cpu / pods,
        "server_cpu_seconds": agents["cpu_seconds"] - idle["cpu_seconds"],
        "rss_mib": resident,
        "peak_rss_mib": memory_mib(pid, "VmHWM"),
        "pod_events_mib": (agents["sent"]["pods"] - idle["sent"]["pods"]) / MIB,
        "calls": [call for call in made if call[-1]],
        "requests": sum(call[-1] for call in made),
        "status_writes": sum(count for _, what, _, count in made if what == STATUS),
        "writes_per_agent": agents["reports"] / pods,
        "kubelet_writes_per_pod": agents["kubelet_writes"] / pods,
        "status_kib": agents["status_bytes"] / 1024,
        "watched_mib": agents["seen_bytes"] * pods / MIB,
    }


def _ready(state: JSON) -> tuple[int, int]:
    """Restarts of the set, and its Jobs that are ready, as the status says."""
    reported = state["jobsets"][set_name(0)]
    return reported["restarts"], reported["ready"]


@unwound_by_sigterm()
def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dev.bench.simulated.in_place",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    own = shlex.join([sys.executable, "-m", "cli", "manager"])
    parser.add_argument("--manager", default=own, help="command that is given --config and --kubeconfig (our own)")
    parser.add_argument(
        "--pods", type=numbers, default="1000,5000,20000", help="numbers of pods, whole Jobs (default %(default)s)"
    )
    parser.add_argument("--pods-per-job", type=positive, default=100, help="of them in a Job (default %(default)s)")
    parser.add_argument(
        "--start", type=float, default=1.0, metavar="SECONDS", help="of a container, again (default %(default)s)"
    )
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table", help="format of the result")
    args = parser.parse_args()
    if 0 in args.pods:
        parser.error("--pods: a set without pods does not restart")
    return sizes.each(
        args.pods,
        "pods",
        lambda pods: measure(shlex.split(args.manager), pods, pods_per_job=args.pods_per_job, start_seconds=args.start),
        show,
        args.output,
    )


COLUMNS = {
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


def show(results: list[JSON]) -> None:
    """A line for each number of pods, and how the processor time grows."""
    console = sizes.table(COLUMNS, results)
    grows = sizes.exponent(results, "pods", "cpu_seconds")
    console.print(
        f"Goals: at most {IN_PLACE_STATUS_WRITES} status writes, {WRITES_PER_AGENT} writes of each agent and"
        f" {GOAL_STATUS_KIB} KiB of status; processor time that grows with the number of pods to the power of at most"
        f" {sizes.GOAL_EXPONENT}{'' if grows is None else f' ({grows:.2f} here)'}.",
        highlight=False,
    )


if __name__ == "__main__":
    sys.exit(main())
