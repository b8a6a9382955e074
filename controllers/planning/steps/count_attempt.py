"""Step: number the run that begins: the first one, and each one after a suspension, once (KEP-1282).

The number is stored before a Job is resumed, together with the end of the suspension: after a crash in between, the
next process finds suspended Jobs of a running set, and only resumes them.
"""

from api import keys
from controllers.planning.attempts import begin_attempt
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial, draft_result
from kube.model.meta import find


def count_attempt(ctx: Context) -> Partial:
    """Set the condition Suspended to False, and count the attempt."""
    if ctx.js.spec.suspend:
        return NOTHING
    first = ctx.js.status.execution_attempts is None
    if not first and find(ctx.status.conditions, keys.SUSPENDED) is None:
        return NOTHING
    draft = ctx.draft()
    resumed = draft.condition(keys.SUSPENDED, true=False, reason="ResumeJobs", message="jobset is resumed")
    if resumed or first:
        begin_attempt(draft)
    return draft_result(draft, status_first=resumed)
