"""Placeholders beside a set that runs with fewer Jobs than wanted. See docs/concepts/elastic.md.

Only the step `grow_back` sees them. They need no calls of this program: kube-scheduler binds them when there is room
again, and the status of their Jobs shows it.
"""

import dataclasses

import msgspec

from api import elastic
from api.features import FeatureGates
from api.layout import JobRange, Layout
from api.placeholders import as_placeholder, placeholders_of
from controllers.planning.context import Context
from controllers.planning.job_bodies import job_body
from controllers.planning.observed import Observed
from kube.model.meta import JSON


def set_apart(observed: Observed, gates: FeatureGates) -> Observed:
    """The observation with placeholders in a field of their own; the same object if there are none."""
    js = observed.jobset
    found = placeholders_of(js, observed.jobs) if gates[elastic.GATE] else ()
    if not found:
        return observed
    names, leftovers = {job.metadata.name for job in found}, observed.leftovers
    return dataclasses.replace(
        observed,
        jobs=tuple(job for job in observed.jobs if job.metadata.name not in names),
        placeholders=found,
        leftovers=None if leftovers is None else leftovers - names,
    )


def placeholder_body(ctx: Context, layout: Layout, jobs: JobRange, index: int) -> JSON:
    """The placeholder of a Job. `layout`, `jobs`: of the set with all its Jobs."""
    js = ctx.observed.jobset
    status = msgspec.structs.replace(js.status, restarts=js.status.restarts - 1)
    before = dataclasses.replace(ctx, js=msgspec.structs.replace(js, status=status), layout=layout)
    return as_placeholder(job_body(before, jobs, index))
