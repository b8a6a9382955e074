"""Step: complete the set when enough of the Jobs that the success policy names have succeeded.

See docs/reference/lifecycle.md#success.
"""

from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial, Stop, draft_result
from controllers.planning.success import complete_set, share_reached


def complete(ctx: Context) -> Partial:
    """Set the condition Completed. The failure policy decides about a set with failed Jobs."""
    share_met = None if ctx.children.failed else share_reached(ctx.js, ctx.counts, ctx.children)
    if share_met is None:
        return NOTHING
    draft = ctx.draft()
    complete_set(draft, share_met)
    return draft_result(draft, kind=Stop)
