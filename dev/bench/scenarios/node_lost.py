"""P14: a node falls silent under a JobSet of 300 pods: until all run again.

In five forms: 300 Jobs of one pod that are created again, 30 Jobs of ten pods that are, of 30 such Jobs only those of
the lost pods, and 300 Jobs in place, where the containers of the other pods restart, or their workers alone.

The time runs from the taint of kube-controller-manager. How long that takes to come is left out: 40 to 50 s with its
defaults (--node-monitor-grace-period).
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from api import keys
from dev.bench.phases import counted, reaching, running, settled
from dev.bench.scenarios.group import Result, Size
from dev.bench.scenarios.steps import created
from dev.bench.scene import CLEAR_SECONDS, JSON, STALL_SECONDS, BenchmarkError, Scene, wait
from dev.bench.sets import GROUP, attempt, checked, jobset, restarting_in_place, says
from dev.cluster.node_faults import come_back, fall_silent

JOBS = 300
PODS = 10
"""Of each Job, in the second form: a tenth of the Jobs have them."""

AFTER_SECONDS = 10
"""How long the JobSets leave a node with its taint. The Job controller replaces no failed pod sooner."""

GATES = {"JobSetNodeFailure": True, "InPlaceRestart": True, "RestartJob": True}


def run(scene: Scene, size: Size, _: frozenset[str]) -> Iterator[Result]:
    """One after the other."""
    for name, manifest in (
        ("P14 recreate", jobset(size.of(JOBS))),
        ("P14 recreate 10", jobset(size.of(JOBS // PODS), PODS)),
    ):
        phase, pods = created(scene, watching_nodes(manifest))
        yield name, _recreated(scene, pods, phase["jobs"])
        _drop(scene)
    phase, pods = created(scene, watching_nodes(restarting_one_job(jobset(size.of(JOBS // PODS), PODS))))
    yield "P14 recreate lost", _lost_recreated(scene, pods, phase["jobs"])
    _drop(scene)
    in_place = restarting_in_place(watching_nodes(jobset(size.of(JOBS))))
    with agents(scene) as lifted:
        pods = created(scene, in_place)[1]
        begun(lifted, 0, len(pods))
        yield "P14 in place", _in_place(scene, pods, lifted, 1)
    # The agents that start now report the next attempt.
    with agents(scene, worker_only=True) as lifted:
        begun(lifted, 2, len(pods))
        settled(lambda: says(scene, ready=len(pods)))
        # Another node than before: the Job controller waits twice as long after the second failure of a Job.
        others = checked(scene, len(pods))[::-1]
        yield "P14 worker only", _in_place(scene, others, lifted, 3)


def watching_nodes(manifest: JSON) -> JSON:
    """The JobSet, which does not wait for a lost node."""
    manifest["spec"]["failurePolicy"]["nodeFailure"] = {"afterSeconds": AFTER_SECONDS, "forceDeletePods": True}
    return manifest


def restarting_one_job(manifest: JSON) -> JSON:
    """The JobSet, which restarts the Job that has failed, and no other."""
    manifest["spec"]["failurePolicy"]["rules"] = [{"name": "job", "action": "RestartJob"}]
    return manifest


def _recreated(scene: Scene, pods: list[JSON], jobs: int) -> JSON:
    with counted(scene) as phase, running(scene, attempt(1)) as events, _silent(scene, pods) as tainted:
        moments = [moment for moment, _ in reaching(events, "ADDED", len(pods))]
        phase.update(figures(moments, tainted))
        phase["reported_seconds"] = settled(lambda: says(scene, restarts=1, ready=jobs)) - tainted
        checked(scene, len(pods), restarts=1)
    return phase


def _lost_recreated(scene: Scene, pods: list[JSON], jobs: int) -> JSON:
    node = pods[0]["spec"]["nodeName"]
    lost = {_job(pod) for pod in pods if pod["spec"]["nodeName"] == node}
    others = {pod["metadata"]["uid"] for pod in pods if _job(pod) not in lost}
    again = f"{keys.JOB_RESTART_ATTEMPT}=1"
    with counted(scene) as phase, running(scene, again) as events, _silent(scene, pods) as tainted:
        moments = [moment for moment, _ in reaching(events, "ADDED", len(pods) - len(others))]
        phase.update(figures(moments, tainted))
        phase["reported_seconds"] = settled(lambda: says(scene, ready=jobs)) - tainted
        stayed = {pod["metadata"]["uid"] for pod in checked(scene, len(pods))}
    if missing := others - stayed:
        raise BenchmarkError(f"{len(missing)} pods of other Jobs were created again")
    return phase


def _job(pod: JSON) -> str:
    return str(pod["metadata"]["labels"]["job-name"])


def _in_place(scene: Scene, pods: list[JSON], lifted: Lifted, attempt_number: int) -> JSON:
    count, node = len(pods), pods[0]["spec"]["nodeName"]
    with counted(scene) as phase, _silent(scene, pods) as tainted:
        begun(lifted, attempt_number, count)
        phase.update(figures(lifted.moments(attempt_number), tainted))
        phase["reported_seconds"] = settled(lambda: says(scene, ready=count)) - tainted
        stayed = {pod["metadata"]["uid"] for pod in checked(scene, count)}
    lost = {pod["metadata"]["uid"] for pod in pods if pod["spec"]["nodeName"] == node}
    if missing := {pod["metadata"]["uid"] for pod in pods} - lost - stayed:
        raise BenchmarkError(f"{len(missing)} pods of other nodes were created again")
    phase["pods_replaced"] = len(lost)
    return phase


def figures(moments: Sequence[float], begun: float) -> JSON:
    """What a phase says of pods that ran at these moments."""
    after = sorted(moment - begun for moment in moments)
    taken = after[-1]
    half = after[(len(after) - 1) // 2]
    return {"pods": len(after), "half_seconds": half, "seconds": taken, "pods_per_second": len(after) / taken}


@contextlib.contextmanager
def _silent(scene: Scene, pods: list[JSON]) -> Iterator[float]:
    """Let the node of the first pod fall silent for the length of the block; since when it has had its taint."""
    node = pods[0]["spec"]["nodeName"]
    with scene.cluster.connect() as connection:
        fall_silent(connection, node)
        try:
            yield time.monotonic()
        finally:
            come_back(connection, node)


def _drop(scene: Scene) -> None:
    """Delete the JobSet, and wait until nothing of it is left."""
    scene.request("DELETE", f"{scene.path('jobsets', GROUP)}/bench")
    places = [scene.path("jobsets", GROUP), scene.path("pods")]
    wait(lambda: not any(scene.request("GET", place)["items"] for place in places), CLEAR_SECONDS, "the set to go")


class Lifted:
    """When agents let their workers go, as `dev.bench.agents` prints it. `fail_one` lets the worker of one pod fail."""

    def __init__(self, fail_one: Callable[[], None] = lambda: None) -> None:
        self.fail_one = fail_one
        self._moments: dict[int, dict[str, float]] = {}

    def read(self, line: str) -> None:
        said = json.loads(line)
        self._moments.setdefault(said["attempt"], {}).setdefault(said["pod"], said["moment"])

    def moments(self, number: int) -> list[float]:
        """Of the agents that have begun an attempt."""
        return list(self._moments.get(number, {}).values())


def begun(lifted: Lifted, number: int, count: int, timeout: float = STALL_SECONDS) -> None:
    """Wait until so many agents have begun an attempt."""
    wait(lambda: len(lifted.moments(number)) >= count, timeout, f"all agents to begin attempt {number}")


@contextlib.contextmanager
def agents(scene: Scene, *, worker_only: bool = False) -> Iterator[Lifted]:
    """The agents of all pods of the set, for the length of the block."""
    options = ["--worker-only"] if worker_only else []
    options += ["--kubeconfig", str(scene.cluster.kubeconfig), "--namespace", scene.namespace, "--jobset", "bench"]
    with subprocess.Popen(  # noqa: S603 -- a module of ours
        [sys.executable, "-m", "dev.bench.agents", *options], stdout=subprocess.PIPE, text=True
    ) as process:
        lifted, lines = Lifted(lambda: process.send_signal(signal.SIGUSR1)), process.stdout or ()

        def read() -> None:
            for line in lines:
                lifted.read(line)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            yield lifted
        finally:
            process.terminate()
            reader.join(30)
