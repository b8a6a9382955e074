"""Step: bring the attempts that in-place restart agents report into line (gate InPlaceRestart).

See docs/reference/in-place-restart.md.

Each agent writes the attempt it is about to run on its own pod and waits. When all pods report the same attempt, that
one becomes current and the agents let their workers go; when one pod is ahead, all lower attempts become previous and
the agents that run them end, to be started again by the kubelet.

Differences from the Go JobSet, in cases in which it gets stuck or counts too much:
- A pod counts if a Job of ours controls it, whatever its labels say (defect 20 in docs/reference/defects.md).
- An annotation that is no attempt spoils only its own pod: that pod has not reported, and an event says so.
- A pod in deletion has nothing to report any more: the barrier waits for the pod that replaces it.
- Every resume makes new pods with the next attempt; it is not a failure and takes nothing from maxRestarts. A resume
  before the first attempt has begun raises no attempt, so more restarts than maxRestarts may happen, never fewer.
- A pod that has succeeded cannot start again in place. When the others are asked to, the barrier could never be lifted
  again; the whole set is recreated instead, counted as the one restart that it is.
- A ReplicatedJob whose completion another one waits for (dependsOn) is over before the others start, so no pod waits at
  the barrier for its pods.
- A spec that cannot be restarted in place gets an event; the rest of the status is still written.
"""

from controllers.planning import escalation
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial, draft_result
from controllers.planning.reported_attempts import apply_reports


def restart_in_place(ctx: Context) -> Partial:
    """With that strategy: release the attempt that all pods report, or make pods of earlier attempts start again."""
    policy = ctx.js.spec.failure_policy
    if policy is None or not ctx.restarts_in_place:
        return NOTHING
    draft = ctx.draft()
    if policy.in_place_restarts is not None and not ctx.gates[escalation.GATE]:
        draft.warn_of_gate("spec.failurePolicy.inPlaceRestarts", escalation.GATE)
    apply_reports(ctx, draft)
    return draft_result(draft)
