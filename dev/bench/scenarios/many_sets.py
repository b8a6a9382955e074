"""P4: 150 JobSets of two Jobs each at once. P6: how long small JobSets wait beside one of 2,000 Jobs."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from api import keys
from dev.bench.phases import counted, measured, reaching, running, settled
from dev.bench.scenarios.group import Result, Size
from dev.bench.scene import JSON, Scene
from dev.bench.sets import GROUP, attempt, checked, jobset, says

SETS, JOBS = 150, 2
SMALL, LARGE = 50, 2000
LARGE_SET = f"{keys.JOBSET_NAME}=large"


def at_once(scene: Scene, size: Size, _: frozenset[str]) -> Iterator[Result]:
    """P4."""
    sets = size.of(SETS)
    jobs = sets * JOBS
    with measured(scene, jobs, selector=attempt(0), reported=lambda: says(scene, ready=jobs)) as phase:
        scene.create_all(scene.path("jobsets", GROUP), [jobset(JOBS, name=f"set-{n}") for n in range(sets)])
    phase["jobs"] = jobs
    checked(scene, jobs)
    yield "P4", phase


def beside_a_large_one(scene: Scene, size: Size, _: frozenset[str]) -> Iterator[Result]:
    """P6: the small ones alone, then as many others just after the large one."""
    small, large = size.of(SMALL), size.of(LARGE)
    with counted(scene) as phase:
        phase.update(_waits(scene, "alone", small))
        settled(lambda: says(scene, ready=small))
    yield "P6 alone", phase
    with counted(scene) as whole, running(scene, LARGE_SET) as events, ThreadPoolExecutor(1) as pool:
        arriving = pool.submit(lambda: [moment for moment, _ in reaching(events, "ADDED", large)])
        [begun] = scene.create_all(scene.path("jobsets", GROUP), [jobset(large, name="large")])
        with counted(scene) as phase:
            phase.update(_waits(scene, "beside", small))
        whole["pods"], whole["seconds"] = large, arriving.result()[-1] - begun
        whole["pods_per_second"] = large / whole["seconds"]
        whole["reported_seconds"] = settled(lambda: says(scene, ready=large + 2 * small)) - begun
    checked(scene, large + 2 * small)
    yield "P6 beside", phase
    yield "P6 large", whole


def _waits(scene: Scene, name: str, count: int) -> JSON:
    """Seconds from sending a JobSet of one pod until that pod runs: the median and the longest."""
    manifests = [jobset(1, name=f"{name}-{n}") for n in range(count)]
    names = [manifest["metadata"]["name"] for manifest in manifests]
    with running(scene, f"{keys.JOBSET_NAME} in ({','.join(names)})") as events:
        sent = scene.create_all(scene.path("jobsets", GROUP), manifests)
        ran = {meta["labels"][keys.JOBSET_NAME]: moment for moment, meta in reaching(events, "ADDED", count)}
    waits = [ran[created] - moment for created, moment in zip(names, sent, strict=True)]
    return {"pods": count, "seconds": max(waits), "half_seconds": statistics.median(waits), "waits": sorted(waits)}
