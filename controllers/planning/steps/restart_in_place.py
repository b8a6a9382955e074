"""Step: restart the workers of a set in their pods, without new pods (gate InPlaceRestart).

See docs/reference/in-place-restart.md. An agent in each pod starts and ends the worker of the pod. The time between two
restarts of the workers is an attempt, which has a number:

- Each agent annotates its own pod with the number of the attempt that it is about to run, and waits. This wait is
  called the barrier. When all pods have reported the same attempt, the status names it as the current attempt, and the
  agents start their workers.
- When a worker fails, its agent reports the next attempt. The status then names the attempt before it as previous.
  Agents that run a previous attempt, or an earlier one, exit. The kubelet starts these agents again, and they report
  the next attempt.

Where the Go JobSet gets stuck or counts too much, this step does something else:
- A pod counts if a child Job of the set controls it, whatever its labels say (defect 20 in docs/reference/defects.md).
- A pod with an annotation that is not a valid number has not reported, and an event says so. Other pods still count.
- A pod that is being deleted does not count. The barrier waits for the pod that replaces it.
- Every resume of a suspended set creates pods that report the next attempt. A resume is not a failure, and does not
  count towards maxRestarts. If the resume comes before the first attempt, the pods report the first attempt, but the
  resume is subtracted from the restarts. So there may be more restarts than maxRestarts, but never fewer.
- A pod that has succeeded cannot start again in place. If the other pods started again, they would wait at the barrier
  forever. So the whole set is created again, which counts as one restart.
- A ReplicatedJob that must complete before others start (dependsOn) takes no part: no pod waits at the barrier for its
  pods.
- If the workers of a spec cannot be restarted in place, an event says so, and the rest of the status is still written.
"""

from controllers.planning import escalation
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial, draft_result
from controllers.planning.reported_attempts import apply_reports


def restart_in_place(ctx: Context) -> Partial:
    """Make the attempt that all pods have reported the current attempt, or make pods of earlier attempts start again.

    `apply_reports` decides this, or that the set fails or is created again.
    """
    if not ctx.restarts_in_place:
        return NOTHING
    draft = ctx.draft()
    if ctx.failure_policy.in_place_restarts is not None and not ctx.gates[escalation.GATE]:
        draft.warn_of_gate("spec.failurePolicy.inPlaceRestarts", escalation.GATE)
    apply_reports(ctx, draft)
    return draft_result(draft)
