"""Step: suspend or resume the Jobs as `spec.suspend` of the JobSet says.

See docs/reference/lifecycle.md#suspend-and-resume. Only as many Jobs are resumed at once as the job budget allows, so
that the Jobs of one set do not fill the queue of the Job controller.
"""

from api import keys
from api.layout import JobRange
from api.suspension import deletes_jobs_on_suspend, leaves_suspension_to_others
from controllers.planning.actions import DeleteJob, PatchJob, deletions_of_unfinished
from controllers.planning.child_jobs import Child
from controllers.planning.context import Context
from controllers.planning.group_context import is_misplaced
from controllers.planning.job_bodies import job_body
from controllers.planning.job_patches import restart_counter, resume_patch, suspension_patch
from controllers.planning.partial import NOTHING, Partial, draft_result


def suspend_or_resume(ctx: Context) -> Partial:
    """Suspend running Jobs, or resume suspended Jobs unless another controller does that."""
    if ctx.js.spec.suspend:
        return _suspend(ctx)
    return NOTHING if leaves_suspension_to_others(ctx.js, ctx.gates) else _resume(ctx)


def _suspend(ctx: Context) -> Partial:
    """Suspend the Jobs, after the condition Suspended is stored. Without it, the resume would not count as an attempt.

    An annotation of the set can say that its Jobs are deleted on suspension. Jobs that have started are then deleted.
    Jobs that have not started, such as those that are created afterwards, are suspended.
    """
    draft, deletes_started_jobs = ctx.draft(), deletes_jobs_on_suspend(ctx.js, ctx.gates)
    actions: list[PatchJob | DeleteJob] = []
    for child in ctx.children.active:
        if deletes_started_jobs and child.job.status.start_time is not None:
            actions += deletions_of_unfinished([child.job])
        elif child.may_run:
            actions.append(suspension_patch(child))
    message = "jobset is suspended"
    is_new = draft.set_condition(keys.SUSPENDED, true=True, reason="SuspendedJobs", message=message)
    draft.set_condition(keys.RESTARTING, true=False, reason="JobSetSuspended", message=message)
    return draft_result(draft, *actions, status_first=is_new and bool(actions))


def _resume(ctx: Context) -> Partial:
    """Resume the suspended Jobs of ReplicatedJobs that may start.

    A Job that another client suspends again and again is held back, and is resumed later.
    """
    suspended: dict[str, list[Child]] = {}
    waits, held_back = [], ctx.observed.held_back
    has_suspended_jobs = any(tally.suspended for tally in ctx.children.tallies.values())  # saves the loop over all Jobs
    for child in ctx.children.active if has_suspended_jobs else ():
        if not child.job.spec.suspend or child.deleting:
            continue
        if child.job.metadata.uid in held_back:
            waits.append(held_back[child.job.metadata.uid])
        else:
            suspended.setdefault(child.replicated_job, []).append(child)
    patches: list[PatchJob] = []
    for rjob in ctx.stages.startable_replicated_jobs() if suspended else ():
        children = suspended.get(rjob.name, [])
        patches += _resume_patches(ctx, ctx.ranges[rjob.name], children, ctx.job_budget - len(patches))
    return Partial(actions=tuple(patches), requeue_after=min(waits, default=None))


def _resume_patches(ctx: Context, jobs: JobRange, children: list[Child], job_budget: int) -> list[PatchJob]:
    """At most `job_budget` patches that resume `children`, which are suspended Jobs of one ReplicatedJob.

    Jobs that wait for their scheduling group, or whose template names a wrong group, are left out.
    """
    sets_resources = ctx.gates["MutablePodResourcesForSuspendedJobSets"]
    patches: list[PatchJob] = []
    for child in children:
        if len(patches) >= job_budget:
            break
        if not ctx.groups.may_run(child.name) or is_misplaced(child, ctx.groups.forest):
            continue
        body = job_body(ctx, jobs, child.job_index, restart_counter(child))
        patch = resume_patch(child, body, sets_resources=sets_resources)
        if patch is not None:
            patches.append(patch)
    return patches
