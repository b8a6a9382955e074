"""Which Jobs of earlier attempts are deleted many at a time, and by which selectors.

A large set that restarts asks once for some thirty Jobs instead of once for each, and in the background: the garbage
collector need not touch each Job again before it goes. The Jobs' names are free before their pods have ended, so
whoever creates them anew has to know of those pods: `controllers.jobset.lingering`.
"""

from collections.abc import Iterable
from itertools import groupby

from api import keys
from api.jobset import JobSet
from controllers.jobset.actions import DeleteJobs
from controllers.jobset.buckets import Child, integer

WORTH_IT = 10
"""Jobs of a set from which on its attempts are deleted collectively: two calls to look for pods have to pay."""

BATCH = 30
"""Jobs of one call. The API server deletes those of one call one after the other, and calls side by side."""


def worth_it(jobs: int) -> bool:
    """Whether a set of so many Jobs is restarted this way."""
    return jobs >= WORTH_IT


def batches(js: JobSet, old: Iterable[Child]) -> tuple[DeleteJobs, ...]:
    """Deletions of those Jobs of earlier attempts whose labels say exactly what they are; the others are left out."""
    known = [child for child in old if _selectable(js, child)]
    known.sort(key=lambda child: (_attempt(child), child.global_index))
    out: list[DeleteJobs] = []
    for attempt, children in groupby(known, key=_attempt):
        of = list(children)
        for start in range(0, len(of), BATCH):
            batch = of[start : start + BATCH]
            indexes = ",".join(str(child.global_index) for child in batch)
            selector = (
                f"{keys.JOBSET_UID}={js.metadata.uid},{keys.RESTART_ATTEMPT}={attempt},"
                f"{keys.JOB_GLOBAL_INDEX} in ({indexes})"
            )
            out.append(DeleteJobs(selector, tuple((child.name, child.job.metadata.uid) for child in batch)))
    return tuple(out)


def _attempt(child: Child) -> int:
    return integer(child.job.metadata.labels.get(keys.RESTART_ATTEMPT)) or 0


def _selectable(js: JobSet, child: Child) -> bool:
    """Whether it goes at once when it is deleted, and is found by labels as they are written here.

    Somebody may have changed the labels, or keep the Job by a finalizer.
    """
    labels = child.job.metadata.labels
    return (
        not child.deleting
        and not child.job.metadata.finalizers
        and _attempt(child) < js.status.restarts
        and labels.get(keys.JOBSET_UID) == js.metadata.uid
        and labels.get(keys.RESTART_ATTEMPT) == str(_attempt(child))
        and labels.get(keys.JOB_GLOBAL_INDEX) == str(child.global_index)
    )
