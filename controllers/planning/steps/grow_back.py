"""Step: restart a set that runs with fewer Jobs than wanted when there is room for more (gate JobSetElasticReplicas).

See docs/concepts/elastic.md#more-jobs-when-there-is-room. `status.reducedReplicas` has an entry for each ReplicatedJob
that runs with fewer Jobs than `replicas` in the spec. `ctx.js` has the reduced numbers of Jobs, and
`ctx.observed.jobset` has `replicas` of the spec.

A placeholder is a Job that does no work and has the resource requests of a missing Job. Its pods get nodes when there
is room, and then the placeholder holds this room. When placeholders have held room for some seconds, the set restarts
with as many more Jobs as there are such placeholders.

This step comes last. If another step has changed the status, it neither creates placeholders nor restarts the set.
"""

import functools
import math
from collections import Counter
from collections.abc import Iterable

import msgspec

from api import keys
from api.elastic import GATE, ReducedReplicas
from api.layout import layout_of
from api.names import job_name
from api.placeholders import missing_job_indexes
from controllers.planning.actions import CreateJob, DeleteJob, deletions
from controllers.planning.attempts import PLANNED, restart_set
from controllers.planning.context import Context
from controllers.planning.elastic import RESTORED, capacity_policy
from controllers.planning.partial import NOTHING, Partial, draft_result
from controllers.planning.placeholders import placeholder_body
from controllers.planning.spares import holds_room
from controllers.planning.status import StatusDraft, list_some
from kube.model.meta import age

SETTLE_SECONDS = 3
"""If placeholders for all missing Jobs hold room, the set restarts after so many seconds.

If a worker fails, a placeholder may get its node a second before the Job controller counts the failure.
"""
RETRY_SECONDS = 10
"""Placeholders are created again at the earliest so many seconds after placeholders were deleted."""


def grow_back(ctx: Context) -> Partial:
    """Create placeholders while all Jobs are ready. When placeholders hold room, restart the set with more Jobs.

    If some placeholders find no room, the set waits for them for `whenNoCapacity.shrinkAfterSeconds`.
    """
    stored, policy = ctx.status.reduced_replicas, capacity_policy(ctx.failure_policy)
    if not stored or policy is None or not ctx.gates[GATE] or ctx.js.spec.suspend:
        return NOTHING
    draft, is_steady = ctx.draft(), _is_steady(ctx)
    deleted = deletions(job for job in ctx.observed.placeholders if not is_steady or job.outcome is not None)
    entries = _with_held_counts(ctx, stored, deleted, is_steady=is_steady)
    if entries != stored:
        draft.update(reduced_replicas=entries)
    if not is_steady or ctx.status != ctx.status_before_steps:
        return draft_result(draft, *deleted)
    missing_jobs = {name: len(indexes) for name, indexes in missing_job_indexes(ctx.observed.jobset).items()}
    holds_all = all(entry.held == missing_jobs[entry.name] for entry in entries)
    # `held_since` is also the time of the last deletion of a placeholder (see `_with_held_counts`).
    last_change = max((entry.held_since for entry in entries if entry.held), default="")
    needed_seconds = SETTLE_SECONDS if holds_all else policy.shrink_after_seconds
    seconds_left = needed_seconds - age(last_change, ctx.now) if last_change else math.inf
    if seconds_left <= 0:
        _restore(ctx, draft, entries)
        return draft_result(draft)
    retry_pause = max((RETRY_SECONDS - age(entry.held_since, ctx.now) for entry in entries), default=0.0)
    placeholders = _missing_placeholders(ctx) if retry_pause <= 0 and entries == stored else {}
    creations = [creation for creation in placeholders.values() if creation is not None]
    conflict_pause = ctx.limits.name_conflict_retry_seconds if None in placeholders.values() else 0
    waits = [seconds for seconds in (seconds_left, retry_pause, conflict_pause) if 0 < seconds < math.inf]
    return draft_result(draft, *deleted, *creations[: max(ctx.job_budget, 0)], requeue_after=min(waits, default=None))


def _is_steady(ctx: Context) -> bool:
    """Whether all Jobs are ready or completed, and no ReplicatedJob with fewer Jobs than wanted has completed Jobs.

    Completed Jobs would run again after the restart. While Jobs are not ready, there must be no placeholders: a pending
    placeholder could get the node of a worker that has just failed.
    """
    children, reduced = ctx.children, {entry.name for entry in ctx.status.reduced_replicas}
    if children.failed or ctx.may_have_old_pods or any(child.deleting for child in children.active):
        return False
    for rjob in ctx.js.spec.replicated_jobs:
        completed = len(children.completed[rjob.name])
        if children.tally(rjob.name).ready + completed < rjob.replicas or (completed and rjob.name in reduced):
            return False
    return True


def _with_held_counts(
    ctx: Context, stored: tuple[ReducedReplicas, ...], deleted: Iterable[DeleteJob], *, is_steady: bool
) -> tuple[ReducedReplicas, ...]:
    """The entries of `status.reducedReplicas`, each with the number of placeholders that hold room now (`held`).

    `held_since` is the time of the last change of `held`, or of the last deletion of a placeholder.
    """
    deleted_names = {deletion.name for deletion in deleted}
    held, names_with_deletions = Counter[str](), set[str]()
    for job in ctx.observed.placeholders:
        name = job.metadata.labels[keys.REPLICATED_JOB_NAME]
        held[name] += is_steady and holds_room(job)
        if job.metadata.name in deleted_names:
            names_with_deletions.add(name)
    return tuple(
        msgspec.structs.replace(entry, held=held[entry.name], held_since=ctx.now)
        if entry.held != held[entry.name] or entry.name in names_with_deletions
        else entry
        for entry in stored
    )


def _restore(ctx: Context, draft: StatusDraft, entries: tuple[ReducedReplicas, ...]) -> None:
    """Restart the set with as many Jobs as there is room for. The restart also deletes the placeholders."""
    full_sizes = {rjob.name: rjob.replicas for rjob in ctx.observed.jobset.spec.replicated_jobs}
    sizes = {entry.name: entry.replicas + entry.held for entry in entries if entry.held}
    draft.update(
        reduced_replicas=tuple(
            ReducedReplicas(name=entry.name, replicas=sizes[entry.name], since=ctx.now) if entry.held else entry
            for entry in entries
            if sizes.get(entry.name, 0) < full_sizes[entry.name]
        )
    )
    changes = [f"replicatedJob {name} continues with {size} of {full_sizes[name]} Jobs" for name, size in sizes.items()]
    cause = f"there is room for {sum(entry.held for entry in entries)} more; {PLANNED}"
    restart_set(draft, RESTORED, list_some(changes, cause, ctx.limits), counts=False, event_type="Normal")


def _missing_placeholders(ctx: Context) -> dict[str, CreateJob | None]:
    """Creations of the placeholders that do not exist, by name; None if another Job has the name."""
    js = ctx.observed.jobset
    layout, existing_names = layout_of(js), {job.metadata.name for job in ctx.observed.placeholders}
    names_in_use = {*ctx.observed.foreign_owners, *ctx.observed.undecodable_jobs}
    names_in_use |= {job.metadata.name for job in ctx.children.unrecognized}
    ranges, creations = layout.ranges_by_name(), dict[str, CreateJob | None]()
    for name, indexes in missing_job_indexes(js).items():
        for index in indexes:
            job = job_name(js.metadata.name, name, index)
            if job not in existing_names:
                body = functools.partial(placeholder_body, ctx, layout, ranges[name], index)
                creations[job] = None if job in names_in_use else CreateJob(job, body)
    return creations
