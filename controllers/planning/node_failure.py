"""Pods of nodes that are gone, unreachable or out of service (`failurePolicy.nodeFailure`).

See docs/concepts/node-failure.md.

The kubelet of such a node does not report its pods any more: running pods stay Running in the API, and deleted pods are
not removed. So the Job controller counts no failure, and a restart waits for pods that no kubelet ends. Here the pods
count as failed once the node has been in that state for `afterSeconds`. A node that restarts quickly gets no taint, and
its kubelet reports the pods as failed: the node caused that, too. The caches alone decide nothing: the node and its
pods are read before a Job counts as failed, and before a pod is deleted without waiting for its node. A watch that is
behind ends no attempt.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from api.batch import Job, pods_at_once
from api.features import FeatureGates
from api.jobset import JobSet
from api.policies import FailurePolicyRule, NodeFailure
from controllers.planning.child_jobs import Child, as_failed
from controllers.planning.decisive_pod import decides_by_pods
from controllers.planning.observed import FailedPod, Observed, PodOnTaintedNode
from kube.model.meta import seconds_between

GATE = "JobSetNodeFailure"
REASON = "NodeFailure"
"""Reason with which such a Job counts as failed."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint by which an administrator marks a node as off: kube-controller-manager then deletes its pods."""
LOST_REASONS = frozenset({"Unknown", "ContainerStatusUnknown"})
"""Reasons of a container's end that container runtime and kubelet report when they have lost track of it."""
UNREACHABLE = "node.kubernetes.io/unreachable"
"""Taint of kube-controller-manager for a node whose kubelet does not report."""


def policy_of(js: JobSet) -> NodeFailure | None:
    """The set's policy about failed nodes; None if it has none."""
    policy = js.spec.failure_policy
    return policy.node_failure if policy is not None else None


def _seconds_waited(pod: PodOnTaintedNode, now: str) -> float:
    """Seconds for which the pod has been on the failed node. For a pod that is bound later, the time starts then."""
    return seconds_between(max(pod.since, pod.created), now)


def due(pods: Iterable[PodOnTaintedNode], seconds: int, now: str) -> list[PodOnTaintedNode]:
    """The pods whose node has failed for at least `seconds`, the longest first."""
    found = [pod for pod in pods if _seconds_waited(pod, now) >= seconds]
    return sorted(found, key=lambda pod: (pod.since, pod.name))


def lost_pods(js: JobSet, gates: FeatureGates, observed: Observed) -> list[PodOnTaintedNode]:
    """The pods of the set that its nodeFailure now counts as lost."""
    wanted = policy_of(js) if gates[GATE] else None
    pods = [] if wanted is None else due(observed.pods_on_failed_nodes, wanted.after_seconds, observed.now)
    return [pod for pod in pods if not pod.ended]


def seconds_left(pods: Iterable[PodOnTaintedNode], seconds: int, now: str, passed: float) -> float | None:
    """Seconds until the next of the others is due; None if there is none.

    `passed`: the elapsed part of the second `now`.
    """
    left = (seconds - _seconds_waited(pod, now) for pod in pods)
    soonest = min((wait for wait in left if wait > 0), default=None)
    return None if soonest is None else soonest - passed


@dataclass(frozen=True, slots=True)
class LostPods:
    """Pods on failed nodes, each with the Job of the attempt that runs it.

    `failed`: the first pod of each Job that fails because of it. `replaced`: pods in whose place the Job makes others,
    while all other pods of the set restart in place.
    """

    failed: list[tuple[Child, PodOnTaintedNode]]
    replaced: list[tuple[Child, PodOnTaintedNode]]


def lost_jobs(js: JobSet, gates: FeatureGates, children: Sequence[Child], pods: Iterable[PodOnTaintedNode]) -> LostPods:
    """Sort the Jobs with these pods by what the policy does about them.

    A pod that has ended, or is being deleted while the Job has a replacement, is not a failure. With in-place restart
    there is no replacement: a Job that has all of its pods has only not noticed yet.
    """
    running = {child.job.metadata.uid: child for child in children if not (child.deleting or child.job.spec.suspend)}
    failed: dict[str, tuple[Child, PodOnTaintedNode]] = {}
    replaced: list[tuple[Child, PodOnTaintedNode]] = []
    for pod in pods:
        child = running.get(pod.job_uid)
        if child is None or pod.ended:
            continue
        if _is_replaced(js, gates, child, pod):
            replaced.append((child, pod))  # its Job creates no other before it is gone (podReplacementPolicy Failed)
        elif not (pod.deleting and _complete(child.job)):
            failed.setdefault(pod.job_uid, (child, pod))
    return LostPods(list(failed.values()), replaced)


def _complete(job: Job) -> bool:
    """Whether the Job has all pods that it wants now. Pods that are being deleted are not active."""
    wanted = pods_at_once(job.spec)
    if job.spec.completions is not None:
        wanted = min(wanted, job.spec.completions - job.status.succeeded)
    return not job.doomed and job.status.active >= wanted


def _is_replaced(js: JobSet, gates: FeatureGates, child: Child, pod: PodOnTaintedNode) -> bool:
    """Whether the Job makes another pod in place of this one, and all other pods restart in place.

    So it is with InPlaceRestart where neither a rule nor `nodeFailure` has an action for such a failure. Nothing may
    wait for the pod's end: its deletion was requested, or the node is off.
    """
    policy = js.spec.failure_policy
    wanted = policy.node_failure if policy is not None else None
    if policy is None or wanted is None or not js.restarts_in_place or not gates["InPlaceRestart"]:
        return False
    decided = wanted.action or any(_may_decide(rule, child) for rule in policy.rules)
    return not decided and (wanted.force_delete_pods or pod.taint in {"", OUT_OF_SERVICE})


def _may_decide(rule: FailurePolicyRule, child: Child) -> bool:
    """Whether a rule may match Jobs that fail because of a node; its patterns are not compared."""
    reasons, targets = rule.on_job_failure_reasons, rule.target_replicated_jobs
    of_it = REASON in reasons if reasons else True
    return of_it and not rule.is_about_pods and (not targets or child.replicated_job in targets)


def as_node_failure(child: Child, pod: PodOnTaintedNode, now: str) -> Child:
    """The Job as if it had failed because of the node of this pod."""
    return as_failed(child, REASON, f"pod {pod.name} is on node {pod.node}, {state(pod)}", now)


def asks_for_pods(js: JobSet, gates: FeatureGates, child: Child) -> bool:
    """Whether the failed pods of a failed Job have to be read to tell a failed node from a failed program."""
    return policy_of(js) is not None and gates[GATE] and decides_by_pods(child.job)


def has_lost_container(pod: FailedPod) -> bool:
    """Whether a pod failed because its node restarted.

    After a restart, the kubelet does not know how containers ended. It reports that in their reason, with an exit code
    that is not the program's: 255 or 137.
    """
    return not pod.deleting and not LOST_REASONS.isdisjoint(pod.reasons)


def as_restarted_node(child: Child, pod: FailedPod, now: str) -> Child:
    """The Job as if it had failed because the node of this pod restarted."""
    return as_failed(child, REASON, restart_message(pod), now)


def restart_message(pod: FailedPod) -> str:
    """How a node failed its pod, as a clause."""
    return f"pod {pod.name} was on node {pod.node}, which restarted"


def state(pod: PodOnTaintedNode) -> str:
    """The fault of the node, as the end of a sentence."""
    if not pod.taint:
        return f"which does not exist since {pod.since}"
    return f"which has the taint {pod.taint} since {pod.since}"
