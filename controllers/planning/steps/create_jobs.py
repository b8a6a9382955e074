"""Step: create the Jobs that are missing, as far as the order of stages, groups and the budget of Jobs let them start.

See docs/reference/lifecycle.md#order-of-start.
"""

import functools
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice

from api import keys
from api.layout import JobRange
from api.names import job_name_prefix
from api.stages import is_ordered
from controllers.planning.actions import CreateJob
from controllers.planning.child_jobs import integer
from controllers.planning.context import Context
from controllers.planning.job_bodies import job_body
from controllers.planning.partial import Partial, draft_result
from controllers.planning.status import StatusDraft, list_some
from kube.model.meta import Owner, seconds_between

_JobNames = Mapping[str, Mapping[int, str]]
"""Names of Jobs, by ReplicatedJob and index."""


def create_jobs(ctx: Context) -> Partial:
    """Create them in the order of the list, and set the conditions of an ordered start."""
    draft = ctx.draft()
    free: list[CreateJob] = []
    conflicts: list[str] = []
    foreign, unreadable = _wanted_names(ctx, ctx.observed.foreign), _wanted_names(ctx, ctx.observed.unreadable)
    in_use = {job.metadata.name for job in ctx.children.unrecognized} | (ctx.leftovers or frozenset())
    lag = _lag(ctx)
    for rjob in ctx.stages.startable_jobs() if _may_create(ctx) and lag is None else ():
        jobs, theirs = ctx.ranges[rjob.name], foreign.get(rjob.name, {})
        names_in_use = theirs.keys() | unreadable.get(rjob.name, {}).keys()
        free += _missing(ctx, jobs, max(ctx.job_budget - len(free), 0), names_in_use, in_use)
        names = [theirs[index] for index in sorted(theirs) if _is_missing(ctx, rjob.name, index)]
        conflicts += names
        _warn_of_taken(ctx, draft, names)
    _warn_of_unreadable(ctx, draft, unreadable)
    if is_ordered(ctx.js.spec) and not ctx.js.spec.suspend:
        _report_order(draft, complete=ctx.stages.all_started)
    # No watch shows when a name that another owner's Job, or an unreadable Job, has is free again.
    retry = ctx.limits.foreign_retry if conflicts or unreadable else lag
    return draft_result(draft, *free, requeue_after=retry)


def _lag(ctx: Context) -> float | None:
    """Seconds to wait at most for the cache of JobSets, if there are Jobs of a later attempt than that in the cache.

    A Job that is created now would belong to an ended attempt. A Job with a changed label may look like one of a later
    attempt, so it is ignored `cache_lag` seconds after its creation.
    """
    created = max((job.metadata.creation_timestamp or ctx.now for job in ctx.children.newer), default=None)
    if created is None:
        return None
    left = ctx.limits.cache_lag - seconds_between(created, ctx.now)
    return left if left > 0 else None


def _may_create(ctx: Context) -> bool:
    """Whether Jobs may be created: not before it is known which Jobs have leftover pods."""
    policy = ctx.js.spec.failure_policy
    blocking = policy is not None and policy.restart_strategy == "BlockingRecreate"
    blocked = blocking and bool(ctx.children.previous or ctx.leftovers)
    return ctx.creates and ctx.leftovers is not None and not blocked and not ctx.groups.closed


def _is_missing(ctx: Context, name: str, index: int) -> bool:
    return index not in ctx.children.existing[name] and index not in ctx.children.completed[name]


def _missing(
    ctx: Context, jobs: JobRange, job_budget: int, indexes_in_use: AbstractSet[int], in_use: AbstractSet[str]
) -> Iterator[CreateJob]:
    """The Jobs of a ReplicatedJob to create now: they neither exist nor have completed, and their names are free.

    `indexes_in_use`: indexes of Jobs whose name is not free. The work is bounded by what exists and by what may be
    created, not by `replicas`. Jobs beyond `job_budget` are created when the Job controller has taken up others, Jobs
    with leftover pods of an earlier attempt when these pods are gone.
    """
    name, prefix = jobs.replicated_job.name, job_name_prefix(ctx.js.metadata.name, jobs.replicated_job.name)
    existing = ctx.children.existing[name]
    if name in ctx.children.fully_existing:
        return
    indexes = (i for i in ctx.children.completed[name].missing(jobs.replicated_job.replicas) if i not in existing)
    candidates = ((f"{prefix}{index}", index) for index in indexes if index not in indexes_in_use)
    allowed = ((job, index) for job, index in candidates if job not in in_use and ctx.groups.may_run(job))
    for job, index in islice(allowed, job_budget):
        yield CreateJob(job, functools.partial(job_body, ctx, jobs, index))


def _warn_of_taken(ctx: Context, draft: StatusDraft, names: list[str]) -> None:
    """Warn of names that other owners' Jobs have; Jobs of an earlier JobSet of this name are being deleted."""
    foreign, own = ctx.observed.foreign, Owner(keys.KIND, ctx.js.metadata.name)
    conflicts = [
        f'job "{name}" creation failed with error: it exists already and belongs to {foreign[name]}'
        for name in names
        if foreign[name] != own
    ]
    if conflicts:
        draft.warn(
            keys.JOB_CREATION_FAILED, list_some(conflicts, "delete or rename it, or rename the JobSet", ctx.limits)
        )


def _warn_of_unreadable(ctx: Context, draft: StatusDraft, names_by_index: _JobNames) -> None:
    """Warn of wanted Jobs that exist but cannot be read."""
    names = sorted(name for found in names_by_index.values() for name in found.values())
    wrong = [f"job {name!r} exists and cannot be read: {ctx.observed.unreadable[name]}" for name in names]
    if wrong:
        draft.warn("UnreadableJob", list_some(wrong, "correct it or delete it, the manager goes on then", ctx.limits))


def _wanted_names(ctx: Context, names: Collection[str]) -> _JobNames:
    """Those of the names that the set wants for its Jobs."""
    wanted: dict[str, dict[int, str]] = {}
    rjobs = {job_name_prefix(ctx.js.metadata.name, rjob.name): rjob for rjob in ctx.js.spec.replicated_jobs if names}
    for name in names:
        *_, text = name.rpartition("-")
        rjob, index = rjobs.get(name.removesuffix(text)), integer(text)
        if rjob is not None and index is not None and 0 <= index < rjob.replicas and text == str(index):
            wanted.setdefault(rjob.name, {})[index] = name
    return wanted


def _report_order(draft: StatusDraft, *, complete: bool) -> None:
    if complete:
        kind, reason, state = keys.STARTUP_COMPLETED, "InOrderStartupPolicyCompleted", "has completed"
    else:
        kind, reason, state = keys.STARTUP_IN_PROGRESS, "InOrderStartupPolicyInProgress", "is in progress"
    draft.condition(kind, true=True, reason=reason, message=f"in order startup policy {state}")
