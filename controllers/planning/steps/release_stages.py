"""Step: record the stages that may start (executionPolicy).

The release of a stage is stored before its Jobs are created, so that it is reported once and never taken back.
"""

import msgspec

from api.stages import Stage, stage_name
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial, draft_result
from controllers.planning.status import StatusDraft


def release_stages(ctx: Context) -> Partial:
    """Record in the status which stages are released now, with an event for each stage."""
    if not ctx.stages.stage_count and not ctx.status.current_stage:
        return NOTHING
    draft, released = ctx.draft(), ctx.stages.newly_released_stages()
    names = {rjob.name for stage in released.values() for rjob in stage}
    draft.update_replicated_jobs(names, lambda entry: msgspec.structs.replace(entry, released=True))
    for number, stage in released.items():
        _report(draft, stage, number, ctx.stages.stage_count)
    draft.update(current_stage=ctx.stages.last_released_title)
    return draft_result(draft, status_first=bool(released))


def _report(draft: StatusDraft, stage: Stage, number: int, total: int) -> None:
    """Add an event about a released stage. `number` counts from 1."""
    jobs = sum(rjob.replicas for rjob in stage)
    title = f"{stage_name(stage)} ({jobs} {'Job' if jobs == 1 else 'Jobs'})"
    draft.add_event("Normal", "StageReleased", f"stage {number} of {total} is released: {title}")
