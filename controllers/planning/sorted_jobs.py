"""Keeps the Jobs of a large set sorted by state, so that a plan only reads the Jobs that have changed.

`child_jobs.sort_jobs` divides the Jobs of a set into lists by state (active, failed, of a previous attempt and so on).
`SortedJobs.sort` returns the same result as `sort_jobs`, computed from its last result. The list to which a Job belongs
depends only on that Job and the JobSet. So the entries of Jobs that changed or are gone are removed from the lists, and
entries of their current state are added. This is correct for nearly all changes: Jobs are created, pods start and end,
Jobs of an old attempt are deleted. After any other change, `sort_jobs` sorts all Jobs again.
"""

import dataclasses
from bisect import bisect_left
from collections.abc import Hashable, Mapping
from operator import itemgetter

from api.batch import Job
from api.features import FeatureGates
from api.indexes import Indexes
from api.jobset import JobSet
from api.layout import Layout
from controllers.planning.child_jobs import (
    NO_JOBS,
    Child,
    ChildJobs,
    Tally,
    all_exist,
    child_order,
    fails_when_doomed,
    replace_counts,
    sort_jobs,
)


class SortedJobs:
    """The last result of sorting the Jobs of one JobSet, and what it was computed from."""

    def __init__(self) -> None:
        self._sorting_input: Hashable = None
        self._jobs: tuple[Job, ...] = ()
        self._sorted: ChildJobs | None = None

    def sort(
        self, js: JobSet, jobs: tuple[Job, ...], layout: Layout, gates: FeatureGates, departed: tuple[Job, ...] = ()
    ) -> ChildJobs:
        """The Jobs by state, as `sort_jobs` returns them."""
        sorting_input, children = _sorting_input(js, gates), None
        if self._sorted is not None and sorting_input == self._sorting_input and not departed:
            children = self._sort_changes(self._sorted, js, jobs, layout, gates)
        if children is None:
            children = sort_jobs(js, jobs, layout, gates, departed)
        # A departed Job (deleted, but not yet recorded in the status) may not count in the next plan any more. Since it
        # is not in `jobs`, the next plan could not see the difference, so it sorts all Jobs again.
        self._sorted, self._sorting_input, self._jobs = None if departed else children, sorting_input, jobs
        return children

    def _sort_changes(
        self, last_sorted: ChildJobs, js: JobSet, jobs: tuple[Job, ...], layout: Layout, gates: FeatureGates
    ) -> ChildJobs | None:
        """`last_sorted` with the changes of Jobs since then; None if sorting all Jobs is necessary or quicker."""
        differences = _differences(self._jobs, jobs)
        if differences is None:
            return None
        removed_jobs, added_jobs = differences
        if not removed_jobs and not added_jobs:
            return last_sorted
        return _replace_jobs(
            last_sorted, sort_jobs(js, removed_jobs, layout, gates), sort_jobs(js, added_jobs, layout, gates), layout
        )


def _sorting_input(js: JobSet, gates: FeatureGates) -> Hashable:
    """Everything on which the result of sorting depends, except the Jobs."""
    return (
        js.metadata.name,
        js.status.restarts,
        fails_when_doomed(js),
        tuple((rjob.name, rjob.replicas) for rjob in js.spec.replicated_jobs),
        tuple((entry.name, entry.completed_indexes, entry.job_restarts) for entry in js.status.replicated_jobs_status),
        gates["ElasticJobSet"],
        gates["RestartJob"],
    )


def _differences(before: tuple[Job, ...], now: tuple[Job, ...]) -> tuple[list[Job], tuple[Job, ...]] | None:
    """The Jobs that are only in `before`, and the Jobs that are only in `now`.

    A changed Job is in both lists, in its old and its new state. None if many Jobs differ, or if the
    order of the unchanged Jobs is not the same.

    The cache keeps the order of unchanged Jobs, and puts changed and new Jobs at the end. So `before` and `now` are
    equal up to the first removed Job. Bisection finds this Job, and a comparison of the Jobs before it confirms it.
    """
    removed_jobs: list[Job] = []

    def has_moved(at: int) -> bool:
        return before[at] is not now[at - len(removed_jobs)]

    start = 0
    while start < len(before):
        shift = len(removed_jobs)
        end = bisect_left(range(min(len(before), len(now) + shift)), True, start, key=has_moved)
        if before[start:end] != now[start - shift : end - shift] or shift > len(now) / 2:
            return None
        removed_jobs += before[end : end + 1]
        start = end + 1
    added_jobs = now[len(before) - len(removed_jobs) :]
    return None if len(removed_jobs) + len(added_jobs) > len(now) / 2 else (removed_jobs, added_jobs)


