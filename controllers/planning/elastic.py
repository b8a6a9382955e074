"""Decides which ReplicatedJobs may continue with fewer Jobs, if pods find no node after a failure.

The policy is `failurePolicy.nodeFailure.whenNoCapacity`. `replicas` in the spec stays as the user has set it. The
status has the current number of Jobs, and most steps of a plan see a copy of the JobSet with the current number as
`replicas` (`JobSet.with_current_replicas`). See docs/concepts/elastic.md.
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
"""Reason of a restart, and of its event, after which the set has fewer Jobs."""
RESTORED = "ReplicasRestored"
"""Reason of a restart, and of its event, after which the set has more Jobs again."""
RESIZED = "ReplicasChanged"
"""Reason of a restart, and of its event, because the user has changed the number of Jobs."""


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
    """The Jobs in `children` whose pods come after a restart of the set, of the Job or of one of its pods.

    Only such Jobs may be removed for lack of nodes. A set that starts or is resumed waits until it has nodes for all of
    its Jobs, so restarts before the last resume do not count. Restarts in place (of containers in their pods) and
    failed pods always count, because their times are not recorded.
    """
    status, children = js.status, list(children)
    if not children or requested_attempt(status):
        return children
    names_with_job_restarts = {entry.name for entry in status.replicated_jobs_status if any(entry.job_restarts)}
    suspended = find(status.conditions, keys.SUSPENDED)
    resumed = suspended.last_transition_time if suspended is not None and suspended.status == "False" else ""
    if status.last_restart is not None and status.last_restart.start_time >= resumed:
        return [
            child
            for child in children
            if status.restarts or child.replicated_job in names_with_job_restarts or _has_failed_pods(child)
        ]
    return [
        child
        for child in children
        if _has_failed_pods(child)
        or (child.replicated_job in names_with_job_restarts and (child.job.metadata.creation_timestamp or "") > resumed)
    ]


def _has_failed_pods(child: Child) -> bool:
    return child.job.status.failed > 0
