"""Step: a set that runs with fewer Jobs gets them back when there is room (gate JobSetElasticReplicas).

See docs/concepts/elastic.md#more-jobs-when-there-is-room. It comes last, and decides nothing where another step has.
"""

import functools
import math
from collections import Counter

import msgspec

from api import keys
from api.elastic import GATE, ReducedReplicas
from api.layout import layout_of
from api.names import job_name
from api.placeholders import places
from controllers.planning.actions import CreateJob, DeleteJob
from controllers.planning.attempts import restart_set
from controllers.planning.context import Context
from controllers.planning.elastic import PLANNED, RESTORED, policy_of
from controllers.planning.partial import NOTHING, Partial, draft_result
from controllers.planning.placeholders import placeholder_body
from controllers.planning.spares import deletions, holds_room
from controllers.planning.status import StatusDraft, list_some
from kube.model.meta import age

SETTLE = 3
"""Seconds for which all places are held before the set restarts. A failed worker leaves a place that a placeholder may
take, and the Job controller counts the failure a second later."""
RETRY = 10
"""Seconds between a deletion of placeholders and the next ones."""


def grow_back(ctx: Context) -> Partial:
    """Keep placeholders while all Jobs are ready; a planned restart with more Jobs when they hold room."""
    stored, policy = ctx.status.reduced_replicas, policy_of(ctx.js)
    if not stored or policy is None or not ctx.gates[GATE] or ctx.js.spec.suspend:
        return NOTHING
    draft, steady = ctx.draft(), _is_steady(ctx)
    over = deletions(job for job in ctx.observed.placeholders if not steady or job.outcome is not None)
    entries = _count_held(ctx, stored, over, steady=steady)
    if entries != stored:
        draft.update(reduced_replicas=entries)
    if not steady or ctx.status != ctx.counted:
        return draft_result(draft, *over)
    wanted = {name: len(indexes) for name, indexes in places(ctx.observed.jobset).items()}
    full = all(entry.held == wanted[entry.name] for entry in entries)
    since = max((entry.held_since for entry in entries if entry.held), default="")
    left = (SETTLE if full else policy.shrink_after_seconds) - age(since, ctx.now) if since else math.inf
    if left <= 0:
        _restore(ctx, draft, entries)
        return draft_result(draft)
    pause = max((RETRY - age(entry.held_since, ctx.now) for entry in entries), default=0.0)
    missing = _missing(ctx) if pause <= 0 and entries == stored else {}
    creations = [creation for creation in missing.values() if creation is not None]
    retry = ctx.limits.foreign_retry if None in missing.values() else 0
    waits = [seconds for seconds in (left, pause, retry) if 0 < seconds < math.inf]
    return draft_result(draft, *over, *creations[: max(ctx.job_budget, 0)], requeue_after=min(waits, default=None))


def _is_steady(ctx: Context) -> bool:
    """Whether all Jobs are ready or completed, and no elastic ReplicatedJob has completed Jobs, which would run again.

    Otherwise places are for the pods of the set: a waiting placeholder could take the place of a worker that has just
    failed.
    """
    children, smaller = ctx.children, {entry.name for entry in ctx.status.reduced_replicas}
    if children.failed or children.previous or ctx.leftovers != frozenset() or any(c.deleting for c in children.active):
        return False
    for rjob in ctx.js.spec.replicated_jobs:
        done = len(children.completed[rjob.name])
        if children.tally(rjob.name).ready + done < rjob.replicas or (done and rjob.name in smaller):
            return False
    return True


def _count_held(
    ctx: Context, stored: tuple[ReducedReplicas, ...], over: list[DeleteJob], *, steady: bool
) -> tuple[ReducedReplicas, ...]:
    """The entries with the places that are held now. The time starts again with each change and each deletion."""
    deleted_names = {deletion.name for deletion in over}
    held, again = Counter[str](), set[str]()
    for job in ctx.observed.placeholders:
        name = job.metadata.labels[keys.REPLICATED_JOB_NAME]
        held[name] += steady and holds_room(job)
        if job.metadata.name in deleted_names:
            again.add(name)
    return tuple(
        msgspec.structs.replace(entry, held=held[entry.name], held_since=ctx.now)
        if entry.held != held[entry.name] or entry.name in again
        else entry
        for entry in stored
    )


def _restore(ctx: Context, draft: StatusDraft, entries: tuple[ReducedReplicas, ...]) -> None:
    """The restart with as many Jobs as there is room for. Placeholders end with the attempt, like all of its Jobs."""
    wanted = {rjob.name: rjob.replicas for rjob in ctx.observed.jobset.spec.replicated_jobs}
    sizes = {entry.name: entry.replicas + entry.held for entry in entries if entry.held}
    draft.update(
        reduced_replicas=tuple(
            ReducedReplicas(name=entry.name, replicas=sizes[entry.name], since=ctx.now) if entry.held else entry
            for entry in entries
            if sizes.get(entry.name, 0) < wanted[entry.name]
        )
    )
    parts = [f"replicatedJob {name} continues with {size} of {wanted[name]} Jobs" for name, size in sizes.items()]
    cause = f"there is room for {sum(entry.held for entry in entries)} more; {PLANNED}"
    restart_set(draft, RESTORED, list_some(parts, cause, ctx.limits), counts=False, event_type="Normal")


def _missing(ctx: Context) -> dict[str, CreateJob | None]:
    """The placeholders that do not exist, by name; None: another Job has the name."""
    js = ctx.observed.jobset
    layout, there = layout_of(js), {job.metadata.name for job in ctx.observed.placeholders}
    names_in_use = {*ctx.observed.foreign, *ctx.observed.unreadable}
    names_in_use |= {job.metadata.name for job in ctx.children.unrecognized}
    ranges, found = layout.by_name(), dict[str, CreateJob | None]()
    for name, indexes in places(js).items():
        for index in indexes:
            job = job_name(js.metadata.name, name, index)
            if job not in there:
                body = functools.partial(placeholder_body, ctx, layout, ranges[name], index)
                found[job] = None if job in names_in_use else CreateJob(job, body)
    return found
