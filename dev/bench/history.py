"""Whether a restart kept its promise: no pod of the old attempt is left when its Job is created again.

Told from resource versions, which put every change of the cluster in one order, not from clocks. Must not measure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from dev.bench.scene import BenchmarkError, Event, Scene
from dev.bench.sets import BATCH, attempt

NAMED = 5
"""Jobs that are named when there are more of them."""


@contextlib.contextmanager
def promise(scene: Scene, *, old: int, jobs: int, pods: int) -> Iterator[None]:
    """Raises `BenchmarkError` unless each of the Jobs is created after its pods of attempt `old` have gone.

    The block has to last until all Jobs of the next attempt are there.
    """
    with (
        scene.watch(scene.path("pods"), labelSelector=attempt(old)) as of_pods,
        scene.watch(scene.path("jobs", BATCH), labelSelector=attempt(old + 1)) as of_jobs,
        ThreadPoolExecutor(2) as pool,
    ):
        gone = pool.submit(lambda: list(islice(_first(of_pods, "DELETED"), pods)))
        created = pool.submit(lambda: list(islice(_first(of_jobs, "ADDED"), jobs)))
        yield
        last: dict[str, int] = {}
        for event in gone.result():
            job = event.metadata["labels"]["job-name"]
            last[job] = max(last.get(job, 0), int(event.metadata["resourceVersion"]))
        first = {event.metadata["name"]: int(event.metadata["resourceVersion"]) for event in created.result()}
    if wrong := too_early(first, last):
        more = f" and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
        raise BenchmarkError(
            f"{len(wrong)} Jobs were created while pods of attempt {old} were there: {', '.join(wrong[:NAMED])}{more}"
        )


def _first(events: Iterator[Event], kind: str) -> Iterator[Event]:
    """The first event of that type of each object."""
    seen: set[str] = set()
    for event in events:
        if event.type == kind and event.metadata["uid"] not in seen:
            seen.add(event.metadata["uid"])
            yield event


def too_early(created: Mapping[str, int], gone: Mapping[str, int]) -> list[str]:
    """Jobs that were created, by resource version, before the last of their old pods had gone."""
    return sorted(job for job, version in created.items() if version < gone.get(job, 0))
