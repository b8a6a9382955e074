"""Step: ask for the pending pods of the set when a pod may have been pending for too long.

See docs/concepts/deadlines.md#a-time-limit-for-the-start. Three fields of the failure policy limit the time of a pod,
each with its own gate. A later step decides about pods that exceed the limit:

- `startTimeoutSeconds`, until the pod runs (gate JobSetStartTimeout): `apply_failure_policy`.
- `avoidNodes`, until the pod has a node if its Job avoids nodes (gate JobSetAvoidNodes): `drop_failed_nodes`.
- `nodeFailure.whenNoCapacity`, until the pod has a node if the set may run with fewer Jobs (gate
  JobSetElasticReplicas): `adapt_replicas`.
"""

from api import elastic
from api.avoided_nodes import avoided_node_names
from controllers.planning import failed_nodes
from controllers.planning.actions import PendingPodQuery
from controllers.planning.context import Context
from controllers.planning.elastic import reducible_names, restarted_jobs
from controllers.planning.partial import NOTHING, LastPartial, Partial, draft_result
from controllers.planning.start_timeout import GATE, StartLimits, is_starting, next_check, seconds_left, start_limits


def watch_start(ctx: Context) -> Partial:
    """Ask for the pending pods if a check is due, else plan again when the next check is due."""
    spec_limits = start_limits(ctx.failure_policy)
    if not spec_limits.seconds:
        return NOTHING
    draft = ctx.draft()
    if spec_limits.start is not None and not ctx.gates[GATE]:
        draft.warn_of_gate("spec.failurePolicy.startTimeoutSeconds", GATE)
    starting_jobs = [child for child in ctx.children.active if is_starting(child.job) and not child.deleting]
    avoiding_jobs = [child for child in starting_jobs if avoided_node_names(child.job.metadata.annotations)]
    names = reducible_names(ctx.js) if ctx.gates[elastic.GATE] else frozenset()
    reducible_jobs = restarted_jobs(ctx.js, (child for child in starting_jobs if child.replicated_job in names))
    current_limits = StartLimits(
        start=spec_limits.start if ctx.gates[GATE] else None,
        node=spec_limits.node if avoiding_jobs and failed_nodes.avoid_policy(ctx) is not None else None,
        capacity=spec_limits.capacity if reducible_jobs else None,
    )
    if current_limits.start is None:
        starting_jobs = [*avoiding_jobs, *reducible_jobs]
    if not current_limits.seconds or ctx.js.spec.suspend or not starting_jobs:
        return draft_result(draft)
    jobs, pods = [child.job for child in starting_jobs], ctx.observed.pending_pods
    check = ctx.observed.next_start_check if pods is None else next_check(pods.values(), current_limits, ctx.now)
    seconds = seconds_left(jobs, min(current_limits.seconds), ctx.now, check)
    if seconds > 0 or pods is not None:
        return draft_result(draft, requeue_after=max(seconds, 1.0))
    return draft_result(draft, kind=LastPartial, pod_query=PendingPodQuery())
