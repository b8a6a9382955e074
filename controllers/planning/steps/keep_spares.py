"""Step: spares are made while the set runs (gate JobSetSpares). See docs/concepts/spares.md.

They are made last, in a plan that decides nothing else: if one is refused, nothing of the set waits for it.
"""

import functools
from itertools import islice

from api.layout import JobRange
from api.names import job_name
from api.spares import GATE
from controllers.planning.actions import CreateJob, DeleteJob
from controllers.planning.context import Context
from controllers.planning.job_bodies import job_body
from controllers.planning.partial import NOTHING, Partial
from controllers.planning.spare_places import is_steady
from controllers.planning.spares import by_index, deletions
from kube.model.meta import seconds_between

RETRY = 60
"""Seconds that a Job of spares exists at least: one that ends by itself is not made again more often."""


def keep_spares(ctx: Context) -> Partial:
    """Create missing spares once all Jobs that they stand in for are ready; remove those that have ended."""
    if not ctx.gates[GATE] or ctx.js.suspended or ctx.status != ctx.counted:
        return NOTHING
    actions: list[CreateJob | DeleteJob] = []
    waits: list[float] = []
    offset = ctx.layout.global_replicas
    for spares in ctx.observed.spares:
        group, jobs = spares.group, by_index(ctx.js.metadata.name, spares)
        for job in jobs.values():
            if job.outcome is not None:
                left = RETRY - seconds_between(job.metadata.creation_timestamp or ctx.now, ctx.now)
                actions += deletions([job] if left <= 0 else [])
                waits += [left] if left > 0 else []
        if len(jobs) < group.replicas and is_steady(ctx, group.spare_for):
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
