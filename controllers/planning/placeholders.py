"""Separates placeholders from the other Jobs of a set, and builds their bodies. See docs/concepts/elastic.md.

After nodes were lost, an elastic set may continue with fewer Jobs. A placeholder is an idle Job in place of one of the
missing Jobs. When there is room in the cluster again, kube-scheduler binds the pods of the placeholder, and the status
of the placeholder shows it, so this program makes no calls to find room. Only the step `grow_back` uses placeholders.
"""

import dataclasses

import msgspec

from api import elastic
from api.features import FeatureGates
from api.layout import JobRange, Layout
from api.leftovers import without_owners
from api.placeholders import as_placeholder, placeholders_of
from controllers.planning.context import Context
from controllers.planning.job_bodies import job_body
from controllers.planning.observed import Observed
from kube.model.meta import JSON


def separate_placeholders(observed: Observed, gates: FeatureGates) -> Observed:
    """The observed state with the placeholders moved from `jobs` to `placeholders`.

    Returns the same object if there are no placeholders.
    """
    js = observed.jobset
    placeholders = placeholders_of(js, observed.jobs) if gates[elastic.GATE] else ()
    if not placeholders:
        return observed
    uids, leftovers = {job.metadata.uid for job in placeholders}, observed.leftovers
    return dataclasses.replace(
        observed,
        jobs=tuple(job for job in observed.jobs if job.metadata.uid not in uids),
        placeholders=placeholders,
        leftovers=None if leftovers is None else without_owners(leftovers, uids),
    )


def placeholder_body(ctx: Context, layout: Layout, jobs: JobRange, index: int) -> JSON:
    """The body of the placeholder for the Job with this index.

    `layout`: the positions of all Jobs in the spec, including the missing Jobs. `jobs`: the range of the ReplicatedJob
    in `layout`. A placeholder is labeled with the attempt before the current one, so the next restart deletes it like
    all Jobs of earlier attempts.
    """
    js = ctx.observed.jobset
    status = msgspec.structs.replace(js.status, restarts=js.status.restarts - 1)
    previous_attempt = dataclasses.replace(ctx, js=msgspec.structs.replace(js, status=status), layout=layout)
    return as_placeholder(job_body(previous_attempt, jobs, index))
