"""The acts of a scenario on its JobSet, such as its creation and its restart. Each act is measured."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

from api import keys
from dev import local
from dev.bench.history import ordered_restart
from dev.bench.phases import measure_pods
from dev.bench.scene import CLEAR_SECONDS, BenchmarkError, Scene, wait
from dev.bench.sets import (
    GROUP,
    attempt,
    check_exclusive,
    fail_one,
    fail_real_pod,
    is_reported,
    job_and_pod_counts,
    running_pods,
)
from dev.cluster.rest import MERGE
from kube.model.meta import JSON

StartManager = Callable[[str], AbstractContextManager[local.Manager]]
"""Runs another manager of the kind under measurement during a block. The argument names its folder."""


def _start_none(name: str) -> AbstractContextManager[local.Manager]:
    raise BenchmarkError(f"{name}: no further manager can be started here")


@dataclass(slots=True)
class Play:
    """A scenario in a namespace of its own. `scale`: the share of the full sizes. `beside_phase`: see `wait_beside`."""

    scene: Scene
    scale: float = 1.0
    manifest: JSON = field(default_factory=dict)
    pods: list[JSON] = field(default_factory=list)
    restarts: int = 0
    beside_phase: JSON = field(default_factory=dict)
    managers: list[local.Manager] = field(default_factory=list)
    """The managers that have been started, the latest last."""
    start_manager: StartManager = _start_none
    exit_stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """Contexts that end with the scenario."""

    def scale_count(self, count: int) -> int:
        """The part of a count by `scale`, at least 2."""
        return count if self.scale == 1 else max(2, round(count * self.scale))

    @property
    def jobs(self) -> int:
        """Number of Jobs of the JobSet."""
        return job_and_pod_counts(self.manifest)[0]

    def create(self, manifest: JSON) -> JSON:
        """The phase in which the JobSet is created, until all its pods run. An earlier JobSet is deleted first."""
        if self.manifest:
            self._delete()
        self.manifest, self.restarts = manifest, 0
        pods = job_and_pod_counts(manifest)[1]
        reported = partial(is_reported, self.scene, ready=self.jobs)
        with measure_pods(self.scene, pods, selector=attempt(0), reported=reported) as phase:
            self.scene.request("POST", self.scene.path("jobsets", GROUP), manifest)
        return self._check_phase(phase, pods)

    def restart(self) -> JSON:
        """The phase in which all Jobs are created again after the failure of a pod, until the new pods run.

        Also checks the order: no Job may be created before its old pods have ended.
        """
        attempt_before, pods = self.restarts, len(self.pods)
        self.restarts = attempt_before + 1
        reported = partial(is_reported, self.scene, restarts=self.restarts, ready=self.jobs)
        with (
            ordered_restart(self.scene, old_attempt=attempt_before, jobs=self.jobs, pods=pods),
            measure_pods(self.scene, pods, selector=attempt(self.restarts), reported=reported) as phase,
        ):
            fail = fail_real_pod if self.scene.cluster.plan.spec.real_nodes else fail_one
            fail(self.scene, self.pods)
        return self._check_phase(phase, pods)

    def suspend(self) -> JSON:
        """The phase in which the JobSet is suspended, until no pod runs."""
        with self._measure_suspend("DELETED", suspended=self.jobs, active=0) as phase:
            self._set_suspend(value=True)
        return phase

    def resume(self) -> JSON:
        """The phase in which the JobSet is resumed, until all pods run."""
        with self._measure_suspend("ADDED", suspended=0, ready=self.jobs) as phase:
            self._set_suspend(value=False)
        return self._check_phase(phase, len(self.pods))

    def _measure_suspend(self, event_type: str, **counters: int) -> AbstractContextManager[JSON]:
        return measure_pods(
            self.scene,
            len(self.pods),
            selector=attempt(self.restarts),
            event_type=event_type,
            reported=partial(is_reported, self.scene, restarts=self.restarts, **counters),
        )

    def _set_suspend(self, *, value: bool) -> None:
        self.scene.request("PATCH", f"{self.scene.path('jobsets', GROUP)}/bench", {"spec": {"suspend": value}}, MERGE)

    def _check_phase(self, phase: JSON, pods: int) -> JSON:
        """Return the phase. Raises `BenchmarkError` unless exactly the expected pods run."""
        phase["jobs"] = self.jobs
        self.pods = running_pods(self.scene, pods, restarts=self.restarts)
        if keys.EXCLUSIVE_TOPOLOGY in self.manifest["metadata"]["annotations"]:
            check_exclusive(self.scene, self.pods)
        return phase

    def _delete(self) -> None:
        """Delete the JobSet, and wait until nothing of it is left."""
        self.scene.request("DELETE", f"{self.scene.path('jobsets', GROUP)}/bench")
        goal = "the set to go"
        wait(lambda: not self.scene.items("jobsets", GROUP) and not self.scene.items("pods"), CLEAR_SECONDS, goal)
