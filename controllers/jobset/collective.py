"""Which Jobs of earlier attempts are deleted many at a time, and by which selectors.

A large set that restarts asks once for some thirty Jobs instead of once for each, and in the background: the garbage
collector need not touch each Job again before it goes. The Jobs' names are free before their pods have ended, so
whoever creates them anew has to know of those pods: `controllers.jobset.lingering`.
"""

from collections.abc import Iterable
from functools import lru_cache

from api import keys
from api.features import FeatureGates
from api.jobset import JobSet
from api.placement import Placement
from controllers.jobset.actions import DeleteJobs
from controllers.jobset.buckets import Buckets, Child, integer
from controllers.jobset.policies import ttl

WORTH_IT = 10
"""Jobs of a set from which on its attempts are deleted collectively: two calls to look for pods have to pay."""

BATCH = 30
"""Jobs of one call. The API server deletes those of one call one after the other, and calls side by side."""


def follows(js: JobSet, of: Buckets, placed: Placement, gates: FeatureGates) -> bool:
    """Whether pods of earlier attempts may outlive their Jobs, and stand in the way of new ones."""
    # A set that may shrink was perhaps larger when it restarted.
    large = placed.global_replicas >= WORTH_IT or gates["ElasticJobSet"]
    if js.status.restarts == 0 or not large or ttl.finished(js):
        return False
    return earlier(js, of) or any(
        index not in of.present[rjob.name] and index not in of.completed[rjob.name]
        for rjob in js.spec.replicated_jobs
        for index in range(rjob.replicas)
    )


def earlier(js: JobSet, of: Buckets) -> bool:
    """Whether Jobs of an earlier attempt of the set are left. Jobs that were restarted alone are not of one."""
    return any(_attempt(child) < js.status.restarts for child in of.previous)


def lingering(names: frozenset[str] | None, of: Buckets) -> frozenset[str] | None:
    """Those of the Jobs that stand in the way. Odd ones are left alone, and so are their pods."""
    return names and names.difference(job.metadata.name for job in of.odd)


def batches(js: JobSet, old: Iterable[Child], placed: Placement) -> tuple[DeleteJobs, ...]:
    """Deletions of those Jobs of earlier attempts whose labels say exactly what they are; the others are left out.

    None for a small set.
    """
    if placed.global_replicas < WORTH_IT:
        return ()
    attempts: dict[str, list[Child]] = {}
    for child in old:
        if _selectable(js, child):
            attempts.setdefault(child.job.metadata.labels[keys.RESTART_ATTEMPT], []).append(child)
    out: list[DeleteJobs] = []
    for attempt, of in sorted(attempts.items(), key=lambda item: int(item[0])):
        for start in range(0, len(of), BATCH):
            batch = of[start : start + BATCH]
            indexes = ",".join(str(child.global_index) for child in batch)
            selector = (
                f"{keys.JOBSET_NAME}={js.metadata.name},{keys.JOBSET_UID}={js.metadata.uid},"
                f"{keys.RESTART_ATTEMPT}={attempt},"
                f"{keys.JOB_GLOBAL_INDEX} in ({indexes})"
            )
            out.append(DeleteJobs(selector, tuple((child.name, child.job.metadata.uid) for child in batch)))
    return tuple(out)


def _attempt(child: Child) -> int:
    return integer(child.job.metadata.labels.get(keys.RESTART_ATTEMPT)) or 0


def _selectable(js: JobSet, child: Child) -> bool:
    """Whether a Job goes at once when it is deleted and is found by labels as they are written here.

    Somebody may have changed the labels, or keep the Job by a finalizer. With the name of the set among them, nothing
    is found that its watch of Jobs does not show, so that Jobs of others are known of.
    """
    meta = child.job.metadata
    labels = meta.labels
    return (
        labels.get(keys.JOBSET_UID) == js.metadata.uid
        and labels.get(keys.JOBSET_NAME) == js.metadata.name
        and labels.get(keys.JOB_GLOBAL_INDEX) == str(child.global_index)
        and _is_earlier(labels.get(keys.RESTART_ATTEMPT), js.status.restarts)
        and not child.deleting
        and not meta.finalizers
    )


@lru_cache(maxsize=128)
def _is_earlier(text: str | None, restarts: int) -> bool:
    """Whether a label names an attempt before that many restarts as it is written here: `007` would not be found."""
    attempt = integer(text)
    return attempt is not None and attempt < restarts and str(attempt) == text
