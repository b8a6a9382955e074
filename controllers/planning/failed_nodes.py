"""Finds and counts the nodes that caused failures of a set, so that new pods avoid these nodes.

The policy is `failurePolicy.avoidNodes`, and the counts are in `status.failedNodes`. A node has caused a failure in
these cases:
- `failurePolicy.nodeFailure` counts a Job as failed because of the node, or has a pod on the node replaced.
- A Job fails, and a pod on the node failed with an exit code or reason that `avoidNodes` names.
- With in-place restart, a worker (the program in a pod) on the node ended with an exit code that `avoidNodes` names,
  and starts again in the same pod.

One plan counts a node at most once. The same write of the status stores the count and the restart after the failure.
See docs/concepts/avoid-nodes.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from api.avoided_nodes import GATE, nodes_to_avoid, recent_failures
from api.jobset_status import FailedNode
from api.policies import MAX_FAILED_NODES, AvoidNodes
from controllers.planning import node_failure
from controllers.planning.child_jobs import Child
from controllers.planning.context import Context
from controllers.planning.decisive_pod import decides_by_pods, first_matching_end
from controllers.planning.observed import Ended, FailedPod, PodAtRisk
from controllers.planning.status import StatusDraft
from controllers.planning.worker_failures import worker_failures

MAX_REASON_BYTES = 256
"""At most this many bytes of `status.failedNodes[].reason`."""


@dataclass(frozen=True, slots=True)
class Blame:
    """Why a node counts as the cause of a failure.

    `reason`: a message. `topology`, `domain`: key and value of the node label by which exclusive placement has placed
    the Job that failed on the node; empty if not known.
    """

    reason: str
    topology: str = ""
    domain: str = ""


def avoid_policy(ctx: Context) -> AvoidNodes | None:
    """The set's policy for nodes that caused failures; None if it has no such policy, or the gate is off."""
    return ctx.failure_policy.avoid_nodes if ctx.gates[GATE] else None


def needs_pods(ctx: Context, child: Child) -> bool:
    """Whether the failed pods of a Job have to be read to know whether a node caused the failure."""
    policy = avoid_policy(ctx)
    depends_on_pods = policy is not None and (policy.on_exit_codes is not None or policy.on_pod_reasons)
    return bool(depends_on_pods) and decides_by_pods(child.job)


def count_failures(ctx: Context, draft: StatusDraft, failed_jobs: Iterable[Child]) -> None:
    """Count the nodes that caused the failures of these Jobs, with an event for each node that is avoided from now on.

    `failed_jobs`: Jobs whose failure the plan has decided about, and Jobs that continue because their failed workers
    start again in their pods.
    """
    policy = avoid_policy(ctx)
    if policy is None or draft.status.terminal_state:
        return
    _count_nodes(ctx, draft, policy, _blames(ctx, policy, {child.job.metadata.uid for child in failed_jobs}))


def count_replacements(ctx: Context, draft: StatusDraft, pods: Iterable[PodAtRisk]) -> None:
    """Count the nodes of pods that are replaced while other pods restart in place.

    A pod may still be observed after its node was counted. So a node is not counted again if it was counted after it
    failed and after the pod was created.
    """
    policy = avoid_policy(ctx)
    if policy is None:
        return
    counted = {node.name: node.last_time for node in draft.status.failed_nodes}
    uncounted_pods = [pod for pod in pods if counted.get(pod.node, "") < max(pod.at_risk_since, pod.created)]
    _count_nodes(ctx, draft, policy, _blame_nodes(uncounted_pods))


