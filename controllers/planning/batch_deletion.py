"""Deletes Jobs of earlier attempts in batches, by label selectors, and says whether they may leave pods.

A large set that restarts sends one deletion for thirty Jobs, with background propagation, so that the garbage collector
does not have to write each Job once more. The names of the Jobs are free before their pods have ended. So a Job is
created again only when its old pods are known to be gone (`controllers.jobset.leftover_pods`).
"""

from collections.abc import Iterable
from functools import lru_cache

from api import keys
from api.features import FeatureGates
from api.jobset import JobSet
from api.layout import Layout
from api.leftovers import Leftovers, without_owners
from controllers.planning.actions import DeleteJobs
from controllers.planning.child_jobs import Child, ChildJobs, integer
from controllers.planning.finished import has_finished
from controllers.planning.limits import Limits


def may_leave_pods(js: JobSet, children: ChildJobs, layout: Layout, gates: FeatureGates, limits: Limits) -> bool:
    """Whether pods of earlier attempts may outlive their Jobs, so that new Jobs have to wait for these pods."""
    # With the gate, the set may have been larger when it restarted.
    may_be_large = layout.global_replicas >= limits.batch_deletion_from or gates["ElasticJobSet"]
    if js.status.restarts == 0 or not may_be_large or has_finished(js):
        return False
    return has_earlier_attempt(js, children) or any(map(children.lack_jobs, js.spec.replicated_jobs))


def has_earlier_attempt(js: JobSet, children: ChildJobs) -> bool:
    """Whether there are Jobs of an earlier attempt of the set. Jobs that restart alone do not count."""
    return any(_attempt(child) < js.status.restarts for child in children.previous)


def names_with_leftovers(leftovers: Leftovers | None, children: ChildJobs) -> frozenset[str] | None:
    """Names of the Jobs that wait for leftover pods; None: not known.

    Unrecognized Jobs are left alone with their pods. Such a Job may have the name of a Job whose pods are left over.
    """
    if leftovers is None:
        return None
    return frozenset(without_owners(leftovers, {job.metadata.uid for job in children.unrecognized}))


def batch_deletions(js: JobSet, old_jobs: Iterable[Child], layout: Layout, limits: Limits) -> tuple[DeleteJobs, ...]:
    """Batch deletions of those Jobs of earlier attempts that a selector can select; empty for a small set."""
    if layout.global_replicas < limits.batch_deletion_from:
        return ()
    children_by_attempt: dict[str, list[Child]] = {}
    for child in old_jobs:
        if _is_selectable(js, child):
            children_by_attempt.setdefault(child.job.metadata.labels[keys.RESTART_ATTEMPT], []).append(child)
    deletions: list[DeleteJobs] = []
    size = limits.jobs_per_deletion
    for attempt, children in sorted(children_by_attempt.items(), key=lambda item: int(item[0])):
        for start in range(0, len(children), size):
            batch = children[start : start + size]
            indexes = ",".join(str(child.global_index) for child in batch)
            selector = (
                f"{keys.JOBSET_NAME}={js.metadata.name},{keys.JOBSET_UID}={js.metadata.uid},"
                f"{keys.RESTART_ATTEMPT}={attempt},"
                f"{keys.JOB_GLOBAL_INDEX} in ({indexes})"
            )
            deletions.append(DeleteJobs(selector, tuple((child.name, child.job.metadata.uid) for child in batch)))
    return tuple(deletions)


def _attempt(child: Child) -> int:
    return integer(child.job.metadata.labels.get(keys.RESTART_ATTEMPT)) or 0


def _is_selectable(js: JobSet, child: Child) -> bool:
    """Whether a Job can be deleted in a batch: the selector matches its labels, and no finalizer keeps it.

    A user may have changed the labels. The selector contains the name of the set, because the watch of Jobs shows every
    Job with that label. So the plan knows all Jobs that a selector may match, including Jobs of other owners.
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
    """Whether a label is the number of an attempt before `restarts`, without leading zeros."""
    attempt = integer(text)
    return attempt is not None and attempt < restarts and str(attempt) == text
