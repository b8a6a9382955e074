"""Which ReplicatedJobs may continue with fewer Jobs, and after which pods (`nodeFailure.whenNoCapacity`).

See docs/concepts/elastic.md. `JobSet.with_current_replicas` is the set with its current number of Jobs, which
all of a plan uses. `spec.replicas` keeps the user's number: this program never writes it.
"""

from collections.abc import Iterable

from api import keys
from api.elastic import WhenNoCapacity
from api.jobset import JobSet
from controllers.planning.attempts import requested_attempt
from controllers.planning.child_jobs import Child
from kube.model.meta import find

REASON = "ReplicasReduced"
"""Reason of the restart, and of the event, by which a set continues with fewer Jobs."""
RESTORED = "ReplicasRestored"
"""The same, if it continues with more of them again."""
RESIZED = "ReplicasChanged"
"""The same, if the user wants another number of Jobs."""
PLANNED = "this restart is planned, and does not count towards maxRestarts"


def policy_of(js: JobSet) -> WhenNoCapacity | None:
    """The set's policy about pods that find no node; None if it has none."""
    policy = js.spec.failure_policy
    node_failure = policy.node_failure if policy is not None else None
    return node_failure.when_no_capacity if node_failure is not None else None


def reducible(js: JobSet) -> frozenset[str]:
    """Names of the ReplicatedJobs that may continue with fewer Jobs than they have now."""
    if policy_of(js) is None:
        return frozenset()
    rjobs = (rjob for rjob in js.spec.replicated_jobs if rjob.elastic is not None)
    return frozenset(rjob.name for rjob in rjobs if rjob.elastic is not None and rjob.replicas > rjob.elastic.min)


def replacements(js: JobSet, children: Iterable[Child]) -> list[Child]:
    """Those whose pods replace earlier ones: the set, the Job or one of its pods was restarted.

    A set that starts, or is resumed, waits for all of its capacity, so restarts before the last resume do not count.
    The times of restarts in place and of failed pods of a Job are not recorded: these always count.
    """
    status, children = js.status, list(children)
    if not children or requested_attempt(status):
        return children
    alone = {entry.name for entry in status.replicated_jobs_status if any(entry.job_restarts)}
    suspended = find(status.conditions, keys.SUSPENDED)
    resumed = suspended.last_transition_time if suspended is not None and suspended.status == "False" else ""
    if status.last_restart is not None and status.last_restart.start_time >= resumed:
        return [child for child in children if status.restarts or child.replicated_job in alone or _lost_pods(child)]
    created = ((child, child.job.metadata.creation_timestamp or "") for child in children)
    return [child for child, time in created if _lost_pods(child) or (child.replicated_job in alone and time > resumed)]


def _lost_pods(child: Child) -> bool:
    return child.job.status.failed > 0
