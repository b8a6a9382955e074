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
from dev.bench.scene import Scene
from dev.bench.sets import (
    attempt_selector,
    check_exclusive,
    fail_one,
    fail_real_pod,
    is_reported,
    job_and_pod_counts,
    running_pods,
)
from dev.cluster.rest import MERGE
from kube.model.meta import JSON


@dataclass(slots=True)
class Play:
    """A scenario in a namespace of its own.

    - `scale`: the share of the full sizes.
    - `managers`: the managers that have been started, the latest last.
    - `start_manager(folder_name)`: a context in which another such manager runs, with this folder.
    - `manifest`, `pods`, `restarts`: the JobSet, its running pods, and the number of its restarts so far.
    - `large_phase`: the phase of the large JobSet of P6.
    - `exit_stack`: contexts that end with the scenario.
    """

    scene: Scene
    scale: float
    managers: list[local.Manager]
    start_manager: Callable[[str], AbstractContextManager[local.Manager]]
    manifest: JSON = field(default_factory=dict)
    pods: list[JSON] = field(default_factory=list)
    restarts: int = 0
    large_phase: JSON = field(default_factory=dict)
    exit_stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def scale_count(self, count: int) -> int:
        """The part of a count by `scale`, at least 2."""
        return count if self.scale == 1 else max(2, round(count * self.scale))

    @property
    def jobs(self) -> int:
        """Number of Jobs of the JobSet."""
        return job_and_pod_counts(self.manifest)[0]

    def create(self, manifest: JSON) -> JSON:
        """The phase in which the JobSet is created, until all its pods run."""
        self.manifest = manifest
        pods = job_and_pod_counts(manifest)[1]
        reported = partial(is_reported, self.scene, ready=self.jobs)
        with measure_pods(self.scene, pods, selector=attempt_selector(0), reported=reported) as phase:
            self.scene.request("POST", self.scene.jobsets_path, manifest)
        return self._checked_phase(phase, pods)

    def restart(self) -> JSON:
        """The phase in which all Jobs are created again after the failure of a pod, until the new pods run.

        Also checks the order: no Job may be created before its old pods have ended.
        """
        attempt_before, pods = self.restarts, len(self.pods)
        self.restarts = attempt_before + 1
        reported = partial(is_reported, self.scene, restarts=self.restarts, ready=self.jobs)
        with (
            ordered_restart(self.scene, old_attempt=attempt_before, jobs=self.jobs, pods=pods),
            measure_pods(self.scene, pods, selector=attempt_selector(self.restarts), reported=reported) as phase,
        ):
            fail = fail_real_pod if self.scene.cluster.plan.spec.real_nodes else fail_one
            fail(self.scene, self.pods)
        return self._checked_phase(phase, pods)

    def suspend(self) -> JSON:
        """The phase in which the JobSet is suspended, until no pod runs."""
        return self._set_suspend("DELETED", value=True, suspended=self.jobs, active=0)

    def resume(self) -> JSON:
        """The phase in which the JobSet is resumed, until all pods run."""
        phase = self._set_suspend("ADDED", value=False, suspended=0, ready=self.jobs)
        return self._checked_phase(phase, len(self.pods))

    def _set_suspend(self, event_type: str, *, value: bool, **counters: int) -> JSON:
        """Set `spec.suspend`, and measure until each pod has an event of this type, and the status has these counts."""
        scene, selector = self.scene, attempt_selector(self.restarts)
        reported = partial(is_reported, scene, restarts=self.restarts, **counters)
        with measure_pods(scene, len(self.pods), selector=selector, event_type=event_type, reported=reported) as phase:
            scene.request("PATCH", f"{scene.jobsets_path}/bench", {"spec": {"suspend": value}}, MERGE)
        return phase

    def _checked_phase(self, phase: JSON, pods: int) -> JSON:
        """The phase. Raises `BenchmarkError` unless exactly the expected pods run."""
        phase["jobs"] = self.jobs
        self.pods = running_pods(self.scene, pods, restarts=self.restarts)
        if keys.EXCLUSIVE_TOPOLOGY in self.manifest["metadata"]["annotations"]:
            check_exclusive(self.scene, self.pods)
        return phase
