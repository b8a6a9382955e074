"""Sorts the Jobs of a large set again when a few of them have changed, without a look at the others.

`SortedJobs.sort` gives what `child_jobs.sort_jobs` gives. In a set that runs, nearly all changes are pods of an active
Job that start, become ready or succeed: the Job stays active, in its place. After another change all are sorted again.
"""

import dataclasses
from collections.abc import Hashable

from msgspec.structs import replace

from api.batch import Job
from api.features import FeatureGates
from api.jobset import JobSet
from api.layout import Layout
from controllers.planning.child_jobs import ChildJobs, fails_when_doomed, sort_jobs
from controllers.planning.tally import changed, of_one


class SortedJobs:
    """The Jobs of one JobSet as they were sorted last. Objects are compared by identity: caches never change one."""

    def __init__(self) -> None:
        self._circumstances: Hashable = None
        self._jobs: tuple[Job, ...] = ()
        self._ids: set[int] = set()
        self._places: dict[str, int] = {}
        self._sorted: ChildJobs | None = None

    def sort(
        self, js: JobSet, jobs: tuple[Job, ...], layout: Layout, gates: FeatureGates, departed: tuple[Job, ...] = ()
    ) -> ChildJobs:
        """What `sort_jobs` gives."""
        ids, circumstances = set(map(id, jobs)), _circumstances(js, gates)
        known = self._sorted if circumstances == self._circumstances and not departed else None
        found = known and self._updated(known, js, jobs, ids)
        if found is None:
            found = sort_jobs(js, jobs, layout, gates, departed)
            self._places = {child.job.metadata.uid: place for place, child in enumerate(found.active)}
        # A departed Job is not among `jobs`, and what follows from it may be over with the next plan.
        self._sorted, self._circumstances = None if departed else found, circumstances
        self._jobs, self._ids = jobs, ids
        return found

    def _updated(self, known: ChildJobs, js: JobSet, jobs: tuple[Job, ...], ids: set[int]) -> ChildJobs | None:
        """With Jobs that have changed and stayed in their places; None if anything else has happened."""
        new = ids - self._ids
        if len(ids) != len(self._ids) or known.newer:
            return None
        active, tallies = list(known.active), dict(known.tallies)
        places: set[int] = set()
        for job in _of(jobs, new):
            place = self._places.get(job.metadata.uid)
            if place is None or place in places or not _stays_active(js, active[place].job, job):
                return None
            places.add(place)
            before, after = active[place], replace(active[place], job=job)
            active[place] = after
            name = before.replicated_job
            tallies[name] = changed(tallies[name], of_one(before), of_one(after))
        return dataclasses.replace(known, active=tuple(active), tallies=tallies) if places else known


def _circumstances(js: JobSet, gates: FeatureGates) -> Hashable:
    """Everything but the Jobs on which it depends how they are sorted."""
    return (
        js.metadata.name,
        js.status.restarts,
        fails_when_doomed(js),
        tuple((rjob.name, rjob.replicas) for rjob in js.spec.replicated_jobs),
        tuple((entry.name, entry.completed_indexes, entry.job_restarts) for entry in js.status.replicated_jobs_status),
        gates["ElasticJobSet"],
        gates["RestartJob"],
    )


def _of(jobs: tuple[Job, ...], ids: set[int]) -> list[Job]:
    """Those of these identities. The index by owner has the last that changed at the end."""
    found: list[Job] = []
    for job in reversed(jobs):
        if len(found) == len(ids):
            break
        if id(job) in ids:
            found.append(job)
    return found


def _stays_active(js: JobSet, old: Job, new: Job) -> bool:
    """Whether a Job that was active is so still, with the same indexes and attempt."""
    ended = new.finished is not None or (new.doomed and fails_when_doomed(js))
    return not ended and new.metadata.labels == old.metadata.labels and new.metadata.name == old.metadata.name