def _count_nodes(ctx: Context, draft: StatusDraft, policy: AvoidNodes, blames: Mapping[str, Blame]) -> None:
    """Count a failure for each of the nodes. `blames`: by name of the node."""
    if not blames:
        return
    js = msgspec.structs.replace(ctx.js, status=draft.status)
    avoided_before = {node.name for node in nodes_to_avoid(js, ctx.now)}
    nodes = {node.name: node for node in recent_failures(js, ctx.now)}
    for name, blame in sorted(blames.items()):
        entry = nodes.pop(name, FailedNode(name=name))
        nodes[name] = entry if entry.last_time == ctx.now else _with_failure(entry, blame, policy, ctx.now)
    draft.update(failed_nodes=tuple(nodes.values())[-MAX_FAILED_NODES:])
    avoided_now = nodes_to_avoid(msgspec.structs.replace(js, status=draft.status), ctx.now)
    for node in avoided_now:
        if node.name not in avoided_before:
            location = f" and its domain {node.domain}" if node.domain else ""
            note = f"pods of Jobs that are created from now on keep away from node {node.name}{location}: {node.reason}"
            draft.add_event("Normal", "AvoidsNode", note)


def _blames(ctx: Context, policy: AvoidNodes, uids: set[str]) -> Mapping[str, Blame]:
    """By name, the nodes that caused failures of the Jobs with these UIDs. The first pod on a node gives the reason."""
    blames: dict[str, Blame] = {}
    node_policy, observed = ctx.failure_policy.node_failure, ctx.observed
    if node_policy is not None and ctx.gates[node_failure.GATE]:
        due_pods = node_failure.due_pods(observed.pods_on_failed_nodes, node_policy.after_seconds, ctx.now)
        blames |= _blame_nodes(pod for pod in due_pods if pod.job_uid in uids and not pod.ended)
    for uid in uids & observed.failed_pods.keys():
        for failed_pod in observed.failed_pods[uid]:
            if node_policy is not None and node_failure.has_lost_container(failed_pod):
                reason = f"{node_failure.REASON}: {node_failure.restart_message(failed_pod)}"
            else:
                reason = _failure_cause(policy, failed_pod)
            if failed_pod.node and reason:
                blames.setdefault(failed_pod.node, Blame(reason, failed_pod.topology, failed_pod.domain))
    for child, container, _ in worker_failures(ctx.js, ctx.children.active, observed.pods, observed.last_ends):
        end = Ended(container.container, container.exit_code or 0)
        reason = _failure_cause(policy, FailedPod(container.pod, container.node, (end,)))
        if child.job.metadata.uid in uids and reason:
            blames.setdefault(container.node, Blame(reason))
    return blames


def _blame_nodes(pods: Iterable[PodAtRisk]) -> dict[str, Blame]:
    """By name, the nodes of these pods, which `nodeFailure` counts as lost."""
    blames: dict[str, Blame] = {}
    for pod in pods:
        reason = f"{node_failure.REASON}: pod {pod.name} was on the node, {node_failure.describe_node(pod)}"
        blames.setdefault(pod.node, Blame(reason, pod.topology, pod.domain))
    return blames


def _failure_cause(policy: AvoidNodes, pod: FailedPod) -> str:
    """Why the node counts as the cause of the pod's failure; empty if it does not.

    A pod that is being deleted has failed because its Job has failed, and not because of its node.
    """
    if pod.deleting:
        return ""
    by_code = first_matching_end(policy.on_exit_codes, pod.ends) if policy.on_exit_codes is not None else None
    if by_code is not None:
        return f"container {by_code.container} of pod {pod.name} ended with exit code {by_code.exit_code}"
    reason = next((reason for reason in pod.reasons if reason in policy.on_pod_reasons), "")
    return f"pod {pod.name} failed with reason {reason}" if reason else ""


def _with_failure(node: FailedNode, blame: Blame, policy: AvoidNodes, now: str) -> FailedNode:
    """The entry of the node with one more failure. Its domain is stored only if the policy avoids whole domains."""
    has_domain_scope = policy.scope == "Domain"
    return FailedNode(
        name=node.name,
        failures=node.failures + 1,
        last_time=now,
        reason=blame.reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore"),
        topology_key=(blame.topology if blame.domain else node.topology_key) if has_domain_scope else "",
        domain=(blame.domain or node.domain) if has_domain_scope else "",
    )
