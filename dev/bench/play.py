"""The acts of a scenario on its JobSet: it is created, loses a pod or a node, restarts. Each is measured."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

from api import keys
from cli import local
from dev.bench.agents import MANAGER, Agents
from dev.bench.history import ordered_restart
from dev.bench.phases import count_requests, figures, measure_pods, wait_for_status
from dev.bench.scene import CLEAR_SECONDS, JSON, MERGE, BenchmarkError, Scene, wait
from dev.bench.sets import GROUP, attempt, check_exclusive, fail_one, job_name, jobs_of, running_pods, says
from dev.cluster import audit
from dev.cluster.node_faults import come_back, fall_silent

JOIN_SECONDS = 600
"""Time limit for 5,000 agents to begin (P15): each opens a connection of its own."""

StartManager = Callable[[str], AbstractContextManager[local.Manager]]
"""A further manager of the kind under measurement, in a folder of that name, for the length of a block."""

Fault = Callable[[Scene, list[JSON]], AbstractContextManager[float]]
"""A fault of one of these pods for the length of a block; the moment at which it began (monotonic seconds)."""


@contextlib.contextmanager
def failing_pod(scene: Scene, pods: list[JSON]) -> Iterator[float]:
    """One pod fails."""
    begun = time.monotonic()
    fail_one(scene, pods)
    yield begun


@contextlib.contextmanager
def silent_node(scene: Scene, pods: list[JSON]) -> Iterator[float]:
    """The node of the first pod falls silent, and comes back at the end. The moment is that of its taint."""
    node = pods[0]["spec"]["nodeName"]
    with scene.cluster.connect() as connection:
        fall_silent(connection, node)
        try:
            yield time.monotonic()
        finally:
            come_back(connection, node)


def _start_none(name: str) -> AbstractContextManager[local.Manager]:
    raise BenchmarkError(f"{name}: no further manager can be started here")


@dataclass(slots=True)
class Play:
    """A scenario in a namespace of its own. `scale` is the part of its sizes; `side` a phase beside another one."""

    scene: Scene
    scale: float = 1.0
    manifest: JSON = field(default_factory=dict)
    pods: list[JSON] = field(default_factory=list)
    restarts: int = 0
    attempts: int = 0
    """The next attempt of agents for restarts in place."""
    side: JSON = field(default_factory=dict)
    managers: list[local.Manager] = field(default_factory=list)
    """The managers that have been started, the latest last."""
    start_manager: StartManager = _start_none
    over: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """What ends with the scenario."""

    def scale_count(self, count: int) -> int:
        """A part of a count, at least 2."""
        return scale_count(count, self.scale)

    @property
    def jobs(self) -> int:
        """Jobs that run."""
        return jobs_of(self.manifest)[0]

    def create(self, manifest: JSON) -> JSON:
        """The JobSet is created, until all its pods run. An earlier one is deleted first."""
        if self.manifest:
            self._delete()
        self.manifest, self.restarts, self.attempts = manifest, 0, 0
        pods = jobs_of(manifest)[1]
        reported = partial(says, self.scene, ready=self.jobs)
        with measure_pods(self.scene, pods, selector=attempt(0), reported=reported) as phase:
            self.scene.request("POST", self.scene.path("jobsets", GROUP), manifest)
        return self._check_phase(phase, pods)

    def restart(self, fault: Fault = failing_pod) -> JSON:
        """All Jobs are created again after a fault, until the pods of the next attempt run.

        After the failure of a pod, also the order is checked: no Job is created before its old pods have ended.
        """
        old, pods = self.restarts, len(self.pods)
        self.restarts = old + 1
        with contextlib.ExitStack() as over:
            if fault is failing_pod:
                over.enter_context(ordered_restart(self.scene, old=old, jobs=self.jobs, pods=pods))
            phase = self._measure_fault(fault, attempt(self.restarts), pods)
        return self._check_phase(phase, pods)

    def restart_lost_jobs(self, fault: Fault) -> JSON:
        """The Jobs of the lost pods are created again, and no others."""
        node = self.pods[0]["spec"]["nodeName"]
        lost = {job_name(pod) for pod in self.pods if pod["spec"]["nodeName"] == node}
        expected = {pod["metadata"]["uid"] for pod in self.pods if job_name(pod) not in lost}
        pods = len(self.pods)
        phase = self._measure_fault(fault, f"{keys.JOB_RESTART_ATTEMPT}=1", pods - len(expected))
        self._check_phase(phase, pods)
        self._check_kept(expected)
        return phase

    def restart_in_place(self, fault: Fault | None, *, worker_only: bool) -> JSON:
        """All pods restart in place after a fault (None: of one worker), until all agents have let their workers go.

        Agents that start later report the next attempt.
        """
        pods, first = self.pods, self.attempts
        self.attempts += 2
        with Agents.running(self.scene, worker_only=worker_only) as agents:
            agents.wait(first, len(pods), JOIN_SECONDS)
            reported = partial(says, self.scene, ready=self.jobs)
            wait_for_status(reported)
            offset = audit.size(self.scene.cluster.audit_log)
            with contextlib.ExitStack() as over, count_requests(self.scene) as phase:
                begun = time.monotonic()
                if fault is None:
                    agents.fail_worker()
                else:
                    begun = over.enter_context(fault(self.scene, pods))
                agents.wait(first + 1, len(pods))
                phase.update(figures(agents.moments(first + 1), begun))
                phase["reported_seconds"] = wait_for_status(reported) - begun
        node = "" if fault is None else pods[0]["spec"]["nodeName"]
        expected = {pod["metadata"]["uid"] for pod in pods if pod["spec"]["nodeName"] != node}
        self.pods = running_pods(self.scene, len(pods))[::-1]  # the next fault is of another node
        self._check_kept(expected)
        calls = audit.calls(self.scene.cluster.audit_log, offset)
        writes = sum(call.verb in audit.WRITES and call.agent.startswith(MANAGER) for call in calls)
        body = self.scene.request("GET", f"{self.scene.path('jobsets', GROUP)}/bench")
        size, status_writes = len(json.dumps(body, separators=(",", ":"))), phase["manager"]["status_writes"]
        phase["pods_replaced"] = len(pods) - len(expected)
        phase["writes_per_agent"] = writes / len(pods)
        phase["watched_mib"] = watched_mib(size, status_writes, len(pods))
        return phase

    def suspend(self) -> JSON:
        """The JobSet is suspended, until no pod runs."""
        with self._measured_suspend("DELETED", suspended=self.jobs, active=0) as phase:
            self._set_suspend(value=True)
        return phase

    def resume(self) -> JSON:
        """The JobSet is resumed, until all pods run."""
        with self._measured_suspend("ADDED", suspended=0, ready=self.jobs) as phase:
            self._set_suspend(value=False)
        return self._check_phase(phase, len(self.pods))

    def _measure_fault(self, fault: Fault, selector: str, pods: int) -> JSON:
        """From the fault until that many pods of a selector run; the fault lasts until then."""
        reported = partial(says, self.scene, restarts=self.restarts, ready=self.jobs)
        with (
            contextlib.ExitStack() as over,
            measure_pods(self.scene, pods, selector=selector, reported=reported) as phase,
        ):
            phase["begun"] = over.enter_context(fault(self.scene, self.pods))
        return phase

    def _measured_suspend(self, until: str, **counters: int) -> AbstractContextManager[JSON]:
        return measure_pods(
            self.scene,
            len(self.pods),
            selector=attempt(self.restarts),
            until=until,
            reported=partial(says, self.scene, restarts=self.restarts, **counters),
        )

    def _set_suspend(self, *, value: bool) -> None:
        self.scene.request("PATCH", f"{self.scene.path('jobsets', GROUP)}/bench", {"spec": {"suspend": value}}, MERGE)

    def _check_phase(self, phase: JSON, pods: int) -> JSON:
        """The phase, if the pods that should run do, and no others."""
        phase["jobs"] = self.jobs
        self.pods = running_pods(self.scene, pods, restarts=self.restarts)
        if keys.EXCLUSIVE_TOPOLOGY in self.manifest["metadata"]["annotations"]:
            check_exclusive(self.scene, self.pods)
        return phase

    def _check_kept(self, expected: set[str]) -> None:
        if missing := expected - {pod["metadata"]["uid"] for pod in self.pods}:
            raise BenchmarkError(f"{len(missing)} pods that were not affected were created again")

    def _delete(self) -> None:
        """Delete the JobSet, and wait until nothing of it is left."""
        self.scene.request("DELETE", f"{self.scene.path('jobsets', GROUP)}/bench")
        goal = "the set to go"
        wait(lambda: not self.scene.items("jobsets", GROUP) and not self.scene.items("pods"), CLEAR_SECONDS, goal)


def scale_count(count: int, scale: float) -> int:
    """A part of a count, at least 2."""
    return count if scale == 1 else max(2, round(count * scale))


def watched_mib(size: int, events: int, agents: int) -> float:
    """MiB that the API server sends to agents that watch a JobSet of that many bytes, for that many of its changes."""
    return size * events * agents / 2**20
