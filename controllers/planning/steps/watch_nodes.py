"""Step: pods on nodes that have failed (gate JobSetNodeFailure). See docs/concepts/node-failure.md.

The step asks for the nodes that a decision depends on. On failed nodes it deletes pods that nothing else deletes, and
pods whose Jobs replace them while all other pods restart in place. `apply_failure_policy` decides about the Jobs whose
pods this step leaves alone.
"""

from collections.abc import Container, Iterable
from itertools import islice

from api.jobset import JobSet
from api.policies import NodeFailure
from controllers.planning import failed_nodes, node_failure, spare_places
from controllers.planning.actions import DeletePod, NodeQuery, PatchJob
from controllers.planning.attempts import request_next_attempt, requested_attempt
from controllers.planning.child_jobs import Child
from controllers.planning.context import Context
from controllers.planning.finished import has_finished
from controllers.planning.node_failure import GATE, OUT_OF_SERVICE
from controllers.planning.observed import PodOnTaintedNode
from controllers.planning.partial import NOTHING, Partial, Stop, draft_result
from controllers.planning.status import list_some
from kube.model.meta import MAX_INT32

MAX_PROMPTED = 50
"""At most this many Jobs are prompted to replace their pods. For more, the patches take the second that they save."""


def watch_nodes(ctx: Context) -> Partial:
    """A query for nodes, or, once they are read, deletions of pods and the seconds until the next pod is due."""
    policy = ctx.failure_policy.node_failure
    if policy is None:
        return NOTHING
    draft = ctx.draft()
    if not ctx.gates[GATE]:
        draft.warn_of_gate("spec.failurePolicy.nodeFailure", GATE)
        return draft_result(draft)
    pods = ctx.observed.pods_on_failed_nodes
    if not pods:
        return NOTHING
    due = node_failure.due_pods(pods, policy.after_seconds, ctx.now)
    # PodGC of Kubernetes also deletes pods of nodes that do not exist, but later.
    to_delete = [pod for pod in due if _has_to_be_deleted(pod, policy)]
    nodes = {pod.node for pod in to_delete}
    replaced: dict[str, str] = {}
    prompts: list[PatchJob] = []
    if not (ctx.js.spec.suspend or has_finished(ctx.js)):
        lost = node_failure.sort_lost_pods(ctx.js, ctx.gates, ctx.children.active, due)
        nodes |= {pod.node for _, pod in (*lost.failed_jobs, *lost.replaced_pods)}
        replaced = {pod.uid: f"node {pod.node}, {node_failure.describe_node(pod)}" for _, pod in lost.replaced_pods}
        to_delete += [pod for _, pod in lost.replaced_pods if pod not in to_delete]
        message = _message_about_blocking_pods(ctx, due, to_delete)
        if message:
            draft.warn("RestartWaitsForNode", message)
    if unread_nodes := nodes - ctx.observed.read_nodes:
        return Stop(pod_query=NodeQuery.about(unread_nodes))
    if replaced:
        pods_on_nodes = [f"pod {pod.name} is on {replaced[pod.uid]}" for pod in to_delete if pod.uid in replaced]
        advice = "their Jobs make others, and when these have joined all pods restart in place"
        draft.warn("LostPodsReplaced", list_some(pods_on_nodes, advice, ctx.limits))
        request_next_attempt(ctx.js, draft, (child.replicated_job for child, _ in lost.replaced_pods))
        prompts = _prompts(ctx.js, (child for child, _ in lost.replaced_pods), requested_attempt(draft.status))
        failed_nodes.count_replacements(ctx, draft, [pod for pod in to_delete if pod.uid in replaced])
    if ctx.observed.spares and not ctx.js.spec.suspend:  # a node may be lost while the set restarts
        spare_places.promise_places(ctx, draft, to_delete)
    return draft_result(
        draft,
        *(DeletePod(pod.name, pod.uid, pod.uid in replaced) for pod in to_delete),
        *prompts,
        # The status is stored first, since the decisions of this plan, here or in a later step, depend on these pods.
        status_first=bool(to_delete) or draft.status.spares != ctx.status.spares,
        requeue_after=node_failure.seconds_left(pods, policy.after_seconds, ctx.now, ctx.observed.second_passed),
    )


def _prompts(js: JobSet, jobs: Iterable[Child], attempt: int) -> list[PatchJob]:
    """Patches of these Jobs that make the Job controller look at them at once, not a second after their pods are gone.

    A change of a spec prompts it. These patches change `backoffLimit`, where it has the highest value: no Job reaches
    that. Admission requires this value, but webhooks may have been off when the set was created.
    """
    unlimited = {rjob.name for rjob in js.spec.replicated_jobs if rjob.job_spec.get("backoffLimit") == MAX_INT32}
    uids = {child.name: child.job.metadata.uid for child in jobs if child.replicated_job in unlimited}
    change = {"spec": {"backoffLimit": MAX_INT32 - 1 - attempt % 1000}}
    prompted = islice(uids.items(), MAX_PROMPTED)
    return [PatchJob(name, {"metadata": {"uid": uid}, **change}) for name, uid in prompted]


def _has_to_be_deleted(pod: PodOnTaintedNode, policy: NodeFailure) -> bool:
    """Whether to delete the pod without its kubelet: the policy demands that, or the node does not exist any more."""
    return pod.deleting and (policy.force_delete_pods or not pod.taint)


def _message_about_blocking_pods(
    ctx: Context, due: Iterable[PodOnTaintedNode], to_delete: Container[PodOnTaintedNode]
) -> str:
    """A message about pods on lost nodes that delay the next attempt, with advice; empty if there are no such pods."""
    active = {child.job.metadata.uid for child in ctx.children.active if not child.deleting}
    pods = [
        f"pod {pod.name} on node {pod.node}, {node_failure.describe_node(pod)}"
        for pod in due
        if pod.deleting and pod not in to_delete and pod.job_uid not in active and pod.taint != OUT_OF_SERVICE
    ]
    if not pods:
        return ""
    advice = (
        f"once the machine is off or fenced, kubectl taint nodes NODE {OUT_OF_SERVICE}=nodeshutdown:NoExecute; or, if"
        " two processes for one rank do no harm, kubectl delete pod NAME --grace-period=0 --force"
    )
    return "the restart waits for " + list_some(pods, advice, ctx.limits)
