"""Step: complete the set when enough of the Jobs that the success policy names have succeeded.

See docs/reference/lifecycle.md#success.
"""

from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, LastPartial, Partial, draft_result
from controllers.planning.success import complete_set, success_note


def complete(ctx: Context) -> Partial:
    """Set the condition Completed, unless Jobs have failed: the failure policy decides about them."""
    note = None if ctx.children.failed else success_note(ctx.js, ctx.counts, ctx.children)
    if note is None:
        return NOTHING
    draft = ctx.draft()
    complete_set(draft, note)
    return draft_result(draft, kind=LastPartial)
