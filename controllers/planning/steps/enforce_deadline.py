"""Step: a set that has run for `activeDeadlineSeconds` fails (KEP-1186, gate JobSetActiveDeadlineSeconds).

See docs/reference/failure-policy.md#deadline.

It comes before the failure policy, which otherwise could restart a set beyond its deadline; success by then has
precedence, with failed Jobs or without. Start and suspension are stored before all other writes, so that a set whose
Jobs are refused has a deadline, too.
"""

from api.jobset_status import FailedAttempt
from controllers.planning.attempts import fail_set, record_failure
from controllers.planning.context import Context
from controllers.planning.finished import EXCEEDED, GATE, time_left
from controllers.planning.partial import NOTHING, Partial, Stop, draft_result
from controllers.planning.success import complete_set, share_reached


def enforce_deadline(ctx: Context) -> Partial:
    """Store when the set began to run; fail it at its deadline, else plan again then."""
    seconds = ctx.js.spec.active_deadline_seconds
    if seconds is None:
        return NOTHING
    draft = ctx.draft()
    if not ctx.gates[GATE]:
        draft.warn_of_gate("spec.activeDeadlineSeconds", GATE)
        return draft_result(draft)
    if ctx.js.spec.suspend:
        draft.update(start_time="")
        return draft_result(draft, status_first=bool(ctx.status.start_time))
    left = time_left(seconds, ctx.status.start_time, ctx.now)
    if left is None:
        draft.update(start_time=ctx.now)
        return draft_result(draft, status_first=True, requeue_after=float(seconds))
    if left > 0:
        return Partial(requeue_after=left)
    share_met = share_reached(ctx.js, ctx.counts, ctx.children)
    if share_met is not None:
        complete_set(draft, share_met)
    else:
        message = f"JobSet was active for longer than the specified deadline of {seconds} seconds"
        attempt = draft.status.execution_attempts or 0
        record_failure(draft, FailedAttempt(attempt=attempt, reason=EXCEEDED, message=message))
        fail_set(draft, EXCEEDED, message)
    return draft_result(draft, kind=Stop)
