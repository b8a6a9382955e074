"""Step: fail a set that has run for `activeDeadlineSeconds` (KEP-1186, gate JobSetActiveDeadlineSeconds).

See docs/reference/failure-policy.md#deadline.

This step comes before the failure policy, which could otherwise restart a set after its deadline. If a set meets its
success policy at the deadline, it completes, even if it has failed Jobs.

The time begins with `status.startTime`, which a suspension clears. The start time is written before Jobs are created,
so that a set whose Jobs the API server refuses also has a deadline.
"""

from api.jobset_status import FailedAttempt
from controllers.planning.attempts import fail_set, record_failure
from controllers.planning.context import Context
from controllers.planning.finished import EXCEEDED, GATE, time_left
from controllers.planning.partial import NOTHING, LastPartial, Partial, draft_result
from controllers.planning.success import complete_set, success_note


def enforce_deadline(ctx: Context) -> Partial:
    """Store when the set began to run, and fail the set at its deadline."""
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
    seconds_left = time_left(seconds, ctx.status.start_time, ctx.now)
    if seconds_left is None:
        draft.update(start_time=ctx.now)
        return draft_result(draft, status_first=True, requeue_after=float(seconds))
    if seconds_left > 0:
        return Partial(requeue_after=seconds_left)
    note = success_note(ctx.js, ctx.counts, ctx.children)
    if note is not None:
        complete_set(draft, note)
    else:
        message = f"JobSet was active for longer than the specified deadline of {seconds} seconds"
        attempt = draft.status.execution_attempts or 0
        record_failure(draft, FailedAttempt(attempt=attempt, reason=EXCEEDED, message=message))
        fail_set(draft, EXCEEDED, message)
    return draft_result(draft, kind=LastPartial)
