"""Step: ask for pods that may have been pending for too long (gate JobSetStartTimeout).

See docs/concepts/recovery.md#a-time-limit-for-the-start. The next step, `apply_failure_policy`, judges the Jobs of pods
that are late.
"""

from controllers.planning.actions import PodQuery
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial, Stop, of_draft
from controllers.planning.start_timeout import GATE, next_look, seconds_left, starting


def watch_start(ctx: Context) -> Partial:
    """The query when it is time for a look, else the time until then."""
    policy = ctx.js.spec.failure_policy
    seconds = policy.start_timeout_seconds if policy is not None else None
    if seconds is None:
        return NOTHING
    if not ctx.gates[GATE]:
        draft = ctx.draft()
        draft.warn(
            "FeatureGateDisabled",
            f"spec.failurePolicy.startTimeoutSeconds has no effect without the feature gate {GATE}: start the manager"
            f" with --feature-gates={GATE}=true",
        )
        return of_draft(draft)
    waiting = [child for child in ctx.children.active if starting(child.job) and not child.deleting]
    if ctx.js.suspended or not waiting:
        return NOTHING
    jobs, found = [child.job for child in waiting], ctx.observed.pending_pods
    look = ctx.observed.start_look if found is None else next_look(found.values(), seconds, ctx.now)
    left = seconds_left(jobs, seconds, ctx.now, look)
    if left > 0 or found is not None:
        return Partial(requeue_after=max(left, 1.0))
    return Stop(pod_query=PodQuery(tuple((c.name, c.job.metadata.uid) for c in waiting), needed=True, pending=True))
