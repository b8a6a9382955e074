"""Step: avoid one node less if pods find no node (gate JobSetAvoidNodes).

See docs/concepts/avoid-nodes.md. The status lists failed nodes, which later Jobs avoid by a node affinity. If pods of
such Jobs find no node, the node that failed first is dropped from the list. The node affinity of a running Job cannot
change, so the Jobs are deleted and created again.

The pending pods come from a query of the step `watch_start`.
"""

from api.avoided_nodes import GATE, avoided_node_names, nodes_to_avoid
from controllers.planning.actions import deletions_of_unfinished
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, LastPartial, Partial, draft_result
from controllers.planning.start_timeout import nodeless_pods


def drop_failed_nodes(ctx: Context) -> Partial:
    """Delete Jobs that avoid nodes and have pods without a node, and drop the node that failed first.

    No node is dropped if the Job of the oldest of these pods avoids a node that the set does not avoid any more. The
    new Job avoids fewer nodes anyway.
    """
    policy = ctx.failure_policy.avoid_nodes
    if policy is None:
        return NOTHING
    draft = ctx.draft()
    if not ctx.gates[GATE]:
        draft.warn_of_gate("spec.failurePolicy.avoidNodes", GATE)
        return draft_result(draft)
    if ctx.js.spec.suspend:
        return NOTHING
    pods = nodeless_pods(ctx.observed.pending_pods, policy.drop_after_seconds, ctx.now)
    avoiding_jobs = {
        child.job.metadata.uid: (child.job, names)
        for child in ctx.children.active
        if child.job.metadata.uid in pods and not (child.deleting or child.job.status.succeeded)
        # A Job with succeeded pods is not deleted: it had room, and its successor would run these pods again.
        if (names := avoided_node_names(child.job.metadata.annotations))
    }
    if not avoiding_jobs:
        return NOTHING
    uid = min(avoiding_jobs, key=lambda uid: (pods[uid].created, uid))
    job, names = avoiding_jobs[uid]
    still_avoided_nodes = [node for node in nodes_to_avoid(ctx.js, ctx.now) if node.name in names]
    if len(still_avoided_nodes) == len(names):
        dropped_name = still_avoided_nodes[0].name  # the node that failed first
        draft.update(failed_nodes=tuple(node for node in ctx.status.failed_nodes if node.name != dropped_name))
        note = f"node {dropped_name} is not avoided any more: pod {pods[uid].name} of Job {job.metadata.name} finds no"
        draft.add_event("Warning", "AvoidedNodeDropped", f"{note} node: {pods[uid].reason}")
    # If the process crashes after the write of the status, the next process deletes the Jobs without dropping a node.
    return draft_result(
        draft, *deletions_of_unfinished(job for job, _ in avoiding_jobs.values()), kind=LastPartial, status_first=True
    )
