"""Step: count an execution attempt when a set runs for the first time, and after each suspension (KEP-1282).

`status.executionAttempts` numbers the times between starts, resumes and restarts of the set. `restart_set` counts the
attempts that begin with a restart.

The number and the end of the suspension are stored before a Job is resumed. If the process crashes in between, the next
process finds suspended Jobs and a status that is not suspended, so it resumes the Jobs without counting.
"""

from api import keys
from controllers.planning.attempts import begin_attempt
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial, draft_result
from kube.model.meta import find


def count_attempt(ctx: Context) -> Partial:
    """Count the attempt, and set the condition Suspended to False, if the set starts or is resumed."""
    if ctx.js.spec.suspend:
        return NOTHING
    is_first = ctx.js.status.execution_attempts is None
    if not is_first and find(ctx.status.conditions, keys.SUSPENDED) is None:
        return NOTHING
    draft = ctx.draft()
    is_resumed = draft.set_condition(keys.SUSPENDED, true=False, reason="ResumeJobs", message="jobset is resumed")
    if is_resumed or is_first:
        begin_attempt(draft)
    return draft_result(draft, status_first=is_resumed)
