"""Checks that no pod of the old attempt can still run when its Job is created again.

Resource versions show the order, since they order all changes of the cluster.
"""

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from msgspec import convert

from api.leftovers import NOT_ENDED, PodMeta
from dev.bench.phases import first_events
from dev.bench.scene import BenchmarkError, Event, Scene
from dev.bench.sets import BATCH_API, attempt_selector
from kube.model.field import join_names


@contextlib.contextmanager
def ordered_restart(scene: Scene, *, old_attempt: int, jobs: int, pods: int) -> Iterator[None]:
    """Raise `BenchmarkError` after the block if a Job was created before its pods of the old attempt had ended.

    The block has to last until all Jobs of the next attempt exist.
    """
    old, new = attempt_selector(old_attempt), attempt_selector(old_attempt + 1)
    with (
        scene.watch(scene.path("pods"), labelSelector=old, fieldSelector=NOT_ENDED) as pod_events,
        scene.watch(scene.path("jobs", BATCH_API), labelSelector=new) as job_events,
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
    if early_jobs := jobs_created_early(creation_versions, pod_end_versions):
        raise BenchmarkError(
            f"{len(early_jobs)} Jobs were created while pods of attempt {old_attempt} could run:"
            f" {join_names(early_jobs)}"
        )


def has_ended(event: Event) -> bool:
    """Whether a pod of a watch with the selector `NOT_ENDED` has ended or is gone, or only finalizers keep it."""
    return event.type == "DELETED" or convert(event.metadata, PodMeta).is_only_finalized


def jobs_created_early(creation_versions: Mapping[str, int], pod_end_versions: Mapping[str, int]) -> list[str]:
    """Jobs that were created, by resource version, before the last of their old pods had ended."""
    return sorted(job for job, version in creation_versions.items() if version < pod_end_versions.get(job, 0))
