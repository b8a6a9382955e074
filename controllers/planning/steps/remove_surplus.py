"""Step: delete Jobs whose index the spec no longer has, and Jobs that run although their index has completed."""

from controllers.planning.actions import deletions, deletions_of_unfinished
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial, draft_result
from controllers.planning.status import list_some


def remove_surplus(ctx: Context) -> Partial:
    """Delete surplus Jobs, the highest index first, and redundant ones. Warn of unrecognized Jobs, which are kept."""
    children = ctx.children
    if not (children.surplus or children.redundant or children.unrecognized):
        return NOTHING
    draft = ctx.draft()
    redundant = [child.job for child in children.redundant if not child.was_deleted]
    if children.unrecognized:
        strays = [f"job {job.metadata.name!r}" for job in children.unrecognized]
        advice = "owned by this JobSet, but its labels or its name are none of its Jobs': delete it"
        draft.warn("StrayJob", list_some(strays, advice, ctx.limits))
    surplus = [child.job for child in reversed(children.surplus)]
    return draft_result(draft, *deletions(surplus), *deletions_of_unfinished(redundant))
