"""Step: ask for pods that may have been pending for too long.

Gates JobSetStartTimeout, JobSetAvoidNodes and JobSetElasticReplicas. See
docs/concepts/deadlines.md#a-time-limit-for-the-start. Later steps use the pods: `drop_failed_nodes` and
`adapt_replicas` if a pod finds no node, `apply_failure_policy` if a pod does not start in time.
"""

from api import elastic
from api.avoided_nodes import avoided_node_names
from controllers.planning import failed_nodes
from controllers.planning.actions import PendingPodQuery
from controllers.planning.context import Context
from controllers.planning.elastic import reducible, replacements
from controllers.planning.partial import NOTHING, Partial, Stop, draft_result
from controllers.planning.start_timeout import GATE, StartLimits, is_starting, limits, next_check, seconds_left


def watch_start(ctx: Context) -> Partial:
    """A query for pending pods if a check is due, else the seconds until then."""
    time_limits = limits(ctx.js)
    if not time_limits.seconds:
        return NOTHING
    draft = ctx.draft()
    if time_limits.start is not None and not ctx.gates[GATE]:
        draft.warn_of_gate("spec.failurePolicy.startTimeoutSeconds", GATE)
    waiting = [child for child in ctx.children.active if is_starting(child.job) and not child.deleting]
    avoiding = [child for child in waiting if avoided_node_names(child.job.metadata.annotations)]
    names = reducible(ctx.js) if ctx.gates[elastic.GATE] else frozenset()
    reducing = replacements(ctx.js, (child for child in waiting if child.replicated_job in names))
    times = StartLimits(
        start=time_limits.start if ctx.gates[GATE] else None,
        node=time_limits.node if avoiding and failed_nodes.avoid_policy(ctx) is not None else None,
        capacity=time_limits.capacity if reducing else None,
    )
    if times.start is None:
        waiting = [*avoiding, *reducing]
    if not times.seconds or ctx.js.spec.suspend or not waiting:
        return draft_result(draft)
    jobs, pods = [child.job for child in waiting], ctx.observed.pending_pods
    next_start_check = ctx.observed.next_start_check if pods is None else next_check(pods.values(), times, ctx.now)
    seconds = seconds_left(jobs, min(times.seconds), ctx.now, next_start_check)
    if seconds > 0 or pods is not None:
        return draft_result(draft, requeue_after=max(seconds, 1.0))
    return draft_result(draft, kind=Stop, pod_query=PendingPodQuery())
