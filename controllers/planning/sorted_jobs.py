"""Sorts the Jobs of a large set again when some of them have changed, without a look at the others.

`SortedJobs.sort` gives what `child_jobs.sort_jobs` gives. Where a Job belongs depends on that Job and the JobSet alone,
so what the Jobs that changed or are gone were counted for is taken out, and what they are now is put in. That holds for
nearly all changes: Jobs that are created, pods that start and end, Jobs of an old attempt that are deleted. After
another change all are sorted again.
"""

import dataclasses
from bisect import bisect_left, insort
from collections.abc import Hashable, Mapping

from api.batch import Job
from api.features import FeatureGates
from api.indexes import Indexes
from api.jobset import JobSet
from api.layout import Layout
from controllers.planning.child_jobs import Child, ChildJobs, all_exist, by_index, fails_when_doomed, sort_jobs
from controllers.planning.tally import NONE, Tally, changed


class SortedJobs:
    """The Jobs of one JobSet as they were sorted last. Objects are compared by identity: caches never change one."""

    def __init__(self) -> None:
        self._circumstances: Hashable = None
        self._jobs: dict[int, Job] = {}
        self._sorted: ChildJobs | None = None

    def sort(
        self, js: JobSet, jobs: tuple[Job, ...], layout: Layout, gates: FeatureGates, departed: tuple[Job, ...] = ()
    ) -> ChildJobs:
        """What `sort_jobs` gives."""
        ids, circumstances = set(map(id, jobs)), _circumstances(js, gates)
        gone, new = self._jobs.keys() - ids, ids - self._jobs.keys()
        before, after = [self._jobs[old] for old in gone], _of(jobs, new)
        found = known = self._sorted if circumstances == self._circumstances and not departed else None
        if known is not None and len(before) + len(after) > len(jobs):
            found = None
        elif known is not None and (before or after):
            was, is_now = sort_jobs(js, before, layout, gates), sort_jobs(js, after, layout, gates)
            found = _exchanged(known, was, is_now, layout)
        if found is None:
            found = sort_jobs(js, jobs, layout, gates, departed)
        # A departed Job is not among `jobs`, and what follows from it may be over with the next plan.
        self._sorted, self._circumstances = None if departed else found, circumstances
        for old in gone:
            del self._jobs[old]
        self._jobs.update((id(job), job) for job in after)
        return found


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


def _exchanged(known: ChildJobs, before: ChildJobs, after: ChildJobs, layout: Layout) -> ChildJobs | None:
    """`known` with some Jobs as in `after` instead of as in `before`; None where that is not what sorting all gives."""
    if _unplaced(before) or _unplaced(after):
        return None
    completed = _completed(known, before, after)
    if completed is None:
        return None
    existing = _existing(known, before, after)
    return dataclasses.replace(
        known,
        active=_moved(known.active, before.active, after.active),
        failed=_moved(known.failed, before.failed, after.failed),
        previous=_moved(known.previous, before.previous, after.previous),
        surplus=_moved(known.surplus, before.surplus, after.surplus),
        redundant=_moved(known.redundant, before.redundant, after.redundant),
        completed=completed,
        existing=existing,
        whole=known.whole if existing is known.existing else _whole(existing, layout),
        tallies=_counted(known.tallies, before.tallies, after.tallies),
    )


def _unplaced(children: ChildJobs) -> bool:
    """Whether there are Jobs without an index, in an order of their own, or that tell of a JobSet that is not known."""
    without_index = any(child.global_index < 0 for child in children.previous)
    return bool(without_index or children.unrecognized or children.unrecorded or children.newer)


def _moved(known: tuple[Child, ...], before: tuple[Child, ...], after: tuple[Child, ...]) -> tuple[Child, ...]:
    """The children without some and with others, in their order."""
    if not before and not after:
        return known
    children = list(known)
    for child in before:
        del children[bisect_left(children, by_index(child), key=by_index)]
    for child in after:
        insort(children, child, key=by_index)
    return tuple(children)


def _completed(known: ChildJobs, before: ChildJobs, after: ChildJobs) -> Mapping[str, Indexes] | None:
    """The completed indexes by ReplicatedJob; None if one of them may not be completed any more."""
    found = dict(known.completed)
    for name, completed in after.completed.items():
        if any(index in before.completed[name] and index not in completed for index in before.existing[name]):
            return None
        found[name] = found[name].also(index for index in after.existing[name] if index in completed)
    return found


def _existing(known: ChildJobs, before: ChildJobs, after: ChildJobs) -> Mapping[str, set[int]]:
    """The indexes in use by ReplicatedJob."""
    changed_ones = {
        name: (known.existing[name] - before.existing[name]) | indexes
        for name, indexes in after.existing.items()
        if indexes != before.existing[name]
    }
    return {**known.existing, **changed_ones} if changed_ones else known.existing


def _whole(existing: Mapping[str, set[int]], layout: Layout) -> frozenset[str]:
    """The ReplicatedJobs of which every Job exists."""
    jobs = (each.replicated_job for each in layout.ranges)
    return frozenset(job.name for job in jobs if all_exist(existing[job.name], job.replicas))


def _counted(
    known: Mapping[str, Tally], before: Mapping[str, Tally], after: Mapping[str, Tally]
) -> Mapping[str, Tally]:
    """The counts, without those of ReplicatedJobs that have no active Job."""
    names = before.keys() | after.keys()
    new = {name: changed(known.get(name, NONE), before.get(name, NONE), after.get(name, NONE)) for name in names}
    return {name: counts for name, counts in {**known, **new}.items() if counts.running + counts.suspended}
