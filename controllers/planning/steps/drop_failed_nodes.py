"""Step: stop avoiding the node that failed first if pods find no node (gate JobSetAvoidNodes).

See docs/concepts/avoid-nodes.md. `watch_start` has asked for the pending pods. The node affinity of a Job cannot change
while the Job runs, so Jobs whose pods find no node are deleted, and created again with one node less to avoid.
"""

from api.avoided_nodes import GATE, avoided_node_names, nodes_to_avoid
from controllers.planning.actions import deletions_of_unfinished
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial, Stop, draft_result
from controllers.planning.start_timeout import nodeless_pods


def drop_failed_nodes(ctx: Context) -> Partial:
    """Delete Jobs whose pods find no node because they avoid nodes, and drop the node that failed first.

    A node is dropped only if the set still avoids every node that the Job of the oldest such pod avoids.
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
        # A Job with succeeded pods had room, and would run these pods again.
        if (names := avoided_node_names(child.job.metadata.annotations))
    }
    if not avoiding_jobs:
        return NOTHING
    uid = min(avoiding_jobs, key=lambda uid: (pods[uid].created, uid))
    job, names = avoiding_jobs[uid]
    now_avoided = [node for node in nodes_to_avoid(ctx.js, ctx.now) if node.name in names]
    if len(now_avoided) == len(names):
        dropped = now_avoided[0]
        draft.update(failed_nodes=tuple(node for node in ctx.status.failed_nodes if node.name != dropped.name))
        note = f"node {dropped.name} is not avoided any more: pod {pods[uid].name} of Job {job.metadata.name} finds no"
        draft.add_event("Warning", "AvoidedNodeDropped", f"{note} node: {pods[uid].reason}")
    # After a crash behind the write of the status, the Jobs still avoid the dropped node, and are only deleted.
    return draft_result(
        draft, *deletions_of_unfinished(job for job, _ in avoiding_jobs.values()), kind=Stop, status_first=True
    )
