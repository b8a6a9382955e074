"""Plans the deletion of Jobs of earlier attempts in batches, and says whether their pods may outlive these Jobs.

An attempt is the time between two restarts of the set. A large set that restarts deletes thirty Jobs with one call, by
a label selector and with background propagation, so that the garbage collector does not have to write each Job once
more. With this propagation, a Job is gone before its pods have ended: the pods are left over. So a Job is created again
only when its leftover pods are known to be gone (`controllers.jobset.leftover_pods`).
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
    # With ElasticJobSet, the set may have had more Jobs when it restarted.
    may_be_large = layout.global_replicas >= limits.batch_deletion_from or gates["ElasticJobSet"]
    if js.status.restarts == 0 or not may_be_large or has_finished(js):
        return False
    return has_earlier_attempt(js, children) or any(map(children.lack_jobs, js.spec.replicated_jobs))


def has_earlier_attempt(js: JobSet, children: ChildJobs) -> bool:
    """Whether Jobs of an earlier attempt of the set exist. A Job that was restarted alone does not count."""
    return any(_attempt(child) < js.status.restarts for child in children.previous)


def names_with_leftovers(leftovers: Leftovers | None, children: ChildJobs) -> frozenset[str] | None:
    """Names of the Jobs that wait for leftover pods; None: not known.

    Pods of unrecognized Jobs do not count. Such a Job has labels that do not fit, and is left alone with its pods.
    """
    if leftovers is None:
        return None
    return frozenset(without_owners(leftovers, {job.metadata.uid for job in children.unrecognized}))


def batch_deletions(js: JobSet, old_jobs: Iterable[Child], layout: Layout, limits: Limits) -> tuple[DeleteJobs, ...]:
    """Batch deletions of those Jobs in `old_jobs` that a label selector can identify; empty for a small set."""
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
    """The attempt in the label of a Job; 0 without a valid label."""
    return integer(child.job.metadata.labels.get(keys.RESTART_ATTEMPT)) or 0


def _is_selectable(js: JobSet, child: Child) -> bool:
    """Whether a Job can be deleted in a batch: the selector matches its labels, and the Job has no finalizer.

    A user may have changed the labels. The selector contains the name of the set, since the cache has all Jobs whose
    label has this name. So the plan knows every Job that the selector may match, including Jobs of other owners.
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
    """Whether the value of a label is an attempt number less than `restarts`, without leading zeros."""
    attempt = integer(text)
    return attempt is not None and attempt < restarts and str(attempt) == text
