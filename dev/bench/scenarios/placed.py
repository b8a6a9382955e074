"""P3: 40 Jobs of 10 pods are created and restarted: wherever there is room, or each Job alone on a rack."""

from __future__ import annotations

from collections.abc import Iterator

from dev.bench.scenarios.group import Result, Size
from dev.bench.scenarios.steps import created, restarted
from dev.bench.scene import Scene
from dev.bench.sets import check_exclusive, jobset

JOBS, PODS = 40, 10
CPU = "16"
"""Half a node: a rack of ten nodes holds one Job twice over, so that only the rule keeps Jobs apart."""


def plain(scene: Scene, size: Size, _: frozenset[str]) -> Iterator[Result]:
    """What exclusive placement is compared with."""
    manifest = jobset(size.of(JOBS), PODS, cpu=CPU)
    phase, pods = created(scene, manifest)
    yield "P3 plain create", phase
    yield "P3 plain restart", restarted(scene, manifest, pods)[0]


def exclusive(scene: Scene, size: Size, _: frozenset[str]) -> Iterator[Result]:
    """The same with a rack for each Job."""
    manifest = jobset(size.of(JOBS), PODS, cpu=CPU, exclusive=True)
    phase, pods = created(scene, manifest)
    check_exclusive(scene, pods)
    yield "P3 create", phase
    phase, pods = restarted(scene, manifest, pods)
    check_exclusive(scene, pods)
    yield "P3 restart", phase
