"""What a manager holds after thousands of JobSets have lived and gone: no more than after the first hundreds."""

import logging

import pytest

from controllers.placement.controller import WORKERS
from kube.store import Store
from tests.support.model import virtual
from tests.support.model.many_lives import KINDS, Crowd, census

NOISE = 20
"""Objects of a type that may come and go: less than one for each set that lives at a time."""

OF_WORKERS = dict.fromkeys(("hamt", "hamt_bitmap_node", "JobRequest"), 2 * WORKERS)
"""More of these may come: each worker of the placement controller keeps its last request, and a context for its log."""

TOGETHER = 5 * len(KINDS)
"""Sets that live at the same time."""

FIRST = 2
"""Generations after which all that lasts is there."""

ENDS = [
    *(("completes", "deleted", 0), ("fails", "deleted", 0), ("restarts", "Completed", 1), ("large", "Completed", 1)),
    *(("kept", "Completed", 0), ("exclusive", "Completed", 0)),
    *((kind, "", 0) for kind in ("runs", "suspended", "refused", "claims")),
]
"""Each kind of set: its terminal state, or deleted by the manager, and its restarts."""


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Refused Jobs are logged, and pytest would keep that."""
    caplog.set_level(logging.CRITICAL, "kube.controller")


def live(lives: int) -> None:
    """Compares what there is after a first share of the lives with what there is at the end, all at rest."""

    async def story() -> None:
        crowd = Crowd()
        async with crowd.watched():
            for _ in range(FIRST):
                await crowd.generation(TOGETHER)
            await crowd.rest()
            assert crowd.left() == {}, "the model keeps something"
            before, series = census(), crowd.series()
            while crowd.lives < lives:
                await crowd.generation(TOGETHER)
            await crowd.rest()
            after = census()
            assert crowd.left() == {}
            assert crowd.ends == {end: lives // len(KINDS) for end in ENDS}
            assert crowd.series() == series
            assert all(len(store.list()) == 0 for store in stores(crowd))
            more = {
                kind: (before[kind], n) for kind, n in after.items() if n - before[kind] > OF_WORKERS.get(kind, NOISE)
            }
            assert more == {}, f"more than after {FIRST * TOGETHER} lives"

    virtual.run(story)


def stores(crowd: Crowd) -> list[Store]:
    watches = crowd.watches
    return [informer.store for informer in (watches.jobsets, watches.jobs, watches.services, watches.claims)]


@pytest.mark.no_cover
def test_nothing_of_a_set_is_left_in_the_manager():
    live(200)


@pytest.mark.slow
@pytest.mark.timeout(5400)
def test_memory_is_flat_over_100000_lives():
    live(100_000)
