"""Separates the spares of a JobSet from the part of the set that does the work, and counts them.

Spares are a ReplicatedJob with `spareFor`: its Jobs run idle to hold nodes for another ReplicatedJob. All steps of a
plan except the steps about spares see a JobSet without spares. So spares cannot delay the end of the set, a restart, a
stage or a count. See docs/concepts/spares.md.
"""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from api import keys
from api.batch import Job, is_job_ready
from api.indexes import Indexes
from api.jobset import JobSet, ReplicatedJob
from api.jobset_status import JobSetStatus, ReplicatedJobStatus, SpareStatus
from api.names import job_name_prefix
from api.spares import running_part, spares_of
from controllers.planning.child_jobs import ChildJobs, integer
from controllers.planning.observed import Observed, Spares


def separate_spares(observed: Observed) -> Observed:
    """The observed state with the spares moved from `jobset` and `jobs` to `spares`.

    Returns the same object if the set has no spares.
    """
    for rjob in observed.jobset.spec.replicated_jobs:  # a loop for speed: every plan runs this
        if rjob.spare_for:
            return _with_separate_spares(observed)
    return observed


def _with_separate_spares(observed: Observed) -> Observed:
    js = running_part(observed.jobset)
    spare_rjobs = spares_of(observed.jobset)
    names = {rjob.name for rjob in spare_rjobs}
    jobs: dict[str, list[Job]] = {name: [] for name in names}
    for job in observed.jobs:
        jobs.get(_replicated_job_name(job), []).append(job)
    return replace(
        observed,
        jobset=js,
        jobs=tuple(job for job in observed.jobs if _replicated_job_name(job) not in names),
        departed=tuple(job for job in observed.departed if _replicated_job_name(job) not in names),
        spares=tuple(Spares(rjob, tuple(jobs[rjob.name])) for rjob in spare_rjobs),
    )


def jobs_by_index(js_name: str, spares: Spares) -> dict[int, Job]:
    """The Jobs of one ReplicatedJob of spares by job index. A Job whose name does not have this index is left out."""
    prefix = job_name_prefix(js_name, spares.rjob.name)
    indexed = ((integer(job.metadata.labels.get(keys.JOB_INDEX)), job) for job in spares.jobs)
    return {index: job for index, job in indexed if index is not None and job.metadata.name == f"{prefix}{index}"}


def wanted_indexes(js: JobSet, children: ChildJobs, spare_rjob: ReplicatedJob) -> Indexes:
    """The indexes of the spare Jobs that a running set wants. `js`: the set with its current number of Jobs.

    If `spec.scheduling` gives each Job a topology domain of its own, a spare Job can only stand in for the Job with the
    same index. So the set then wants no spares for completed Jobs.
    """
    scheduling, name = js.spec.scheduling, spare_rjob.spare_for
    if scheduling is None or not scheduling.job_topology_keys(name):
        return Indexes([(0, spare_rjob.replicas)])
    running_replicas = next((rjob.replicas for rjob in js.spec.replicated_jobs if rjob.name == name), 0)
    return Indexes.from_iterable(
        children.completed.get(name, Indexes()).missing(min(spare_rjob.replicas, running_replicas))
    )


def spare_counts(observed: Observed, js: JobSet, children: ChildJobs) -> tuple[SpareStatus, ...]:
    """The new `status.spares`. A suspended or ended set wants no spares, so none is missing.

    `js`: as in `wanted_indexes`.
    """
    entries, stored = [], {entry.name: entry for entry in js.status.spares}
    is_over = js.spec.suspend or bool(js.status.terminal_state)
    for spares in observed.spares:
        name, indexes = spares.rjob.name, Indexes() if is_over else wanted_indexes(js, children, spares.rjob)
        jobs = jobs_by_index(js.metadata.name, spares)
        ready = sum(index in indexes and holds_room(job) for index, job in jobs.items())
        stored_entry = stored.get(name, SpareStatus(name=name))
        promised, missing = () if is_over else stored_entry.promised_to, len(indexes) - ready
        entries.append(
            SpareStatus(name=name, ready=ready, missing=missing, used=stored_entry.used, promised_to=promised)
        )
    return tuple(entries)


def with_spare_entries(status: JobSetStatus, js: JobSet, all_spares: Iterable[Spares]) -> JobSetStatus:
    """The status with an entry of `replicatedJobsStatus` for each ReplicatedJob of spares.

    The entries are added only when the status is written, since their change alone is no reason for a write.

    Kueue, when it waits for all pods of a set (`waitForPodsReady`), sums the ready and succeeded Jobs of all entries.
    So the spare Jobs that the running set does not want count as succeeded. Kueue also takes back their quota.
    """
    is_over = js.spec.suspend or bool(status.terminal_state)
    replicas = {} if is_over else {spares.rjob.name: spares.rjob.replicas for spares in all_spares}
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


def holds_room(job: Job) -> bool:
    """Whether all pods of an idle Job (a spare or a placeholder) are ready.

    A Job that gets the nodes of these pods has room on the nodes, and finds its images there.
    """
    return is_job_ready(job) and job.outcome is None and job.metadata.deletion_timestamp is None


def _replicated_job_name(job: Job) -> str:
    return job.metadata.labels.get(keys.REPLICATED_JOB_NAME, "")
