"""Jobs that count as failed because of a pod that is not in phase Failed: it does not start, or its node has failed.

See docs/concepts/recovery.md.
"""

from typing import NamedTuple

from controllers.planning import node_failure, start_timeout
from controllers.planning.child_jobs import Child
from controllers.planning.context import Context
from controllers.planning.decisive_pod import FailedContainer


class FailedByPod(NamedTuple):
    """Such a Job, as a failed one, and its pod. `since`: RFC 3339, when the pod was created, or its node failed."""

    child: Child
    pod: FailedContainer
    since: str


def failed_by_pods(ctx: Context) -> dict[str, FailedByPod]:
    """Those Jobs by UID."""
    policy, observed = ctx.js.spec.failure_policy, ctx.observed
    found: dict[str, FailedByPod] = {}
    if policy is not None and policy.start_timeout_seconds is not None and observed.pending_pods:
        pending = observed.pending_pods
        for child in start_timeout.late(ctx.children.active, pending, policy.start_timeout_seconds, ctx.now):
            pod = pending[child.job.metadata.uid]
            found[child.job.metadata.uid] = FailedByPod(child, FailedContainer(pod.name, pod.node), pod.created)
    of_nodes = node_failure.policy_of(ctx.js)
    if of_nodes is not None and ctx.gates[node_failure.GATE] and not ctx.js.suspended:
        due = node_failure.due(observed.pods_on_failed_nodes, of_nodes.after_seconds, ctx.now)
        for child, lost in node_failure.lost_jobs(ctx.js, ctx.gates, ctx.children.active, due).failed:
            failed = node_failure.as_node_failure(child, lost, ctx.now)
            since = max(lost.since, lost.created)
            found[child.job.metadata.uid] = FailedByPod(failed, FailedContainer(lost.name, lost.node), since)
    return found
