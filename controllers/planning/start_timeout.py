"""Finds pods that do not run in time (`failurePolicy.startTimeoutSeconds`).

See docs/concepts/deadlines.md#a-time-limit-for-the-start.

A pod is late if it does not run when `startTimeoutSeconds` have passed since its creation. Two other policies also
limit the time until a pod has a node: `avoidNodes` and `whenNoCapacity`. The limits of a pod begin with its creation.
So they do not run while the set is suspended, begin again after each restart, and also apply to replacement pods.
Nothing about the limits is stored. If a pod of the set is not ready, the pending pods of the set are listed at the time
when a pod may be late. The result of this check gives the time of the next check.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from api.batch import Job
from api.policies import FailurePolicy
from controllers.planning import elastic
from controllers.planning.child_jobs import Child, as_failed
from controllers.planning.observed import PendingPod
from kube.model.meta import age

GATE = "JobSetStartTimeout"
REASON = "StartTimeout"
"""Reason of the failure of a Job that counts as failed because of a late pod."""
MAX_CHECKS = 20
"""At most this many checks are made within one time limit. If the limit is short, one check a second is made."""


@dataclass(frozen=True, slots=True)
class StartLimits:
    """How many seconds a pod may take from its creation. None: no limit.

    - `start`: until the pod runs (`startTimeoutSeconds`).
    - `node`: until the pod has a node, if it avoids nodes (`avoidNodes.dropAfterSeconds`).
    - `capacity`: until the pod has a node (`whenNoCapacity.shrinkAfterSeconds`).
    """

    start: int | None = None
    node: int | None = None
    capacity: int | None = None

    @property
    def seconds(self) -> tuple[int, ...]:
        """The limits that are set."""
        return tuple(seconds for seconds in (self.start, self.node, self.capacity) if seconds is not None)


def is_starting(job: Job) -> bool:
    """Whether the Job runs and has a pod that is not ready."""
    status = job.status
    return status.start_time is not None and not job.spec.suspend and status.active > (status.ready or 0)


def seconds_left(jobs: Iterable[Job], seconds: int, now: str, next_start_check: str) -> float:
    """Seconds until a pod of these Jobs may be late, 0 or less if a pod may be late now. `jobs` may not be empty.

    `seconds`: the time limit. `next_start_check`: RFC 3339; empty: any time. An earlier check would find no late pod.
    """
    until_late = seconds - max(age(job.status.start_time or "", now, unknown=0) for job in jobs)
    return max(until_late, -age(next_start_check, now, unknown=0)) if next_start_check else until_late


def start_limits(policy: FailurePolicy) -> StartLimits:
    """The time limits of pods that a failure policy has, whether or not their gates are on."""
    capacity_policy = elastic.capacity_policy(policy)
    return StartLimits(
        start=policy.start_timeout_seconds,
        node=None if policy.avoid_nodes is None else policy.avoid_nodes.drop_after_seconds,
        capacity=None if capacity_policy is None else capacity_policy.shrink_after_seconds,
    )


def next_check(pods: Collection[PendingPod], limits: StartLimits, now: str) -> str:
    """When to check for late pods again (RFC 3339), after a check at `now` that found these pending pods.

    A pod that is created after `now` cannot be late before the shortest limit has passed since `now`.
    """
    shortest_limit = float(min(limits.seconds, default=0))
    waits = [
        shortest_limit,
        *(limits.start - age(pod.created, now, unknown=0) for pod in pods if limits.start is not None),
    ]
    nodeless = (pod.nodeless for pod in pods)
    if limits.node is not None:
        waits += [limits.node - age(pod.created, now, unknown=0) for pod in nodeless if pod is not None]
    if limits.capacity is not None:
        oldest_pods = (oldest_pod for pod in pods for oldest_pod in (pod, pod.unschedulable) if oldest_pod is not None)
        capacity_waits = (limits.capacity - age(pod.created, now, unknown=0) for pod in oldest_pods if not pod.node)
        # A pod that is late already needs no further check, since this check has found it.
        waits += [seconds for seconds in capacity_waits if seconds > 0]
    wait = max(min(waits), shortest_limit / MAX_CHECKS, 1.0)
    return (datetime.fromisoformat(now) + timedelta(seconds=wait)).isoformat()


def nodeless_pods(pending: Mapping[str, PendingPod] | None, seconds: int, now: str) -> dict[str, PendingPod]:
    """By UID of the Job, a pod without a node that was created at least `seconds` ago and might use one more node.

    `pending`: pending pods by UID of their Job.
    """
    nodeless = {uid: pod.nodeless for uid, pod in (pending or {}).items() if pod.nodeless is not None}
    return {uid: pod for uid, pod in nodeless.items() if is_late(pod, seconds, now)}


def unschedulable_pods(pending: Mapping[str, PendingPod] | None, seconds: int, now: str) -> dict[str, PendingPod]:
    """By UID of the Job, its oldest unschedulable pod, if this pod was created at least `seconds` ago.

    `pending`: pending pods by UID of their Job.
    """
    pods = {uid: pod.unschedulable for uid, pod in (pending or {}).items() if pod.unschedulable is not None}
    return {uid: pod for uid, pod in pods.items() if is_late(pod, seconds, now)}


def late_jobs(
    children: Iterable[Child], pending: Mapping[str, PendingPod] | None, seconds: int, now: str
) -> list[Child]:
    """Copies of the Jobs that have a late pod, with the condition Failed. `seconds`: the time limit."""
    if not pending:
        return []
    candidates = ((child, pending.get(child.job.metadata.uid)) for child in children if is_starting(child.job))
    return [
        as_failed(child, REASON, f"pod {pod.name} was not running {seconds} s after its creation: {pod.reason}", now)
        for child, pod in candidates
        if pod is not None and is_late(pod, seconds, now) and not child.deleting
    ]


def is_late(pod: PendingPod, seconds: int, now: str) -> bool:
    """Whether a pod was created at least `seconds` ago."""
    return age(pod.created, now, unknown=0) >= seconds
