"""Step: create the missing Jobs of the ReplicatedJobs that may start now.

See docs/reference/lifecycle.md#order-of-start. The job budget limits how many Jobs are created at once. A Job is not
created while its scheduling group is not ready, or while leftover pods exist, which are pods of the same Job in an
earlier attempt. An attempt is the time between two restarts of the set.

A name can be in use by a foreign Job, which another object owns, by an undecodable Job, which this program cannot
decode, or by an unrecognized Job, which the set owns and whose labels are wrong. The user has to delete such a Job.
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
"""Names of Jobs by ReplicatedJob and job index."""


def create_jobs(ctx: Context) -> Partial:
    """Create missing Jobs in the order of the ReplicatedJobs, and set the conditions of an ordered start."""
    draft = ctx.draft()
    creations: list[CreateJob] = []
    conflicting_names: list[str] = []
    foreign_jobs = _wanted_names(ctx, ctx.observed.foreign_owners)
    undecodable_jobs = _wanted_names(ctx, ctx.observed.undecodable_jobs)
    names_in_use = {job.metadata.name for job in ctx.children.unrecognized} | (ctx.leftovers or frozenset())
    cache_wait = _cache_wait(ctx)
    for rjob in ctx.stages.startable_replicated_jobs() if _may_create(ctx) and cache_wait is None else ():
        jobs, foreign_names = ctx.ranges[rjob.name], foreign_jobs.get(rjob.name, {})
        indexes_in_use = foreign_names.keys() | undecodable_jobs.get(rjob.name, {}).keys()
        job_budget = max(ctx.job_budget - len(creations), 0)
        creations += _creations(ctx, jobs, job_budget, indexes_in_use, names_in_use)
        names = [foreign_names[index] for index in sorted(foreign_names) if _is_missing(ctx, rjob.name, index)]
        conflicting_names += names
        _warn_of_foreign_jobs(ctx, draft, names)
    _warn_of_undecodable_jobs(ctx, draft, undecodable_jobs)
    if is_ordered(ctx.js.spec) and not ctx.js.spec.suspend:
        _report_order(draft, is_complete=ctx.stages.all_started)
    # No watch shows when the name of a foreign or undecodable Job is free again.
    retry = ctx.limits.name_conflict_retry_seconds if conflicting_names or undecodable_jobs else cache_wait
    return draft_result(draft, *creations, requeue_after=retry)


def _cache_wait(ctx: Context) -> float | None:
    """How many seconds to wait at most for the cache of JobSets; None if the cache is not behind the cache of Jobs.

    The cache of JobSets is behind if there are Jobs of a later attempt than that of the status. A Job that is created
    now would then belong to an attempt that has ended. But a user can give a Job the label of a later attempt. So Jobs
    that are older than `cache_lag` seconds do not count.
    """
    created = max((job.metadata.creation_timestamp or ctx.now for job in ctx.children.newer), default=None)
    if created is None:
        return None
    seconds_left = ctx.limits.cache_lag - seconds_between(created, ctx.now)
    return seconds_left if seconds_left > 0 else None


def _may_create(ctx: Context) -> bool:
    """Whether Jobs may be created: it is known which Jobs have leftover pods, and nothing delays the whole set.

    With the restart strategy BlockingRecreate, all Jobs wait until no Job and no pod of an earlier attempt exists.
    """
    waits_for_all_jobs = ctx.failure_policy.restart_strategy == "BlockingRecreate"
    is_blocked = waits_for_all_jobs and bool(ctx.children.previous or ctx.leftovers)
    return ctx.may_create and ctx.leftovers is not None and not is_blocked and not ctx.groups.is_closed


def _is_missing(ctx: Context, name: str, index: int) -> bool:
    return index not in ctx.children.existing[name] and index not in ctx.children.completed[name]


def _creations(
    ctx: Context, jobs: JobRange, job_budget: int, indexes_in_use: AbstractSet[int], names_in_use: AbstractSet[str]
) -> Iterator[CreateJob]:
    """Creations of at most `job_budget` Jobs of one ReplicatedJob that neither exist nor have completed.

    Jobs whose index or name is in use are left out, and so are Jobs that wait for their scheduling group. The work is
    bounded by the number of existing Jobs and by `job_budget`, even if `replicas` is very large.
    """
    rjob = jobs.replicated_job
    if rjob.name in ctx.children.fully_existing:
        return
    prefix, indexes = job_name_prefix(ctx.js.metadata.name, rjob.name), ctx.children.missing_indexes(rjob)
    candidates = ((f"{prefix}{index}", index) for index in indexes if index not in indexes_in_use)
    allowed = ((job, index) for job, index in candidates if job not in names_in_use and ctx.groups.may_run(job))
    for job, index in islice(allowed, job_budget):
        yield CreateJob(job, functools.partial(job_body, ctx, jobs, index))


def _warn_of_foreign_jobs(ctx: Context, draft: StatusDraft, names: list[str]) -> None:
    """Warn of names that Jobs of other owners have.

    Jobs of an earlier JobSet of the same name cause no warning: they are being deleted.
    """
    foreign, same_name = ctx.observed.foreign_owners, Owner(keys.KIND, ctx.js.metadata.name)
    conflicts = [
        f'job "{name}" creation failed with error: it exists already and belongs to {foreign[name]}'
        for name in names
        if foreign[name] != same_name
    ]
    if conflicts:
        draft.warn(
            keys.JOB_CREATION_FAILED, list_some(conflicts, "delete or rename it, or rename the JobSet", ctx.limits)
        )


def _warn_of_undecodable_jobs(ctx: Context, draft: StatusDraft, names_by_index: _JobNames) -> None:
    """Warn of wanted Jobs that exist but cannot be decoded."""
    names = sorted(name for names in names_by_index.values() for name in names.values())
    jobs = [f"job {name!r} exists and cannot be read: {ctx.observed.undecodable_jobs[name]}" for name in names]
    if jobs:
        draft.warn("UnreadableJob", list_some(jobs, "correct it or delete it, and the manager continues", ctx.limits))


def _wanted_names(ctx: Context, names: Collection[str]) -> _JobNames:
    """Those of the names that the set wants for its own Jobs."""
    names_by_index: dict[str, dict[int, str]] = {}
    rjobs = {job_name_prefix(ctx.js.metadata.name, rjob.name): rjob for rjob in ctx.js.spec.replicated_jobs if names}
    for name in names:
        *_, text = name.rpartition("-")
        rjob, index = rjobs.get(name.removesuffix(text)), integer(text)
        if rjob is not None and index is not None and 0 <= index < rjob.replicas and text == str(index):
            names_by_index.setdefault(rjob.name, {})[index] = name
    return names_by_index


def _report_order(draft: StatusDraft, *, is_complete: bool) -> None:
    if is_complete:
        kind, reason, state = keys.STARTUP_COMPLETED, "InOrderStartupPolicyCompleted", "has completed"
    else:
        kind, reason, state = keys.STARTUP_IN_PROGRESS, "InOrderStartupPolicyInProgress", "is in progress"
    draft.set_condition(kind, true=True, reason=reason, message=f"in order startup policy {state}")
