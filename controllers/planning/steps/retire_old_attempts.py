"""Step: delete Jobs of earlier attempts. An attempt is the time between two restarts of the set.

A large set deletes many Jobs in one call, by a label selector. Their pods may exist for some time after that, and are
called leftover pods. A Job is created again only after its leftover pods are gone.
"""

from controllers.planning import batch_deletion
from controllers.planning.actions import deletions
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial


def retire_old_attempts(ctx: Context) -> Partial:
    """Delete the Jobs of earlier attempts, and ask for their leftover pods.

    Jobs are deleted one by one if other owners have Jobs with this set's name label, which a selector would select,
    too.
    """
    old_jobs = ctx.children.previous
    if not ctx.may_have_old_pods:
        return NOTHING
    one_by_one = not ctx.may_leave_pods or ctx.observed.foreign_owners
    batches = () if one_by_one else batch_deletion.batch_deletions(ctx.js, old_jobs, ctx.layout, ctx.limits)
    batched = {name for batch in batches for name, _ in batch.jobs}
    waits_for_pods = batch_deletion.has_earlier_attempt(ctx.js, ctx.children) or ctx.leftovers != frozenset()
    return Partial(
        actions=(*deletions(child.job for child in old_jobs if child.name not in batched), *batches),
        follow_pods=ctx.may_leave_pods and waits_for_pods,
    )
