"""Step: delete Jobs of earlier attempts, those of a large set in batches if no other Jobs have its name label."""

from controllers.planning import batch_deletion
from controllers.planning.actions import delete
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial


def retire_old_attempts(ctx: Context) -> Partial:
    """Delete them, and follow the pods that they leave."""
    old = ctx.children.previous
    if not old and ctx.leftovers == frozenset():
        return NOTHING
    one_by_one = not ctx.may_leave_pods or ctx.observed.foreign
    batches = () if one_by_one else batch_deletion.batches(ctx.js, old, ctx.layout, ctx.limits)
    batched = {name for batch in batches for name, _ in batch.jobs}
    waits = batch_deletion.has_earlier_attempt(ctx.js, ctx.children) or ctx.leftovers != frozenset()
    return Partial(
        actions=(*delete([child for child in old if child.name not in batched]), *batches),
        follow_pods=ctx.may_leave_pods and waits,
    )
