"""Decides about pods on nodes that are gone, unreachable or out of service (`failurePolicy.nodeFailure`).

See docs/concepts/node-failure.md.

A node in one of these states is a failed node here. Its kubelet no longer reports its pods: running pods stay Running
in the API, and deleted pods are not removed. So the Job controller counts no failure, and a restart waits for pods that
no kubelet ends. This module counts the pods as lost once the node has been failed for `afterSeconds`, and counts their
Jobs as failed. A node that restarts quickly gets no taint, and its kubelet reports the pods as failed. Such a failure
also counts as caused by the node.

The node and its pods are read from the API server before a Job counts as failed, and before a pod is deleted without
waiting for its node. So a watch that is behind cannot end a run of the set.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from api.batch import Job, pods_at_once
from api.features import FeatureGates
from api.jobset import JobSet
from api.policies import FailurePolicyRule
from controllers.planning.child_jobs import Child, as_failed
from controllers.planning.decisive_pod import decides_by_pods
from controllers.planning.observed import FailedPod, Observed, PodAtRisk
from kube.model.meta import seconds_between

GATE = "JobSetNodeFailure"
REASON = "NodeFailure"
"""Reason of the failure of a Job that counts as failed because of a node."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint by which an administrator marks a node as shut down. kube-controller-manager then deletes its pods."""
LOST_REASONS = frozenset({"Unknown", "ContainerStatusUnknown"})
"""Reasons of a container's end that the kubelet reports if it does not know how the container ended."""
UNREACHABLE = "node.kubernetes.io/unreachable"
"""Taint of kube-controller-manager for a node whose kubelet does not report."""


def _seconds_waited(pod: PodAtRisk, now: str) -> float:
    """Seconds since the node failed, or since the pod was created if that was later."""
    return seconds_between(max(pod.at_risk_since, pod.created), now)


def due_pods(pods: Iterable[PodAtRisk], seconds: int, now: str) -> list[PodAtRisk]:
    """The pods that have been on a failed node for at least `seconds`, in the order in which the nodes failed."""
    pods_in_time = [pod for pod in pods if _seconds_waited(pod, now) >= seconds]
    return sorted(pods_in_time, key=lambda pod: (pod.at_risk_since, pod.name))


def lost_pods(js: JobSet, gates: FeatureGates, observed: Observed) -> list[PodAtRisk]:
    """The pods of the set that its nodeFailure now counts as lost."""
    policy = js.failure_policy.node_failure if gates[GATE] else None
    pods = [] if policy is None else due_pods(observed.pods_on_failed_nodes, policy.after_seconds, observed.now)
    return [pod for pod in pods if not pod.ended]


def seconds_left(pods: Iterable[PodAtRisk], seconds: int, now: str, second_passed: float) -> float | None:
    """Seconds until `due_pods` contains another of these pods; None if it contains all of them.

    `second_passed`: the fraction of the second `now` that has passed.
    """
    waits = (seconds - _seconds_waited(pod, now) for pod in pods)
    shortest = min((wait for wait in waits if wait > 0), default=None)
    return None if shortest is None else shortest - second_passed


@dataclass(frozen=True, slots=True)
class LostPodsByOutcome:
    """Lost pods, each with its Job, by what happens to the Job.

    `failed_jobs`: Jobs that count as failed, each with its first lost pod. `replaced_pods`: pods that the Job
    controller replaces while all other pods of the set restart in place (they stay, and only their containers restart).
    """

    failed_jobs: list[tuple[Child, PodAtRisk]]
    replaced_pods: list[tuple[Child, PodAtRisk]]


def sort_lost_pods(
    js: JobSet, gates: FeatureGates, children: Sequence[Child], pods: Iterable[PodAtRisk]
) -> LostPodsByOutcome:
    """Find out for each pod on a failed node whether its Job counts as failed, or its Job replaces the pod.

    Two kinds of pods are in neither list: pods that have ended, and pods that are being deleted while their Job has all
    of its pods. Such a Job has a replacement for the pod or, with in-place restart, has not noticed the deletion yet.
    """
    running = {child.job.metadata.uid: child for child in children if child.may_run}
    failed_jobs: dict[str, tuple[Child, PodAtRisk]] = {}
    replaced_pods: list[tuple[Child, PodAtRisk]] = []
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
    """Whether the Job has all pods that it wants now. Its status does not count pods that are being deleted."""
    wanted_pods = pods_at_once(job.spec)
    if job.spec.completions is not None:
        wanted_pods = min(wanted_pods, job.spec.completions - job.status.succeeded)
    return not job.is_failing and job.status.active >= wanted_pods


def _is_replaced(js: JobSet, gates: FeatureGates, child: Child, pod: PodAtRisk) -> bool:
    """Whether the Job replaces this lost pod, and all other pods of the set restart in place.

    All of these conditions have to be true:
    - The set has the restart strategy InPlaceRestart.
    - Neither `nodeFailure` nor a rule of the failure policy has an action for a failure of a node.
    - The pod can be deleted without waiting for its node: `forceDeletePods` is set, or the node is gone or out of
      service.
    """
    policy = js.failure_policy.node_failure
    if policy is None or not js.restarts_in_place or not gates["InPlaceRestart"]:
        return False
    has_action = policy.action or any(_may_decide(rule, child) for rule in js.failure_policy.rules)
    return not has_action and (policy.force_delete_pods or pod.taint in {"", OUT_OF_SERVICE})


def _may_decide(rule: FailurePolicyRule, child: Child) -> bool:
    """Whether a rule may match the Job if the Job fails because of a node. Patterns of the rule are not compared."""
    reasons, targets = rule.on_job_failure_reasons, rule.target_replicated_jobs
    matches_reason = not reasons or REASON in reasons
    return matches_reason and not rule.is_about_pods and (not targets or child.replicated_job in targets)


def as_node_failure(child: Child, pod: PodAtRisk, now: str) -> Child:
    """A copy of the Job with the condition Failed, because of the failed node of this pod."""
    return as_failed(child, REASON, f"pod {pod.name} is on node {pod.node}, {describe_node(pod)}", now)


def asks_for_pods(js: JobSet, gates: FeatureGates, child: Child) -> bool:
    """Whether the failed pods of a failed Job have to be read to tell a failed node from a failed program."""
    return js.failure_policy.node_failure is not None and gates[GATE] and decides_by_pods(child.job)


def has_lost_container(pod: FailedPod) -> bool:
    """Whether a pod failed because its node restarted.

    After a restart, the kubelet does not know how containers ended, and says so in the reason of their end. The exit
    code (255 or 137) is then not from the program in the container.
    """
    return not pod.deleting and not LOST_REASONS.isdisjoint(pod.reasons)


def as_restarted_node(child: Child, pod: FailedPod, now: str) -> Child:
    """A copy of the Job with the condition Failed, because the node of this pod restarted."""
    return as_failed(child, REASON, restart_message(pod), now)


def restart_message(pod: FailedPod) -> str:
    """A clause that says that a pod failed because its node restarted."""
    return f"pod {pod.name} was on node {pod.node}, which restarted"


def describe_node(pod: PodAtRisk) -> str:
    """A clause for messages, such as `which does not exist since ...` or `which has the taint ... since ...`."""
    if not pod.taint:
        return f"which does not exist since {pod.at_risk_since}"
    return f"which has the taint {pod.taint} since {pod.at_risk_since}"
