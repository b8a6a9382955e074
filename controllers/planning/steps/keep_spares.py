"""Step: create missing spares, and delete spares that are of no use (gate JobSetSpares). See docs/concepts/spares.md.

A spare is a Job that does no work: its pods hold nodes for pods of another ReplicatedJob that lose their nodes. Spares
belong to a ReplicatedJob of their own, whose `spareFor` names the other ReplicatedJob.

Spares are created last, in a plan in which no other step changes the status. So a refused creation delays nothing.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from api import keys
from api.avoided_nodes import avoided_node_names, nodes_to_avoid
from api.batch import Job, is_job_ready
from api.jobset import ReplicatedJob
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
"""A spare that has failed or completed is created again at the earliest so many seconds after its creation."""

_CreationOrder = tuple[int, str]
"""When a Job was created: how many times its set had restarted before, and the creation timestamp."""

_BEFORE_ALL_JOBS: Final[_CreationOrder] = (0, "")


def keep_spares(ctx: Context) -> Partial:
    """Delete spares that have ended or are outdated, and create missing spares.

    Outdated spares are deleted, and missing spares are created, only while all Jobs of the other ReplicatedJob are
    ready or have completed.
    """
    has_other_changes = ctx.status != ctx.status_before_steps
    if not ctx.gates[GATE] or ctx.js.spec.suspend or has_other_changes:
        return NOTHING
    actions: list[CreateJob | DeleteJob] = []
    waits: list[float] = []
    global_offset = ctx.layout.global_replicas  # spares are numbered after all Jobs of the set
    avoided_nodes = nodes_to_avoid(ctx.js, ctx.now) if avoid_policy(ctx) is not None else ()
    avoided_names = {node.name for node in avoided_nodes}
    for spares in ctx.observed.spares:
        spare_rjob = spares.rjob
        wanted = wanted_indexes(ctx.js, ctx.children, spare_rjob)
        jobs = {index: job for index, job in jobs_by_index(ctx.js.metadata.name, spares).items() if index in wanted}
        for job in jobs.values():
            if job.outcome is not None:
                seconds_left = RETRY_SECONDS - seconds_between(job.metadata.creation_timestamp or ctx.now, ctx.now)
                if seconds_left > 0:
                    waits.append(seconds_left)
                else:
                    actions += deletions([job])
        if is_steady(ctx, spare_rjob.spare_for):
            actions += deletions(_outdated_jobs(ctx, spare_rjob.spare_for, jobs, avoided_names))
            if len(jobs) < len(wanted):
                missing_indexes = (index for index in wanted if index not in jobs)
                job_budget = max(ctx.job_budget - len(actions), 0)
                actions += _creations(ctx, spare_rjob, global_offset, islice(missing_indexes, job_budget))
        global_offset += spare_rjob.replicas
    return Partial(actions=tuple(actions), requeue_after=min(waits, default=None))


def _creations(
    ctx: Context, spare_rjob: ReplicatedJob, global_offset: int, indexes: Iterable[int]
) -> Iterator[CreateJob]:
    """Creations of the spares with these job indexes. `global_offset`: the global index of the first such spare."""
    job_range = JobRange(spare_rjob, global_offset, group_offset=0, group_replicas=spare_rjob.replicas)
    for index in indexes:
        name = job_name(ctx.js.metadata.name, spare_rjob.name, index)
        yield CreateJob(name, functools.partial(job_body, ctx, job_range, index))


def _outdated_jobs(ctx: Context, name: str, jobs: Mapping[int, Job], avoided_names: set[str]) -> list[Job]:
    """The unfinished spares that have to be created again. `jobs`: spares for ReplicatedJob `name` by job index.

    A spare is outdated if it may be in a topology domain that the pods of `name` have left, or if it may be pending
    because of a node that the set avoids by now. A spare is created with the nodes that the set avoids at that time.
    """
    last_moves = _last_moves(ctx, name, jobs)
    return [
        job
        for index, job in jobs.items()
        if job.outcome is None
        and (
            _creation_order(job) < last_moves.get(index, _BEFORE_ALL_JOBS)
            or (not is_job_ready(job) and avoided_names - avoided_node_names(job.metadata.annotations))
        )
    ]


def _last_moves(ctx: Context, name: str, indexes: Iterable[int]) -> dict[int, _CreationOrder]:
    """For each index of a spare, when the pods of ReplicatedJob `name` may last have moved to another topology domain.

    A spare that was created earlier may be in the old domain. If each Job has a domain of its own, the pods of the Job
    with the same index moved when that Job was created. If all Jobs share a domain, their pods moved when the oldest
    Job was created. They did not move if some of these Jobs have completed, since a restart of the whole set would have
    created these Jobs again.
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
    return dict.fromkeys(indexes, min(created.values(), default=_BEFORE_ALL_JOBS)) if is_shared else {}


def _creation_order(job: Job) -> _CreationOrder:
    meta = job.metadata
    return integer(meta.labels.get(keys.RESTART_ATTEMPT)) or 0, meta.creation_timestamp or ""
