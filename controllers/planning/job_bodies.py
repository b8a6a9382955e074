"""Builds the bodies of child Jobs that a plan creates or resumes (docs/reference/names-and-labels.md#jobs)."""

from api import keys
from api.avoided_nodes import nodes_to_avoid, with_avoided_nodes
from api.children import Counters, build_job, job_in_group, with_pod_label, with_priority
from api.layout import JobRange
from api.spares import GATE as SPARES
from api.spares import with_domain_affinity
from controllers.planning.context import Context
from controllers.planning.failed_nodes import avoid_policy
from kube.model.meta import JSON


def job_body(ctx: Context, jobs: JobRange, index: int, attempt: int | None = None) -> JSON:
    """The wanted body of the Job with this index. `attempt`: the Job's own restart counter, if the Job exists."""
    if attempt is None:
        restarts = ctx.job_restarts.get(jobs.replicated_job.name, ())
        if restarts:  # a Job without the label counts as never restarted
            attempt = restarts[index] if index < len(restarts) else 0
    job = build_job(
        ctx.js,
        ctx.layout,
        jobs,
        jobs.position(ctx.js.metadata.name, index),
        gates=ctx.gates,
        counters=Counters(attempt, ctx.status.execution_attempts),
    )
    if (pod_group := ctx.groups.group_of(job["metadata"]["name"])) is not None:
        job = job_in_group(job, pod_group.template, pod_group.name)
    if ctx.js.status.failed_nodes and avoid_policy(ctx) is not None:
        job = with_avoided_nodes(job, nodes_to_avoid(ctx.js, ctx.now))
    if ctx.observed.spares and ctx.gates[SPARES]:
        pool = jobs.replicated_job.spare_for or jobs.replicated_job.name
        if any(spares.group.spare_for == pool for spares in ctx.observed.spares):
            job = with_pod_label(job, keys.SPARES, pool)
        if jobs.replicated_job.spare_for:
            job = with_domain_affinity(job, ctx.js, pool)
    return job if ctx.observed.priorities is None else with_priority(job, ctx.observed.priorities)
