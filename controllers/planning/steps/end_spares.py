"""Step: delete spares of a set that has ended or is suspended, and spares that are not wanted (gate JobSetSpares).

See docs/concepts/spares.md. A spare is a Job that does no work: its pods hold nodes for pods of another ReplicatedJob
that lose their nodes.
"""

from api.batch import Job
from api.spares import GATE
from controllers.planning.actions import deletions
from controllers.planning.context import Context
from controllers.planning.finished import has_finished
from controllers.planning.observed import Spares
from controllers.planning.partial import Partial, draft_result
from controllers.planning.spares import jobs_by_index, wanted_indexes


def end_spares(ctx: Context) -> Partial:
    """Delete all spares of a set that does not run; of a running set, only spares that are not wanted."""
    draft, jobs = ctx.draft(), [job for spares in ctx.observed.spares for job in spares.jobs]
    if not ctx.gates[GATE]:
        draft.warn_of_gate("spec.replicatedJobs[].spareFor", GATE)
    elif not (has_finished(ctx.js) or ctx.js.spec.suspend):
        jobs = [job for spares in ctx.observed.spares for job in _unwanted_jobs(ctx, spares)]
    return draft_result(draft, *deletions(jobs))


def _unwanted_jobs(ctx: Context, spares: Spares) -> list[Job]:
    """The spares whose job index is not wanted, or whose index label does not fit the name."""
    jobs = jobs_by_index(ctx.js.metadata.name, spares)
    indexes = wanted_indexes(ctx.js, ctx.children, spares.rjob)
    wanted_uids = {job.metadata.uid for index, job in jobs.items() if index in indexes}
    return [job for job in spares.jobs if job.metadata.uid not in wanted_uids]
