"""Step: delete pods on nodes that have failed (gate JobSetNodeFailure). See docs/concepts/node-failure.md.

A pod on a failed node is due when its node has been failed or gone for `nodeFailure.afterSeconds`. The watches may be
behind, so the step asks for the node itself before anything is decided about a due pod. Two kinds of due pods are
deleted:

- Pods that are being deleted already, if the node does not exist or `nodeFailure.forceDeletePods` is set. Their kubelet
  may never report that they have ended.
- In a set with in-place restart, pods whose Jobs replace them. The agents in all other pods restart the workers there.

For the other due pods, `apply_failure_policy` decides about their Jobs.
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
from controllers.planning.observed import PodAtRisk
from controllers.planning.partial import NOTHING, LastPartial, Partial, draft_result
from controllers.planning.status import list_some
from kube.model.meta import MAX_INT32

MAX_PROMPTED = 50
"""At most this many Jobs get a patch to speed up the replacement of their pods. More patches would save no time."""


def watch_nodes(ctx: Context) -> Partial:
    """Ask for the nodes of due pods. Once they are read, delete pods, and plan again when the next pod is due."""
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
    due_pods = node_failure.due_pods(pods, policy.after_seconds, ctx.now)
    # PodGC of Kubernetes also deletes pods of nodes that do not exist, but later.
    pods_to_delete = [pod for pod in due_pods if _has_to_be_deleted(pod, policy)]
    decided_nodes = {pod.node for pod in pods_to_delete}
    nodes_of_replaced_pods: dict[str, str] = {}
    job_patches: list[PatchJob] = []
    if not (ctx.js.spec.suspend or has_finished(ctx.js)):
        lost = node_failure.sort_lost_pods(ctx.js, ctx.gates, ctx.children.active, due_pods)
        decided_nodes |= {pod.node for _, pod in (*lost.failed_jobs, *lost.replaced_pods)}
        nodes_of_replaced_pods = {
            pod.uid: f"node {pod.node}, {node_failure.describe_node(pod)}" for _, pod in lost.replaced_pods
        }
        pods_to_delete += [pod for _, pod in lost.replaced_pods if pod not in pods_to_delete]
        message = _message_about_blocking_pods(ctx, due_pods, pods_to_delete)
        if message:
            draft.warn("RestartWaitsForNode", message)
    if unread_nodes := decided_nodes - ctx.observed.read_nodes:
        return LastPartial(pod_query=NodeQuery.about(unread_nodes))
    if nodes_of_replaced_pods:
        replaced_pods = [pod for pod in pods_to_delete if pod.uid in nodes_of_replaced_pods]
        causes = [f"pod {pod.name} is on {nodes_of_replaced_pods[pod.uid]}" for pod in replaced_pods]
        advice = "their Jobs make others, and when these have joined all pods restart in place"
        draft.warn("LostPodsReplaced", list_some(causes, advice, ctx.limits))
        request_next_attempt(ctx.js, draft, (child.replicated_job for child, _ in lost.replaced_pods))
        attempt = requested_attempt(draft.status)
        job_patches = _patches_to_prompt_job_controller(ctx.js, (child for child, _ in lost.replaced_pods), attempt)
        failed_nodes.count_replacements(ctx, draft, replaced_pods)
    if ctx.observed.spares and not ctx.js.spec.suspend:  # also while the set restarts
        spare_places.promise_places(ctx, draft, pods_to_delete)
    return draft_result(
        draft,
        *(DeletePod(pod.name, pod.uid, pod.uid in nodes_of_replaced_pods) for pod in pods_to_delete),
        *job_patches,
        # Decisions of this plan, here or in a later step, depend on these pods. So the status is stored first.
        status_first=bool(pods_to_delete) or draft.status.spares != ctx.status.spares,
        requeue_after=node_failure.seconds_left(pods, policy.after_seconds, ctx.now, ctx.observed.second_passed),
    )


def _patches_to_prompt_job_controller(js: JobSet, jobs: Iterable[Child], attempt: int) -> list[PatchJob]:
    """Patches that make the Job controller look at these Jobs at once, not a second after their pods are gone.

    The Job controller looks at a Job at once when its spec changes. These patches reduce `backoffLimit` a little, where
    it has the highest value, so that no Job reaches the limit. `attempt` makes the value differ from that of the last
    patch. Admission requires the highest value, but webhooks may have been off when the set was created.
    """
    unlimited_names = {rjob.name for rjob in js.spec.replicated_jobs if rjob.job_spec.get("backoffLimit") == MAX_INT32}
    uids = {child.name: child.job.metadata.uid for child in jobs if child.replicated_job in unlimited_names}
    change = {"spec": {"backoffLimit": MAX_INT32 - 1 - attempt % 1000}}
    return [PatchJob(name, {"metadata": {"uid": uid}, **change}) for name, uid in islice(uids.items(), MAX_PROMPTED)]


def _has_to_be_deleted(pod: PodAtRisk, policy: NodeFailure) -> bool:
    """Whether to delete the pod without its kubelet: the policy demands that, or the node does not exist any more."""
    return pod.deleting and (policy.force_delete_pods or not pod.taint)


def _message_about_blocking_pods(
    ctx: Context, due_pods: Iterable[PodAtRisk], pods_to_delete: Container[PodAtRisk]
) -> str:
    """A message about pods on lost nodes that delay a restart, with advice; empty if there are no such pods.

    They are pods of Jobs of the attempt before the restart. They stay until their kubelet answers or the user acts.
    """
    active_uids = {child.job.metadata.uid for child in ctx.children.active if not child.deleting}
    pods = [
        f"pod {pod.name} on node {pod.node}, {node_failure.describe_node(pod)}"
        for pod in due_pods
        if pod.deleting and pod not in pods_to_delete and pod.job_uid not in active_uids and pod.taint != OUT_OF_SERVICE
    ]
    if not pods:
        return ""
    advice = (
        f"once the machine is off or fenced, kubectl taint nodes NODE {OUT_OF_SERVICE}=nodeshutdown:NoExecute; or, if"
        " two processes for one rank do no harm, kubectl delete pod NAME --grace-period=0 --force"
    )
    return "the restart waits for " + list_some(pods, advice, ctx.limits)
