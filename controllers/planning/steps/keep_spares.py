"""Step: create spares while the set runs (gate JobSetSpares). See docs/concepts/spares.md.

Spares are created last, in a plan that decides nothing else. So if a creation is refused, nothing of the set waits.
"""

import functools
from collections.abc import Iterable
from itertools import islice
from typing import Final

from api import keys
from api.avoided_nodes import avoided_node_names, nodes_to_avoid
from api.batch import Job, is_job_ready
from api.layout import JobRange
from api.names import job_name
from api.spares import GATE
from controllers.planning.actions import CreateJob, DeleteJob, deletions
from controllers.planning.child_jobs import integer
from controllers.planning.context import Context
from controllers.planning.failed_nodes import avoid_policy
from controllers.planning.job_bodies import job_body
from controllers.planning.partial import NOTHING, Partial
from controllers.planning.spare_places import is_steady
from controllers.planning.spares import jobs_by_index, wanted_indexes
from kube.model.meta import seconds_between

RETRY_SECONDS = 60
"""A Job of spares that has ended by itself is created again at the earliest so many seconds after its creation."""

_Order = tuple[int, str]
_NEVER: Final[_Order] = (0, "")
"""A time before the creation of any Job."""


def keep_spares(ctx: Context) -> Partial:
    """Create missing spares once all Jobs that they stand in for are ready, and delete spares that have ended.

    Spares that may be pending because of nodes to avoid, or may be outside of the group's domain, are created again.
    """
    if not ctx.gates[GATE] or ctx.js.spec.suspend or ctx.status != ctx.counted_status:
        return NOTHING
    actions: list[CreateJob | DeleteJob] = []
    waits: list[float] = []
    offset = ctx.layout.global_replicas  # spares are numbered after all Jobs of the set
    avoided = nodes_to_avoid(ctx.js, ctx.now) if avoid_policy(ctx) is not None else ()
    avoided_names = {node.name for node in avoided}
    for spares in ctx.observed.spares:
        group, wanted = spares.group, wanted_indexes(ctx.js, ctx.children, spares.group)
        jobs = {index: job for index, job in jobs_by_index(ctx.js.metadata.name, spares).items() if index in wanted}
        for job in jobs.values():
            if job.outcome is not None:
                seconds_left = RETRY_SECONDS - seconds_between(job.metadata.creation_timestamp or ctx.now, ctx.now)
                actions += deletions([job] if seconds_left <= 0 else [])
                waits += [seconds_left] if seconds_left > 0 else []
        jobs_are_ready = is_steady(ctx, group.spare_for)
        if jobs_are_ready:
            last_moves = _last_moves(ctx, group.spare_for, jobs)
            actions += deletions(
                job
                for index, job in jobs.items()
                if job.outcome is None
                and (_creation_order(job) < last_moves.get(index, _NEVER) or _may_wait_for(job, avoided_names))
            )
        if len(jobs) < len(wanted) and jobs_are_ready:
            job_budget = max(ctx.job_budget - len(actions), 0)
            missing = islice((index for index in wanted if index not in jobs), job_budget)
            job_range = JobRange(group, offset, 0, group.replicas)
            actions += [
                CreateJob(
                    job_name(ctx.js.metadata.name, group.name, index),
                    functools.partial(job_body, ctx, job_range, index),
                )
                for index in missing
            ]
        offset += group.replicas
    return Partial(actions=tuple(actions), requeue_after=min(waits, default=None))


def _may_wait_for(job: Job, avoided_names: set[str]) -> bool:
    """Whether a Job of spares is not ready, and may wait for room on one of these nodes, which it does not avoid."""
    return not is_job_ready(job) and bool(avoided_names - avoided_node_names(job.metadata.annotations))


def _last_moves(ctx: Context, name: str, indexes: Iterable[int]) -> dict[int, _Order]:
    """For each index of a spare, when the pods of ReplicatedJob `name` may last have moved to another topology domain.

    An older spare may be in the old domain, and has to be created again. If each Job has a domain of its own, the time
    is when the Job with this index was created. If all Jobs share a domain, it is when the oldest Job was created. It
    is `_NEVER` if Jobs have completed: the set was then not restarted as a whole.
    """
    scheduling = ctx.js.spec.scheduling
    if scheduling is None:
        return {}
    created = {
        child.job_index: _creation_order(child.job) for child in ctx.children.active if child.replicated_job == name
    }
    if scheduling.job_topology_keys(name):
        return created
    is_shared = scheduling.shared_topology_keys(name) and not ctx.children.completed[name]
    return dict.fromkeys(indexes, min(created.values(), default=_NEVER)) if is_shared else {}


def _creation_order(job: Job) -> _Order:
    """When a Job was created: how many times its set had restarted before, and the creation timestamp."""
    meta = job.metadata
    return integer(meta.labels.get(keys.RESTART_ATTEMPT)) or 0, meta.creation_timestamp or ""
