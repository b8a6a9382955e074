"""Step: bring the attempts that in-place restart agents report into line (gate InPlaceRestart).

See docs/reference/in-place-restart.md.

Each agent annotates its own pod with the attempt that it is about to run, and waits (at the barrier). When all pods
report the same attempt, that attempt becomes current, and the agents start their workers. When one pod reports a higher
attempt, all lower attempts become previous. Agents that run a previous attempt exit, and the kubelet starts them again.

Where the Go JobSet gets stuck or counts too much, this step does something else:
- A pod counts if a child Job of the set controls it, whatever its labels say (defect 20 in docs/reference/defects.md).
- A pod with an annotation that is not a valid attempt has not reported, and an event says so. Other pods still count.
- A pod that is being deleted does not count. The barrier waits for the pod that replaces it.
- Every resume creates pods with the next attempt. A resume is not a failure, and does not count towards maxRestarts. A
  resume before the first attempt raises no attempt, so there may be more restarts than maxRestarts, but never fewer.
- A pod that has succeeded cannot start again in place. If the other pods started again, they would wait at the barrier
  forever. So the whole set is created again, which counts as one restart.
- A ReplicatedJob whose completion is awaited (dependsOn) has ended before its dependents start, so no pod waits at the
  barrier for its pods.
- A spec that cannot be restarted in place gets an event, and the rest of the status is still written.
"""

from controllers.planning import escalation
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial, draft_result
from controllers.planning.reported_attempts import apply_reports


def restart_in_place(ctx: Context) -> Partial:
    """Start the attempt that all pods report, or make pods of earlier attempts start again."""
    if not ctx.restarts_in_place:
        return NOTHING
    draft = ctx.draft()
    if ctx.failure_policy.in_place_restarts is not None and not ctx.gates[escalation.GATE]:
        draft.warn_of_gate("spec.failurePolicy.inPlaceRestarts", escalation.GATE)
    apply_reports(ctx, draft)
    return draft_result(draft)
