"""Step: delete Jobs that the set does not want any more, and warn of Jobs that it does not recognize.

- A surplus Job has a job index that the spec no longer has, because `replicas` was reduced.
- A redundant Job is unfinished although another Job with its index has completed in this attempt.
- An unrecognized Job is owned by the set, but its labels are wrong. It is kept.
"""

from controllers.planning.actions import deletions, deletions_of_unfinished
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial, draft_result
from controllers.planning.status import list_some


def remove_surplus(ctx: Context) -> Partial:
    """Delete surplus Jobs, the highest index first, and redundant Jobs. Warn of unrecognized Jobs."""
    children = ctx.children
    if not (children.surplus or children.redundant or children.unrecognized):
        return NOTHING
    draft = ctx.draft()
    redundant_jobs = [child.job for child in children.redundant if not child.was_deleted]
    if children.unrecognized:
        descriptions = [f"job {job.metadata.name!r}" for job in children.unrecognized]
        advice = "owned by this JobSet, but its labels or its name are none of its Jobs': delete it"
        draft.warn("StrayJob", list_some(descriptions, advice, ctx.limits))
    surplus_jobs = [child.job for child in reversed(children.surplus)]
    return draft_result(draft, *deletions(surplus_jobs), *deletions_of_unfinished(redundant_jobs))
