"""Step: spares are created while the set runs (gate JobSetSpares). See docs/concepts/spares.md.

They are created last, in a plan that decides nothing else: if one is refused, nothing of the set waits for it.
"""

import functools
from collections.abc import Iterable
from itertools import islice
from typing import Final

from api import keys
from api.avoided_nodes import avoided_by, nodes_to_avoid
from api.batch import Job, job_ready
from api.layout import JobRange
from api.names import job_name
from api.spares import GATE
from controllers.planning.actions import CreateJob, DeleteJob
from controllers.planning.child_jobs import integer
from controllers.planning.context import Context
from controllers.planning.failed_nodes import avoid_policy
from controllers.planning.job_bodies import job_body
from controllers.planning.partial import NOTHING, Partial
from controllers.planning.spare_places import is_steady
from controllers.planning.spares import by_index, deletions, wanted_indexes
from kube.model.meta import seconds_between

RETRY = 60
"""Least age in seconds of a Job of spares before it is created again, if it ends by itself."""

_Order = tuple[int, str]
_NEVER: Final[_Order] = (0, "")
"""Before any Job was created."""


def keep_spares(ctx: Context) -> Partial:
    """Create missing spares once all Jobs that they stand in for are ready; remove those that have ended.

    Created again are Jobs that may be pending because of nodes to avoid, or may be outside of the group's domain.
    """
    if not ctx.gates[GATE] or ctx.js.spec.suspend or ctx.status != ctx.counted:
        return NOTHING
    actions: list[CreateJob | DeleteJob] = []
    waits: list[float] = []
    offset = ctx.layout.global_replicas
    avoided = nodes_to_avoid(ctx.js, ctx.now) if avoid_policy(ctx) is not None else ()
    away = {node.name for node in avoided}
    for spares in ctx.observed.spares:
        group, wanted = spares.group, wanted_indexes(ctx.js, ctx.children, spares.group)
        jobs = {index: job for index, job in by_index(ctx.js.metadata.name, spares).items() if index in wanted}
        for job in jobs.values():
            if job.outcome is not None:
                left = RETRY - seconds_between(job.metadata.creation_timestamp or ctx.now, ctx.now)
                actions += deletions([job] if left <= 0 else [])
                waits += [left] if left > 0 else []
        steady = is_steady(ctx, group.spare_for)
        if steady:
            moved = _last_moves(ctx, group.spare_for, jobs)
            actions += deletions(
                job
                for index, job in jobs.items()
                if job.outcome is None and (_creation_order(job) < moved.get(index, _NEVER) or _may_wait_for(job, away))
            )
        if len(jobs) < len(wanted) and steady:
            most = max(ctx.job_budget - len(actions), 0)
            missing = islice((index for index in wanted if index not in jobs), most)
            places = JobRange(group, offset, 0, group.replicas)
            actions += [
                CreateJob(
                    job_name(ctx.js.metadata.name, group.name, index), functools.partial(job_body, ctx, places, index)
                )
                for index in missing
            ]
        offset += group.replicas
    return Partial(actions=tuple(actions), requeue_after=min(waits, default=None))


def _may_wait_for(job: Job, away: set[str]) -> bool:
    """Whether a Job of spares is not ready, and may be pending because of a node of `away`."""
    return not job_ready(job) and bool(away - avoided_by(job.metadata.annotations))


def _last_moves(ctx: Context, name: str, indexes: Iterable[int]) -> dict[int, _Order]:
    """For spares of these indexes, when the pods that they follow may have moved to another domain of their group.

    Spares from before may be in the old domain; the next ones follow. Where only the pods of one Job of ReplicatedJob
    `name` share a domain: when the Job of that index was created. Where all do: when the oldest was created; never if
    Jobs have completed, which no restart of all leaves.
    """
    scheduling = ctx.js.spec.scheduling
    if scheduling is None:
        return {}
    created = {
        child.job_index: _creation_order(child.job) for child in ctx.children.active if child.replicated_job == name
    }
    if scheduling.job_topology(name):
        return created
    is_shared = scheduling.shared_topology(name) and not ctx.children.completed[name]
    return dict.fromkeys(indexes, min(created.values(), default=_NEVER)) if is_shared else {}


def _creation_order(job: Job) -> _Order:
    """When a Job was created: how often its set had restarted by then, and the second."""
    meta = job.metadata
    return integer(meta.labels.get(keys.RESTART_ATTEMPT)) or 0, meta.creation_timestamp or ""
