"""Decides which ReplicatedJobs may continue with fewer Jobs (`nodeFailure.whenNoCapacity`).

See docs/concepts/elastic.md. Steps plan for `JobSet.with_current_replicas`, which is the set with its current number of
Jobs. `spec.replicas` keeps the user's number, which this program never changes.
"""

from collections.abc import Iterable

from api import keys
from api.elastic import WhenNoCapacity
from api.jobset import JobSet
from api.policies import FailurePolicy
from controllers.planning.attempts import requested_attempt
from controllers.planning.child_jobs import Child
from kube.model.meta import find

REDUCED = "ReplicasReduced"
"""Reason of the restart and its event if the set continues with fewer Jobs."""
RESTORED = "ReplicasRestored"
"""Reason of the restart and its event if the set continues with more Jobs again."""
RESIZED = "ReplicasChanged"
"""Reason of the restart and its event if the user has changed the number of Jobs."""


def capacity_policy(policy: FailurePolicy) -> WhenNoCapacity | None:
    """The part of the failure policy about pods that find no node; None if it has no such part."""
    return policy.node_failure.when_no_capacity if policy.node_failure is not None else None


def reducible_names(js: JobSet) -> frozenset[str]:
    """Names of the ReplicatedJobs that may continue with fewer Jobs than they have now."""
    if capacity_policy(js.failure_policy) is None:
        return frozenset()
    rjobs = js.spec.replicated_jobs
    return frozenset(rjob.name for rjob in rjobs if rjob.elastic is not None and rjob.replicas > rjob.elastic.min)


def restarted_jobs(js: JobSet, children: Iterable[Child]) -> list[Child]:
    """The Jobs in `children` whose pods replace earlier pods, after a restart of the set, the Job or one of its pods.

    A set that starts, or is resumed, waits for all of its capacity, so restarts before the last resume do not count.
    Restarts in place and failed pods always count, because their times are not recorded.
    """
    status, children = js.status, list(children)
    if not children or requested_attempt(status):
        return children
    with_job_restarts = {entry.name for entry in status.replicated_jobs_status if any(entry.job_restarts)}
    suspended = find(status.conditions, keys.SUSPENDED)
    resumed = suspended.last_transition_time if suspended is not None and suspended.status == "False" else ""
    if status.last_restart is not None and status.last_restart.start_time >= resumed:
        return [
            child
            for child in children
            if status.restarts or child.replicated_job in with_job_restarts or _has_failed_pods(child)
        ]
    return [
        child
        for child in children
        if _has_failed_pods(child)
        or (child.replicated_job in with_job_restarts and (child.job.metadata.creation_timestamp or "") > resumed)
    ]


def _has_failed_pods(child: Child) -> bool:
    return child.job.status.failed > 0
