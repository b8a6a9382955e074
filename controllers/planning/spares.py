"""Spares beside the set that runs. See docs/concepts/spares.md.

All steps except those about spares plan for a JobSet without them. So spares cannot delay anything: neither the end of
the set nor a restart, a stage or a count.
"""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from api import keys
from api.batch import Job, job_ready
from api.indexes import Indexes
from api.jobset import JobSet, ReplicatedJob
from api.jobset_status import JobSetStatus, ReplicatedJobStatus, SpareStatus
from api.names import job_name_prefix
from api.spares import running_part, spares_of
from controllers.planning.actions import DeleteJob
from controllers.planning.child_jobs import ChildJobs, integer
from controllers.planning.observed import Observed, Spares


def set_apart(observed: Observed) -> Observed:
    """The observation with spares in a field of their own; the same object if the set has none."""
    for rjob in observed.jobset.spec.replicated_jobs:  # a loop for speed: every plan runs this
        if rjob.spare_for:
            return _with_spares_apart(observed)
    return observed


def _with_spares_apart(observed: Observed) -> Observed:
    js = running_part(observed.jobset)
    groups = spares_of(observed.jobset)
    names = {group.name for group in groups}
    jobs: dict[str, list[Job]] = {name: [] for name in names}
    for job in observed.jobs:
        jobs.get(_group(job), []).append(job)
    return replace(
        observed,
        jobset=js,
        jobs=tuple(job for job in observed.jobs if _group(job) not in names),
        departed=tuple(job for job in observed.departed if _group(job) not in names),
        spares=tuple(Spares(group, tuple(jobs[group.name])) for group in groups),
    )


def by_index(js_name: str, spares: Spares) -> dict[int, Job]:
    """Its Jobs by index. Jobs whose label or name does not belong to the group are left out."""
    prefix = job_name_prefix(js_name, spares.group.name)
    found = ((integer(job.metadata.labels.get(keys.JOB_INDEX)), job) for job in spares.jobs)
    return {index: job for index, job in found if index is not None and job.metadata.name == f"{prefix}{index}"}


def wanted_indexes(js: JobSet, children: ChildJobs, group: ReplicatedJob) -> Indexes:
    """Indexes of the Jobs that a group of spares has while the set runs. `js`: with as many Jobs as it has now.

    Where only the pods of one Job share a domain, those of the Jobs that run: no other Job can use the place.
    """
    scheduling, name = js.spec.scheduling, group.spare_for
    if scheduling is None or not scheduling.job_topology(name):
        return Indexes([(0, group.replicas)])
    running = next((rjob.replicas for rjob in js.spec.replicated_jobs if rjob.name == name), 0)
    return Indexes.from_iterable(children.completed.get(name, Indexes()).missing(min(group.replicas, running)))


def spare_counts(observed: Observed, js: JobSet, children: ChildJobs) -> tuple[SpareStatus, ...]:
    """The numbers of the status. A suspended set has no spares, and misses none. `js`: as in `wanted_indexes`."""
    entries, stored = [], {entry.name: entry for entry in js.status.spares}
    is_over = js.spec.suspend or bool(js.status.terminal_state)
    for spares in observed.spares:
        name, indexes = spares.group.name, Indexes() if is_over else wanted_indexes(js, children, spares.group)
        ready = sum(index in indexes and holds_room(job) for index, job in by_index(js.metadata.name, spares).items())
        before = stored.get(name, SpareStatus(name=name))
        promised, missing = () if is_over else before.promised_to, len(indexes) - ready
        entries.append(SpareStatus(name=name, ready=ready, missing=missing, used=before.used, promised_to=promised))
    return tuple(entries)


def with_entries(status: JobSetStatus, js: JobSet, all_spares: Iterable[Spares]) -> JobSetStatus:
    """Adds an entry for each group of spares to a status that is about to be written; it is not a reason to write one.

    A queue that waits for all pods of a set (Kueue's `waitForPodsReady`) sums the ready and succeeded Jobs of all
    entries. So spares that the running set does not want count as succeeded; the queue also takes back their quota.
    """
    is_over = js.spec.suspend or bool(status.terminal_state)
    replicas = {} if is_over else {spares.group.name: spares.group.replicas for spares in all_spares}
    entries = (
        ReplicatedJobStatus(
            name=e.name,
            ready=e.ready,
            active=e.ready,
            succeeded=max(replicas.get(e.name, 0) - e.ready - e.missing, 0),
            failed=0,
            suspended=0,
        )
        for e in status.spares
    )
    in_order = sorted((*status.replicated_jobs_status, *entries), key=lambda entry: entry.name, reverse=True)
    return msgspec.structs.replace(status, replicated_jobs_status=tuple(in_order))


def deletions(jobs: Iterable[Job]) -> list[DeleteJob]:
    """Delete the Jobs that are not being deleted yet."""
    not_deleting = (job.metadata for job in jobs if job.metadata.deletion_timestamp is None)
    return [DeleteJob(meta.name, meta.uid) for meta in not_deleting]


def holds_room(job: Job) -> bool:
    """Whether all pods of a spare or placeholder run: there is room for those of the Job, and its images are there."""
    return job_ready(job) and job.outcome is None and job.metadata.deletion_timestamp is None


def _group(job: Job) -> str:
    return job.metadata.labels.get(keys.REPLICATED_JOB_NAME, "")
