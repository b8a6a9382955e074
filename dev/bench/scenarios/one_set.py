"""P1, P2, P5: one JobSet of 300 Jobs with a pod each is created, restarted after a failure, suspended and resumed."""

from __future__ import annotations

from collections.abc import Iterator

from dev.bench.phases import measured
from dev.bench.scenarios.group import Result, Size
from dev.bench.scenarios.steps import created, restarted
from dev.bench.scene import Scene
from dev.bench.sets import attempt, checked, jobset, says, suspend

JOBS = 300


def run(scene: Scene, size: Size, wanted: frozenset[str]) -> Iterator[Result]:
    """The phases in the order in which they have to be."""
    manifest = jobset(size.of(JOBS))
    phase, pods = created(scene, manifest)
    yield "P1", phase
    if "P2" in wanted:
        phase, pods = restarted(scene, manifest, pods)
        yield "P2", phase
    if "P5" in wanted:
        yield from _suspended(scene, len(pods), restarts=int("P2" in wanted))


def _suspended(scene: Scene, jobs: int, *, restarts: int) -> Iterator[Result]:
    def said(**counters: int) -> bool:
        return says(scene, restarts=restarts, **counters)

    chosen = attempt(restarts)
    with measured(
        scene, jobs, selector=chosen, until="DELETED", reported=lambda: said(suspended=jobs, active=0)
    ) as phase:
        suspend(scene, value=True)
    yield "P5 suspend", phase
    with measured(scene, jobs, selector=chosen, reported=lambda: said(suspended=0, ready=jobs)) as phase:
        suspend(scene, value=False)
    checked(scene, jobs, restarts=restarts)
    yield "P5 resume", phase
