"""Pods that do not run in time (`failurePolicy.startTimeoutSeconds`).

See docs/concepts/deadlines.md#a-time-limit-for-the-start.

The time of a pod begins with its creation. So it does not run while the set is suspended, begins again with each
attempt, and applies to replacement pods, too. Nothing of it is stored. If all pods of a Job are ready, nothing is read.
Else the pending pods of the set are listed when the first of them may be late, and the result gives the time of the
next check.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from api import avoided_nodes
from api.batch import Job
from api.jobset import JobSet
from controllers.planning import elastic
from controllers.planning.child_jobs import Child, as_failed
from controllers.planning.observed import PendingPod
from kube.model.meta import age

GATE = "JobSetStartTimeout"
REASON = "StartTimeout"
"""Reason with which such a Job counts as failed."""
LOOKS = 20
"""At most this many checks in the time limit of one pod, but one a second is always possible."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that a pod may take. None: any time.

    `start`: until it runs. `node`: until it has a node (avoidNodes). `capacity`: until it has a node (whenNoCapacity).
    """

    start: int | None = None
    node: int | None = None
    capacity: int | None = None

    @property
    def seconds(self) -> tuple[int, ...]:
        """The limits that are set."""
        return tuple(seconds for seconds in (self.start, self.node, self.capacity) if seconds is not None)


def starting(job: Job) -> bool:
    """Whether the Job runs and has a pod that is not ready."""
    status = job.status
    return status.start_time is not None and not job.spec.suspend and status.active > (status.ready or 0)


def seconds_left(jobs: Iterable[Job], seconds: int, now: str, next_start_check: str) -> float:
    """Seconds until a pod of one of these Jobs may be late; 0 or less if one may be now. There is at least one Job."""
    left = seconds - max(age(job.status.start_time or "", now, unknown=0) for job in jobs)
    return max(left, -age(next_start_check, now, unknown=0)) if next_start_check else left


def limits(js: JobSet) -> Limits:
    """The time limits of the pods of a set, whether or not their gates are on."""
    policy, away, smaller = js.spec.failure_policy, avoided_nodes.policy_of(js), elastic.policy_of(js)
    return Limits(
        start=None if policy is None else policy.start_timeout_seconds,
        node=None if away is None else away.drop_after_seconds,
        capacity=None if smaller is None else smaller.shrink_after_seconds,
    )


def next_check(pods: Collection[PendingPod], limits: Limits, now: str) -> str:
    """When the next check may find a late pod, after one at `now` that found `pods`: RFC 3339.

    A pod that is created after `now` cannot be late sooner than a time limit after that.
    """
    least = float(min(limits.seconds, default=0))
    waits = [least, *(limits.start - age(pod.created, now, unknown=0) for pod in pods if limits.start is not None)]
    nodeless = (pod.nodeless for pod in pods)
    if limits.node is not None:
        waits += [limits.node - age(pod.created, now, unknown=0) for pod in nodeless if pod is not None]
    if limits.capacity is not None:  # late pods stay late while no Job may be removed
        unbound = (each for pod in pods for each in (pod, pod.unschedulable) if each is not None and not each.node)
        left = (limits.capacity - age(pod.created, now, unknown=0) for pod in unbound)
        waits += [seconds for seconds in left if seconds > 0]
    wait = max(min(waits), least / LOOKS, 1.0)
    return (datetime.fromisoformat(now) + timedelta(seconds=wait)).isoformat()


def without_node(pending: Mapping[str, PendingPod] | None, seconds: int, now: str) -> dict[str, PendingPod]:
    """One pod of each Job that has had no node for that long, by the UID of the Job."""
    found = {uid: pod.nodeless for uid, pod in (pending or {}).items() if pod.nodeless is not None}
    return {uid: pod for uid, pod in found.items() if age(pod.created, now, unknown=0) >= seconds}


def unschedulable(pending: Mapping[str, PendingPod] | None, seconds: int, now: str) -> dict[str, PendingPod]:
    """One pod of each Job that was unschedulable for that long, by the UID of the Job."""
    found = {uid: pod.unschedulable for uid, pod in (pending or {}).items() if pod.unschedulable is not None}
    return {uid: pod for uid, pod in found.items() if is_late(pod, seconds, now)}


def late(children: Iterable[Child], pending: Mapping[str, PendingPod] | None, seconds: int, now: str) -> list[Child]:
    """The Jobs that have a late pod, each as a failed Job."""
    if not pending:
        return []
    found = ((child, pending.get(child.job.metadata.uid)) for child in children if starting(child.job))
    return [
        as_failed(child, REASON, f"pod {pod.name} was not running {seconds} s after its creation: {pod.why}", now)
        for child, pod in found
        if pod is not None and is_late(pod, seconds, now) and not child.deleting
    ]


def is_late(pod: PendingPod, seconds: int, now: str) -> bool:
    """Whether a pod has been pending for that long."""
    return age(pod.created, now, unknown=0) >= seconds
