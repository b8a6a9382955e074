"""P15: one worker of 5,000 fails, and all restart in place: until all agents have let their workers go again.

In two forms: the containers of all pods restart, or the workers alone, while their agents go on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from dev.bench.agents import MANAGER
from dev.bench.counts import WRITES
from dev.bench.phases import counted, settled
from dev.bench.scenarios.group import Result, Size
from dev.bench.scenarios.node_lost import Lifted, agents, begun, figures
from dev.bench.scenarios.steps import created
from dev.bench.scene import JSON, BenchmarkError, Scene
from dev.bench.sets import GROUP, checked, jobset, restarting_in_place, says
from dev.cluster import audit

JOBS, PODS = 50, 100
"""And pods of each Job."""

JOIN_SECONDS = 600
"""Until all agents have begun: each opens a connection of its own."""

GATES = {"InPlaceRestart": True}


def run(scene: Scene, size: Size, _: frozenset[str]) -> Iterator[Result]:
    """The set is created with its agents, and restarts once; then once more, with other agents."""
    jobs = size.of(JOBS)
    with agents(scene) as lifted:
        pods = created(scene, restarting_in_place(jobset(jobs, size.of(PODS))))[1]
        begun(lifted, 0, len(pods), JOIN_SECONDS)
        yield "P15", _restarted(scene, pods, jobs, lifted, 1)
    # The agents that start now report the next attempt.
    with agents(scene, worker_only=True) as lifted:
        begun(lifted, 2, len(pods), JOIN_SECONDS)
        yield "P15 worker only", _restarted(scene, pods, jobs, lifted, 3)


def _restarted(scene: Scene, pods: list[JSON], jobs: int, lifted: Lifted, attempt: int) -> JSON:
    """One worker fails, and the attempt of this number begins."""
    count = len(pods)
    settled(lambda: says(scene, ready=jobs))
    offset = audit.size(scene.cluster.audit_log)
    with counted(scene) as phase:
        failed = time.monotonic()
        lifted.fail_one()
        begun(lifted, attempt, count)
        phase.update(figures(lifted.moments(attempt), failed))
        phase["reported_seconds"] = settled(lambda: says(scene, ready=jobs)) - failed
        stayed = {pod["metadata"]["uid"] for pod in checked(scene, count)}
    calls = audit.calls(scene.cluster.audit_log, offset)
    writes = sum(call.verb in WRITES and call.agent.startswith(MANAGER) for call in calls)
    if stayed != {pod["metadata"]["uid"] for pod in pods}:
        raise BenchmarkError("pods were created again")
    phase["writes_per_agent"] = writes / count
    body = len(json.dumps(scene.request("GET", f"{scene.path('jobsets', GROUP)}/bench"), separators=(",", ":")))
    phase["watched_mib"] = watched_mib(body, phase["manager"]["status_writes"], count)
    return phase


def watched_mib(body: int, events: int, agents: int) -> float:
    """What the API server sends to agents that watch one JobSet of so many bytes, for so many of its changes."""
    return body * events * agents / 2**20