def _replace_jobs(last_sorted: ChildJobs, removed: ChildJobs, added: ChildJobs, layout: Layout) -> ChildJobs | None:
    """`last_sorted` with the Jobs of `added` instead of `removed`; None if sorting all Jobs might differ."""
    if _has_unplaced_jobs(removed) or _has_unplaced_jobs(added):
        return None
    completed = _completed_indexes(last_sorted, removed, added)
    if completed is None:
        return None
    existing = _existing(last_sorted, removed, added)
    return dataclasses.replace(
        last_sorted,
        active=_replace_children(last_sorted.active, removed.active, added.active),
        failed=_replace_children(last_sorted.failed, removed.failed, added.failed),
        previous=_replace_children(last_sorted.previous, removed.previous, added.previous),
        surplus=_replace_children(last_sorted.surplus, removed.surplus, added.surplus),
        redundant=_replace_children(last_sorted.redundant, removed.redundant, added.redundant),
        completed=completed,
        existing=existing,
        fully_existing=last_sorted.fully_existing
        if existing is last_sorted.existing
        else _fully_existing(existing, layout),
        tallies=_recount(last_sorted.tallies, removed.tallies, added.tallies),
    )


def _has_unplaced_jobs(children: ChildJobs) -> bool:
    """Whether some Jobs are in a list that is not ordered by index, so that their entries cannot be replaced.

    These are Jobs without an index, Jobs that are not recognized or not recorded, and Jobs of an attempt that the
    status does not have yet.
    """
    without_index = any(child.global_index < 0 for child in children.previous)
    return bool(without_index or children.unrecognized or children.unrecorded or children.newer)


def _replace_children(
    last_children: tuple[Child, ...], removed: tuple[Child, ...], added: tuple[Child, ...]
) -> tuple[Child, ...]:
    """`last_children` without the Jobs in `removed` and with the Jobs in `added`, in the order of `child_order`."""
    if not removed and not added:
        return last_children
    changes = [(child_order(child), False, child) for child in removed]
    changes += [(child_order(child), True, child) for child in added]
    children: list[Child] = []
    start = 0
    for order, is_added, child in sorted(changes, key=itemgetter(0, 1)):
        position = bisect_left(last_children, order, start, key=child_order)
        children += last_children[start:position]
        children += [child] * is_added
        start = position if is_added else position + 1
    return (*children, *last_children[start:])


def _completed_indexes(last_sorted: ChildJobs, removed: ChildJobs, added: ChildJobs) -> Mapping[str, Indexes] | None:
    """The indexes of completed Jobs, by ReplicatedJob; None if a Job with a completed index may run again."""
    indexes = dict(last_sorted.completed)
    for name, completed in added.completed.items():
        if any(index in removed.completed[name] and index not in completed for index in removed.existing[name]):
            return None
        indexes[name] = indexes[name].union(index for index in added.existing[name] if index in completed)
    return indexes


def _existing(last_sorted: ChildJobs, removed: ChildJobs, added: ChildJobs) -> Mapping[str, set[int]]:
    """The indexes of existing Jobs, by ReplicatedJob."""
    changed_indexes = {
        name: (last_sorted.existing[name] - removed.existing[name]) | indexes
        for name, indexes in added.existing.items()
        if indexes != removed.existing[name]
    }
    return {**last_sorted.existing, **changed_indexes} if changed_indexes else last_sorted.existing


def _fully_existing(existing: Mapping[str, set[int]], layout: Layout) -> frozenset[str]:
    """The ReplicatedJobs of which every Job exists."""
    rjobs = (jobs.replicated_job for jobs in layout.ranges)
    return frozenset(rjob.name for rjob in rjobs if all_exist(existing[rjob.name], rjob.replicas))


def _recount(
    last_tallies: Mapping[str, Tally], removed: Mapping[str, Tally], added: Mapping[str, Tally]
) -> Mapping[str, Tally]:
    """The counts of active Jobs, by ReplicatedJob. A ReplicatedJob without active Jobs is left out."""
    names = removed.keys() | added.keys()
    new_tallies = {
        name: replace_counts(last_tallies.get(name, NO_JOBS), removed.get(name, NO_JOBS), added.get(name, NO_JOBS))
        for name in names
    }
    tallies = {**last_tallies, **new_tallies}
    return {name: counts for name, counts in tallies.items() if counts.running + counts.suspended}
