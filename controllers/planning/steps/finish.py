"""Step: delete the running Jobs of a finished set, and the set itself when its time to live is over.

See docs/reference/lifecycle.md#time-to-live.
"""

from dataclasses import replace

from api.jobset import JobSet
from controllers.planning.actions import Action, DeleteJobSet, deletions_of_unfinished
from controllers.planning.context import Context
from controllers.planning.finished import has_finished, time_to_live
from controllers.planning.groups import release_groups
from controllers.planning.partial import NOTHING, LastPartial, Partial


def finish(ctx: Context) -> Partial:
    """Delete all unfinished Jobs of a finished set, and its scheduling groups.

    Unrecognized Jobs, whose labels are wrong, are also deleted.
    """
    if not has_finished(ctx.js):
        return NOTHING
    children = ctx.children
    recognized_jobs = (*children.active, *children.previous, *children.surplus, *children.redundant)
    jobs = (*(child.job for child in recognized_jobs if not child.was_deleted), *children.unrecognized)
    actions: list[Action] = [*deletions_of_unfinished(jobs), *release_groups(ctx.observed.groups)]
    expiry = expire(ctx.js, ctx.now)
    return replace(expiry, actions=(*actions, *expiry.actions))


def expire(js: JobSet, now: str) -> LastPartial:
    """Delete a finished JobSet when its time to live is over, else plan again then; nothing without a time to live.

    This also applies to a JobSet that another controller manages (`managedBy`).
    """
    seconds_left = time_to_live(js, now)
    if seconds_left is None:
        return LastPartial()
    return LastPartial(actions=(DeleteJobSet(),)) if seconds_left <= 0 else LastPartial(requeue_after=seconds_left)
