"""Decides about pods on nodes that are gone, unreachable or out of service (`failurePolicy.nodeFailure`).

See docs/concepts/node-failure.md.

The kubelet of such a node no longer reports its pods: running pods stay Running in the API, and deleted pods are not
removed. So the Job controller counts no failure, and a restart waits for pods that no kubelet ends. This module counts
the pods as failed once the node has been in that state for `afterSeconds`. A node that restarts quickly gets no taint,
and its kubelet reports the pods as failed; such a failure also counts as caused by the node.

The node and its pods are read from the API server before a Job counts as failed, and before a pod is deleted without
waiting for its node. So a watch that is behind cannot end an attempt.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from api.batch import Job, pods_at_once
from api.features import FeatureGates
from api.jobset import JobSet
from api.policies import FailurePolicyRule
from controllers.planning.child_jobs import Child, as_failed
from controllers.planning.decisive_pod import decides_by_pods
from controllers.planning.observed import FailedPod, Observed, PodOnTaintedNode
from kube.model.meta import seconds_between

GATE = "JobSetNodeFailure"
REASON = "NodeFailure"
"""Reason of the failure of a Job that counts as failed because of a node."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint by which an administrator marks a node as shut down. kube-controller-manager then deletes its pods."""
LOST_REASONS = frozenset({"Unknown", "ContainerStatusUnknown"})
"""Reasons of a container's end that container runtime and kubelet report when they have lost track of it."""
UNREACHABLE = "node.kubernetes.io/unreachable"
"""Taint of kube-controller-manager for a node whose kubelet does not report."""


def _seconds_waited(pod: PodOnTaintedNode, now: str) -> float:
    """Seconds since the node failed, or since the pod was created if that was later."""
    return seconds_between(max(pod.tainted_since, pod.created), now)


def due_pods(pods: Iterable[PodOnTaintedNode], seconds: int, now: str) -> list[PodOnTaintedNode]:
    """The pods that have been on a failed node for at least `seconds`, in the order in which the nodes failed."""
    due = [pod for pod in pods if _seconds_waited(pod, now) >= seconds]
    return sorted(due, key=lambda pod: (pod.tainted_since, pod.name))


def lost_pods(js: JobSet, gates: FeatureGates, observed: Observed) -> list[PodOnTaintedNode]:
    """The pods of the set that its nodeFailure now counts as lost."""
    policy = js.failure_policy.node_failure if gates[GATE] else None
    pods = [] if policy is None else due_pods(observed.pods_on_failed_nodes, policy.after_seconds, observed.now)
    return [pod for pod in pods if not pod.ended]


def seconds_left(pods: Iterable[PodOnTaintedNode], seconds: int, now: str, second_passed: float) -> float | None:
    """Seconds until the next pod is due; None if all are due. `second_passed`: the part of `now` that has passed."""
    waits = (seconds - _seconds_waited(pod, now) for pod in pods)
    shortest = min((wait for wait in waits if wait > 0), default=None)
    return None if shortest is None else shortest - second_passed


@dataclass(frozen=True, slots=True)
class LostPodsByOutcome:
    """Pods on failed nodes, each with its Job.

    `failed_jobs`: Jobs that count as failed, each with its first pod on a failed node. `replaced_pods`: pods that their
    Job replaces while all other pods of the set restart in place.
    """

    failed_jobs: list[tuple[Child, PodOnTaintedNode]]
    replaced_pods: list[tuple[Child, PodOnTaintedNode]]


def sort_lost_pods(
    js: JobSet, gates: FeatureGates, children: Sequence[Child], pods: Iterable[PodOnTaintedNode]
) -> LostPodsByOutcome:
    """Sort these pods into those whose Job counts as failed, and those that their Job replaces.

    A pod that has ended is not a failure, and neither is a pod that is being deleted while its Job has all of its pods.
    The Job then has a replacement or, with in-place restart, has not noticed the deletion yet.
    """
    running = {child.job.metadata.uid: child for child in children if child.may_run}
    failed_jobs: dict[str, tuple[Child, PodOnTaintedNode]] = {}
    replaced_pods: list[tuple[Child, PodOnTaintedNode]] = []
    for pod in pods:
        child = running.get(pod.job_uid)
        if child is None or pod.ended:
            continue
        if _is_replaced(js, gates, child, pod):
            # The Job creates no other pod before this one is gone (podReplacementPolicy).
            replaced_pods.append((child, pod))
        elif not (pod.deleting and _has_all_pods(child.job)):
            failed_jobs.setdefault(pod.job_uid, (child, pod))
    return LostPodsByOutcome(list(failed_jobs.values()), replaced_pods)


def _has_all_pods(job: Job) -> bool:
    """Whether the Job has all pods that it wants now. Pods that are being deleted are not active."""
    wanted_pods = pods_at_once(job.spec)
    if job.spec.completions is not None:
        wanted_pods = min(wanted_pods, job.spec.completions - job.status.succeeded)
    return not job.is_failing and job.status.active >= wanted_pods


def _is_replaced(js: JobSet, gates: FeatureGates, child: Child, pod: PodOnTaintedNode) -> bool:
    """Whether the Job replaces this pod, and all other pods restart in place.

    This requires InPlaceRestart, and that neither a rule nor `nodeFailure` has an action for such a failure. It also
    requires that the pod can be deleted without waiting for its node: `forceDeletePods` is set, or the node is gone or
    out of service.
    """
    policy = js.failure_policy.node_failure
    if policy is None or not js.restarts_in_place or not gates["InPlaceRestart"]:
        return False
    has_action = policy.action or any(_may_decide(rule, child) for rule in js.failure_policy.rules)
    return not has_action and (policy.force_delete_pods or pod.taint in {"", OUT_OF_SERVICE})


def _may_decide(rule: FailurePolicyRule, child: Child) -> bool:
    """Whether a rule may match the Job if it fails because of a node. Patterns of the rule are not compared."""
    reasons, targets = rule.on_job_failure_reasons, rule.target_replicated_jobs
    matches_reason = REASON in reasons if reasons else True
    return matches_reason and not rule.is_about_pods and (not targets or child.replicated_job in targets)


def as_node_failure(child: Child, pod: PodOnTaintedNode, now: str) -> Child:
    """A copy of the Job that has failed because of the node of this pod."""
    return as_failed(child, REASON, f"pod {pod.name} is on node {pod.node}, {describe_node(pod)}", now)


def asks_for_pods(js: JobSet, gates: FeatureGates, child: Child) -> bool:
    """Whether the failed pods of a failed Job have to be read to tell a failed node from a failed program."""
    return js.failure_policy.node_failure is not None and gates[GATE] and decides_by_pods(child.job)


def has_lost_container(pod: FailedPod) -> bool:
    """Whether a pod failed because its node restarted.

    After a restart, the kubelet does not know how containers ended. It reports that in their reason, with an exit code
    that is not the program's: 255 or 137.
    """
    return not pod.deleting and not LOST_REASONS.isdisjoint(pod.reasons)


def as_restarted_node(child: Child, pod: FailedPod, now: str) -> Child:
    """A copy of the Job that has failed because the node of this pod restarted."""
    return as_failed(child, REASON, restart_message(pod), now)


def restart_message(pod: FailedPod) -> str:
    """A clause that says that a pod failed because its node restarted."""
    return f"pod {pod.name} was on node {pod.node}, which restarted"


def describe_node(pod: PodOnTaintedNode) -> str:
    """A relative clause about the node: that it does not exist, or its taint, and since when."""
    if not pod.taint:
        return f"which does not exist since {pod.tainted_since}"
    return f"which has the taint {pod.taint} since {pod.tainted_since}"
