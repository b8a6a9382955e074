"""The order of a restart: no pod of the old attempt can still run when its Job is created again.

Resource versions show it, since they order all changes of the cluster.
"""

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from msgspec import convert

from api.leftovers import NOT_ENDED, PodMeta
from dev.bench.phases import first_events
from dev.bench.scene import BenchmarkError, Event, Scene
from dev.bench.sets import BATCH, attempt

MAX_NAMES = 5
"""Jobs that a message lists."""


@contextlib.contextmanager
def ordered_restart(scene: Scene, *, old: int, jobs: int, pods: int) -> Iterator[None]:
    """Raises `BenchmarkError` unless each of the Jobs is created after its pods of attempt `old` have ended.

    The block has to last until all Jobs of the next attempt exist.
    """
    with (
        scene.watch(scene.path("pods"), labelSelector=attempt(old), fieldSelector=NOT_ENDED) as pod_events,
        scene.watch(scene.path("jobs", BATCH), labelSelector=attempt(old + 1)) as job_events,
        ThreadPoolExecutor(2) as pool,
    ):
        pod_ends = pool.submit(lambda: list(first_events(pod_events, has_ended, pods)))
        created = pool.submit(lambda: list(first_events(job_events, lambda event: event.type == "ADDED", jobs)))
        yield
        last: dict[str, int] = {}
        for event in pod_ends.result():
            job = event.metadata["labels"]["job-name"]
            last[job] = max(last.get(job, 0), int(event.metadata["resourceVersion"]))
        first = {event.metadata["name"]: int(event.metadata["resourceVersion"]) for event in created.result()}
    if wrong := too_early(first, last):
        more = f" and {len(wrong) - MAX_NAMES} more" if len(wrong) > MAX_NAMES else ""
        raise BenchmarkError(
            f"{len(wrong)} Jobs were created while pods of attempt {old} could run:"
            f" {', '.join(wrong[:MAX_NAMES])}{more}"
        )


def has_ended(event: Event) -> bool:
    """Whether a pod cannot run any more: it is gone, or left out by `NOT_ENDED`, or only finalizers keep it."""
    return event.type == "DELETED" or convert(event.metadata, PodMeta).only_finalized


def too_early(created: Mapping[str, int], gone: Mapping[str, int]) -> list[str]:
    """Jobs that were created, by resource version, before the last of their old pods had ended."""
    return sorted(job for job, version in created.items() if version < gone.get(job, 0))
