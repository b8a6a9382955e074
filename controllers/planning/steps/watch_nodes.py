"""Step: pods on nodes that have failed (gate JobSetNodeFailure). See docs/concepts/node-failure.md.

It asks for the nodes that a decision depends on. It deletes pods on failed nodes that nothing else deletes, and pods
that their Jobs replace while all others restart in place. `apply_failure_policy` judges the Jobs of the other pods.
"""

from collections.abc import Container, Iterable
from itertools import islice

from api.jobset import JobSet
from api.policies import NodeFailure
from controllers.planning import failed_nodes, node_failure, spare_places
from controllers.planning.actions import DeletePod, NodeQuery, PatchJob
from controllers.planning.attempts import end_attempt, requested_attempt
from controllers.planning.child_jobs import Child
from controllers.planning.context import Context
from controllers.planning.finished import has_finished
from controllers.planning.node_failure import GATE, OUT_OF_SERVICE
from controllers.planning.observed import PodOnTaintedNode
from controllers.planning.partial import NOTHING, Partial, Stop, draft_result
from controllers.planning.status import list_some
from kube.model.meta import MAX_INT32

MAX_NODES = 50
"""Nodes that are asked for at a time."""

MAX_PROMPTED = 50
"""Jobs whose pods are made again at once. For more, the requests take the second that they save."""


def watch_nodes(ctx: Context) -> Partial:
    """A query for nodes, or the deletions that its answer leads to, and the time until the next pod counts."""
    wanted = node_failure.policy_of(ctx.js)
    if wanted is None:
        return NOTHING
    draft = ctx.draft()
    if not ctx.gates[GATE]:
        draft.warn_of_gate("spec.failurePolicy.nodeFailure", GATE)
        return draft_result(draft)
    pods = ctx.observed.pods_on_failed_nodes
    if not pods:
        return NOTHING
    due = node_failure.due(pods, wanted.after_seconds, ctx.now)
    # PodGC of Kubernetes also deletes pods of nodes that do not exist, but later.
    deleted = [pod for pod in due if _has_to_go(pod, wanted)]
    nodes = {pod.node for pod in deleted}
    replaced: dict[str, str] = {}
    prompts: list[PatchJob] = []
    if not (ctx.js.spec.suspend or has_finished(ctx.js)):
        lost = node_failure.lost_jobs(ctx.js, ctx.gates, ctx.children.active, due)
        nodes |= {pod.node for _, pod in (*lost.failed, *lost.replaced)}
        replaced = {pod.uid: f"node {pod.node}, {node_failure.state(pod)}" for _, pod in lost.replaced}
        deleted += [pod for _, pod in lost.replaced if pod not in deleted]
        message = _blocking_pods(ctx, due, deleted)
        if message:
            draft.warn("RestartWaitsForNode", message)
    unread = sorted(nodes - ctx.observed.read_nodes)
    if unread:
        return Stop(pod_query=NodeQuery(tuple(unread[:MAX_NODES])))
    if replaced:
        names = [f"pod {pod.name} is on {replaced[pod.uid]}" for pod in deleted if pod.uid in replaced]
        advice = "their Jobs make others, and when these have joined all pods restart in place"
        draft.warn("LostPodsReplaced", list_some(names, advice, ctx.limits))
        end_attempt(ctx.js, draft, (child.replicated_job for child, _ in lost.replaced))
        prompts = _prompts(ctx.js, (child for child, _ in lost.replaced), requested_attempt(draft.status))
        failed_nodes.note_replaced(ctx, draft, [pod for pod in deleted if pod.uid in replaced])
    if ctx.observed.spares and not ctx.js.spec.suspend:  # a node may be lost while the set restarts
        spare_places.promise_places(ctx, draft, deleted)
    return draft_result(
        draft,
        *(DeletePod(pod.name, pod.uid, pod.uid in replaced) for pod in deleted),
        *prompts,
        # What this plan decides, here or in a later step, is decided because of these pods.
        status_first=bool(deleted) or draft.status.spares != ctx.status.spares,
        requeue_after=node_failure.seconds_left(pods, wanted.after_seconds, ctx.now, ctx.observed.second_passed),
    )


def _prompts(js: JobSet, jobs: Iterable[Child], attempt: int) -> list[PatchJob]:
    """Patches by which the Job controller looks at these Jobs now: at one whose pods have gone it looks a second later.

    It does so where the spec has changed. The limit of failed pods may change if it is the highest, which no Job
    reaches. Admission requires that, but webhooks may have been off when the set was created.
    """
    unlimited = {rjob.name for rjob in js.spec.replicated_jobs if rjob.job_spec.get("backoffLimit") == MAX_INT32}
    uids = {child.name: child.job.metadata.uid for child in jobs if child.replicated_job in unlimited}
    change = {"spec": {"backoffLimit": MAX_INT32 - 1 - attempt % 1000}}
    prompted = islice(uids.items(), MAX_PROMPTED)
    return [PatchJob(name, {"metadata": {"uid": uid}, **change}) for name, uid in prompted]


def _has_to_go(pod: PodOnTaintedNode, wanted: NodeFailure) -> bool:
    """Whether to delete the pod without its kubelet: the set asks for it, or the node does not exist any more."""
    return pod.deleting and (wanted.force_delete_pods or not pod.taint)


def _blocking_pods(ctx: Context, due: Iterable[PodOnTaintedNode], deleted: Container[PodOnTaintedNode]) -> str:
    """A message about pods on a lost node that delay the next attempt, and what to do; empty if there are none."""
    active = {child.job.metadata.uid for child in ctx.children.active if not child.deleting}
    pods = [
        f"pod {pod.name} on node {pod.node}, {node_failure.state(pod)}"
        for pod in due
        if pod.deleting and pod not in deleted and pod.job_uid not in active and pod.taint != OUT_OF_SERVICE
    ]
    if not pods:
        return ""
    advice = (
        f"once the machine is off or fenced, kubectl taint nodes NODE {OUT_OF_SERVICE}=nodeshutdown:NoExecute; or, if"
        " two processes for one rank do no harm, kubectl delete pod NAME --grace-period=0 --force"
    )
    return "the restart waits for " + list_some(pods, advice, ctx.limits)
