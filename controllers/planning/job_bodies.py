"""Builds the bodies of child Jobs that a plan creates or resumes (docs/reference/names-and-labels.md#jobs).

A body comes from the template of the ReplicatedJob. Features of the set add fields to it: the scheduling group, nodes
to avoid, spares and priority. Spares are Jobs that hold nodes for pods that lose their nodes.
"""

from api import keys
from api.avoided_nodes import nodes_to_avoid, with_avoided_nodes
from api.children import Counters, build_job, job_in_group, with_pod_label, with_priority
from api.layout import JobRange
from api.spares import GATE as SPARES
from api.spares import with_domain_affinity
from controllers.planning.child_jobs import restarts_of_job
from controllers.planning.context import Context
from controllers.planning.failed_nodes import avoid_policy
from kube.model.meta import JSON


def job_body(ctx: Context, jobs: JobRange, index: int, restarts: int | None = None) -> JSON:
    """The body of the Job with this index, as it would be created now.

    `jobs`: the ReplicatedJob and its indexes. `restarts`: how often the Job was restarted alone, from the label of an
    existing Job; None to use the number in the status.
    """
    job_restarts = ctx.job_restarts.get(jobs.replicated_job.name, ())
    if restarts is None and job_restarts:  # the status has no such numbers before the first restart of a single Job
        restarts = restarts_of_job(job_restarts, index)
    job = build_job(
        ctx.js,
        ctx.layout,
        jobs,
        jobs.position(ctx.js.metadata.name, index),
        gates=ctx.gates,
        counters=Counters(restarts, ctx.status.execution_attempts),
    )
    if (pod_group := ctx.groups.group_of(job["metadata"]["name"])) is not None:
        job = job_in_group(job, pod_group.template, pod_group.name)
    if ctx.js.status.failed_nodes and avoid_policy(ctx) is not None:
        job = with_avoided_nodes(job, nodes_to_avoid(ctx.js, ctx.now))
    if ctx.observed.spares and ctx.gates[SPARES]:
        # Spares, and the pods for which they hold nodes, have the same value of this label.
        served_name = jobs.replicated_job.spare_for or jobs.replicated_job.name
        if any(spares.rjob.spare_for == served_name for spares in ctx.observed.spares):
            job = with_pod_label(job, keys.SPARES, served_name)
        if jobs.replicated_job.spare_for:
            job = with_domain_affinity(job, ctx.js, served_name)
    return job if ctx.observed.priorities is None else with_priority(job, ctx.observed.priorities)
