"""Step: record the stages that may start (executionPolicy).

A stage is a list of ReplicatedJobs that start together. It may start, which is called released, when the Jobs of the
stage before have reached the required state. The status records the release before Jobs of the stage are created, so
that it is reported once and never taken back.
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
    draft, released_stages = ctx.draft(), ctx.stages.newly_released_stages()
    names = {rjob.name for stage in released_stages.values() for rjob in stage}
    draft.update_replicated_jobs(names, lambda entry: msgspec.structs.replace(entry, released=True))
    for number, stage in released_stages.items():
        _report(draft, stage, number, ctx.stages.stage_count)
    draft.update(current_stage=ctx.stages.last_released_title)
    return draft_result(draft, status_first=bool(released_stages))


def _report(draft: StatusDraft, stage: Stage, number: int, total: int) -> None:
    """Add an event about a released stage: stage `number`, from 1, of `total` stages."""
    jobs = sum(rjob.replicas for rjob in stage)
    title = f"{stage_name(stage)} ({jobs} {'Job' if jobs == 1 else 'Jobs'})"
    draft.add_event("Normal", "StageReleased", f"stage {number} of {total} is released: {title}")
