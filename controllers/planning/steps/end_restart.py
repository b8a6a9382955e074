"""Step: end a restart when every Job is ready or has completed."""

import msgspec

from api import keys
from controllers.planning import counters
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial, draft_result
from kube.model.meta import seconds_between


def end_restart(ctx: Context) -> Partial:
    """Set the condition RestartingJobSet to False, and store how many seconds the restart took."""
    if ctx.js.spec.suspend or not counters.all_ready(ctx.js, ctx.counts):
        return NOTHING
    draft, restart = ctx.draft(), ctx.status.last_restart
    has_ended = draft.set_condition(keys.RESTARTING, true=False, reason="JobsReady", message="all jobs are ready")
    if has_ended and restart is not None:
        seconds = max(0, int(seconds_between(restart.start_time, ctx.now)))
        draft.update(last_restart=msgspec.structs.replace(restart, duration_seconds=seconds))
    return draft_result(draft)
