"""Checks the order of a restart: no pod of the old attempt may still run when its Job is created again.

Resource versions show the order, since they order all changes of the cluster.
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
"""Largest number of Jobs in a message."""


@contextlib.contextmanager
def ordered_restart(scene: Scene, *, old_attempt: int, jobs: int, pods: int) -> Iterator[None]:
    """Raise `BenchmarkError` after the block if a Job was created before its pods of the old attempt had ended.

    The block has to last until all Jobs of the next attempt exist.
    """
    with (
        scene.watch(scene.path("pods"), labelSelector=attempt(old_attempt), fieldSelector=NOT_ENDED) as pod_events,
        scene.watch(scene.path("jobs", BATCH), labelSelector=attempt(old_attempt + 1)) as job_events,
        ThreadPoolExecutor(2) as pool,
    ):
        pod_ends = pool.submit(lambda: list(first_events(pod_events, has_ended, pods)))
        created = pool.submit(lambda: list(first_events(job_events, lambda event: event.type == "ADDED", jobs)))
        yield
        pod_end_versions: dict[str, int] = {}
        for event in pod_ends.result():
            job = event.metadata["labels"]["job-name"]
            pod_end_versions[job] = max(pod_end_versions.get(job, 0), int(event.metadata["resourceVersion"]))
        creation_versions = {
            event.metadata["name"]: int(event.metadata["resourceVersion"]) for event in created.result()
        }
    if early_jobs := too_early(creation_versions, pod_end_versions):
        more_jobs = f" and {len(early_jobs) - MAX_NAMES} more" if len(early_jobs) > MAX_NAMES else ""
        raise BenchmarkError(
            f"{len(early_jobs)} Jobs were created while pods of attempt {old_attempt} could run:"
            f" {', '.join(early_jobs[:MAX_NAMES])}{more_jobs}"
        )


def has_ended(event: Event) -> bool:
    """Whether a pod cannot run any more, since it is gone, or `NOT_ENDED` leaves it out, or only finalizers keep it."""
    return event.type == "DELETED" or convert(event.metadata, PodMeta).only_finalized


def too_early(creation_versions: Mapping[str, int], pod_end_versions: Mapping[str, int]) -> list[str]:
    """Jobs that were created, by resource version, before the last of their old pods had ended."""
    return sorted(job for job, version in creation_versions.items() if version < pod_end_versions.get(job, 0))
