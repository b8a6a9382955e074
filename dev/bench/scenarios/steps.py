"""The steps that scenarios share: a JobSet is created, a JobSet is restarted. Each checks what came of it."""

from __future__ import annotations

from dev.bench.history import promise
from dev.bench.phases import measured
from dev.bench.scene import JSON, Scene
from dev.bench.sets import GROUP, attempt, checked, fail_one, jobs_of, says


def created(scene: Scene, manifest: JSON) -> tuple[JSON, list[JSON]]:
    """The phase from the creation of the namespace's one JobSet until all pods run, and the pods."""
    jobs, pods = jobs_of(manifest)
    with measured(scene, pods, selector=attempt(0), reported=lambda: says(scene, ready=jobs)) as phase:
        scene.request("POST", scene.path("jobsets", GROUP), manifest)
    phase["jobs"] = jobs
    return phase, checked(scene, pods)


def restarted(scene: Scene, manifest: JSON, pods: list[JSON]) -> tuple[JSON, list[JSON]]:
    """The phase from a failure of one of the first attempt's pods until all of the second run, and these."""
    jobs, count = jobs_of(manifest)
    with (
        promise(scene, old=0, jobs=jobs, pods=count),
        measured(scene, count, selector=attempt(1), reported=lambda: says(scene, restarts=1, ready=jobs)) as phase,
    ):
        fail_one(scene, pods)
    phase["jobs"] = jobs
    return phase, checked(scene, count, restarts=1)
