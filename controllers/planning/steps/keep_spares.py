"""Step: spares are created while the set runs (gate JobSetSpares). See docs/concepts/spares.md.

They are created last, in a plan that decides nothing else: if one is refused, nothing of the set waits for it.
"""

import functools
from itertools import islice

from api.avoided_nodes import avoided_by, nodes_to_avoid
from api.batch import job_ready
from api.layout import JobRange
from api.names import job_name
from api.spares import GATE
from controllers.planning.actions import CreateJob, DeleteJob
from controllers.planning.context import Context
from controllers.planning.failed_nodes import avoid_policy
from controllers.planning.job_bodies import job_body
from controllers.planning.partial import NOTHING, Partial
from controllers.planning.spare_places import is_steady
from controllers.planning.spares import by_index, deletions
from kube.model.meta import seconds_between

RETRY = 60
"""Least age in seconds of a Job of spares before it is created again, if it ends by itself."""


def keep_spares(ctx: Context) -> Partial:
    """Create missing spares once all Jobs that they stand in for are ready; remove those that have ended.

    A Job that is not ready and does not avoid all nodes to avoid is created again: it may be pending because of them.
    """
    if not ctx.gates[GATE] or ctx.js.spec.suspend or ctx.status != ctx.counted:
        return NOTHING
    actions: list[CreateJob | DeleteJob] = []
    waits: list[float] = []
    offset = ctx.layout.global_replicas
    avoided = nodes_to_avoid(ctx.js, ctx.now) if avoid_policy(ctx) is not None else ()
    away = {node.name for node in avoided}
    for spares in ctx.observed.spares:
        group, jobs = spares.group, by_index(ctx.js.metadata.name, spares)
        for job in jobs.values():
            if job.outcome is not None:
                left = RETRY - seconds_between(job.metadata.creation_timestamp or ctx.now, ctx.now)
                actions += deletions([job] if left <= 0 else [])
                waits += [left] if left > 0 else []
        steady = is_steady(ctx, group.spare_for)
        if steady and away:
            there = (job for job in jobs.values() if job.outcome is None and not job_ready(job))
            actions += deletions(job for job in there if away - avoided_by(job.metadata.annotations))
        if len(jobs) < group.replicas and steady:
            most = max(ctx.job_budget - len(actions), 0)
            missing = islice((index for index in range(group.replicas) if index not in jobs), most)
            places = JobRange(group, offset, 0, group.replicas)
            actions += [
                CreateJob(
                    job_name(ctx.js.metadata.name, group.name, index), functools.partial(job_body, ctx, places, index)
                )
                for index in missing
            ]
        offset += group.replicas
    return Partial(actions=tuple(actions), requeue_after=min(waits, default=None))
