"""Step: create the Jobs that are missing, as far as the order of stages, groups and the budget of Jobs let them start.

See docs/reference/lifecycle.md#order-of-start.
"""

import functools
from collections.abc import Set as AbstractSet
from itertools import islice

from api import keys
from api.layout import JobRange
from api.meta import Owner, seconds_between
from api.names import job_name_prefix
from api.stages import in_order
from controllers.planning.actions import CreateJob
from controllers.planning.child_jobs import integer
from controllers.planning.context import Context
from controllers.planning.job_bodies import job_body
from controllers.planning.partial import Partial, of_draft
from controllers.planning.status import StatusDraft
from controllers.planning.warnings import listed


def create_jobs(ctx: Context) -> Partial:
    """Create them in the order of the list, and set the conditions of an ordered start."""
    draft = ctx.draft()
    free: list[CreateJob] = []
    taken: list[str] = []
    in_use = {job.metadata.name for job in ctx.children.unrecognized} | (ctx.leftovers or frozenset())
    lag = _lag(ctx)
    for rjob in ctx.stages.in_turn() if _may_create(ctx) and lag is None else ():
        found, names = _missing(ctx, ctx.ranges[rjob.name], ctx.job_budget - len(free), in_use)
        free += found
        taken += names
        _warn_of_taken(ctx, draft, names)
    unreadable = _warn_of_unreadable(ctx, draft)
    if in_order(ctx.js.spec) and not ctx.js.suspended:
        _report_order(draft, complete=ctx.stages.all_started)
    # No watch shows when a name is free that another owner's Job, or an unreadable one, has.
    retry = ctx.limits.foreign_retry if taken or unreadable else lag
    return of_draft(draft, *free, requeue_after=retry)


def _lag(ctx: Context) -> float | None:
    """Seconds to wait at most for the cache of JobSets: there are Jobs of a later attempt than the JobSet in it has.

    A Job that is created now would belong to an attempt that is over. A Job with a changed label looks as if it were of
    a later attempt: `cache_lag` seconds after it was created, it does not count any more.
    """
    created = max((job.metadata.creation_timestamp or ctx.now for job in ctx.children.newer), default=None)
    if created is None:
        return None
    left = ctx.limits.cache_lag - seconds_between(created, ctx.now)
    return left if left > 0 else None


def _may_create(ctx: Context) -> bool:
    """Whether Jobs may be created at all: not before it is known which names pods of an earlier attempt still use."""
    policy = ctx.js.spec.failure_policy
    blocking = policy is not None and policy.restart_strategy == "BlockingRecreate"
    blocked = blocking and bool(ctx.children.previous or ctx.leftovers)
    return ctx.creates and ctx.leftovers is not None and not blocked


def _missing(
    ctx: Context, jobs: JobRange, job_budget: int, in_use: AbstractSet[str]
) -> tuple[list[CreateJob], list[str]]:
    """The Jobs of a ReplicatedJob to create now, and the names of those that cannot be: other owners' Jobs have them.

    The work is bounded by what exists and by what may be created, not by `replicas`. Jobs beyond `job_budget` are
    created when the Job controller has taken up others, Jobs with leftover pods of an earlier attempt when these pods
    are gone.
    """
    name = jobs.replicated_job.name
    done = ctx.children.existing[name] | ctx.children.completed[name]
    prefix = job_name_prefix(ctx.js.metadata.name, name)
    taken = {index: job for job in ctx.observed.foreign if (index := _index(ctx, jobs, job)) is not None}
    unreadable = {_index(ctx, jobs, job) for job in ctx.observed.unreadable}
    possible = (i for i in range(jobs.replicated_job.replicas) if i not in done and i not in taken)
    named = ((f"{prefix}{index}", index) for index in possible if index not in unreadable)
    allowed = ((job, index) for job, index in named if job not in in_use and ctx.groups.may_run(job))
    free = [
        CreateJob(job, functools.partial(job_body, ctx, jobs, index))
        for job, index in islice(allowed, max(job_budget, 0))
    ]
    return free, [job for index, job in sorted(taken.items()) if index not in done]


def _warn_of_taken(ctx: Context, draft: StatusDraft, taken: list[str]) -> None:
    """Warn of names that other owners' Jobs have; Jobs of an earlier JobSet of this name are being deleted."""
    foreign, own = ctx.observed.foreign, Owner(keys.KIND, ctx.js.metadata.name)
    others = [
        f'job "{name}" creation failed with error: it exists already and belongs to {foreign[name]}'
        for name in taken
        if foreign[name] != own
    ]
    if others:
        draft.warn(keys.JOB_CREATION_FAILED, listed(others, "delete or rename it, or rename the JobSet", ctx.limits))


def _warn_of_unreadable(ctx: Context, draft: StatusDraft) -> bool:
    """Warn of wanted Jobs that exist and cannot be read, and return whether there are any."""
    found = sorted(ctx.observed.unreadable.items())
    wrong = [f"job {name!r} exists and cannot be read: {why}" for name, why in found if _is_wanted(ctx, name)]
    if wrong:
        draft.warn("UnreadableJob", listed(wrong, "correct it or delete it, the manager goes on then", ctx.limits))
    return bool(wrong)


def _is_wanted(ctx: Context, name: str) -> bool:
    """Whether the set wants a Job of that name."""
    return any(_index(ctx, jobs, name) is not None for jobs in ctx.layout.ranges)


def _index(ctx: Context, jobs: JobRange, name: str) -> int | None:
    """The index of the Job of a ReplicatedJob that has this name; None if no wanted one has."""
    prefix = job_name_prefix(ctx.js.metadata.name, jobs.replicated_job.name)
    index = integer(name.removeprefix(prefix)) if name.startswith(prefix) else None
    wanted = index is not None and 0 <= index < jobs.replicated_job.replicas and name == f"{prefix}{index}"
    return index if wanted else None


def _report_order(draft: StatusDraft, *, complete: bool) -> None:
    if complete:
        kind, reason, state = keys.STARTUP_COMPLETED, "InOrderStartupPolicyCompleted", "has completed"
    else:
        kind, reason, state = keys.STARTUP_IN_PROGRESS, "InOrderStartupPolicyInProgress", "is in progress"
    draft.condition(kind, true=True, reason=reason, message=f"in order startup policy {state}")
