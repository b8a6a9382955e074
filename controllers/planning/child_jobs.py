"""Sorts the child Jobs of a JobSet by attempt and outcome. The steps of a plan decide about these sorted Jobs.

See docs/reference/lifecycle.md#sorting-of-jobs. An attempt is the time between two restarts of the set. A label of each
Job says to which attempt the Job belongs.

A Job that completed in the current attempt stays completed even if its object is deleted, since the status records its
job index (`completedIndexes`). Until the status records it, the deleted Job is sorted together with the existing Jobs.
These departed Jobs are kept by the watch (defect 17 in docs/reference/defects.md).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

import msgspec

from api import keys
from api.batch import Job, is_job_ready
from api.features import FeatureGates
from api.indexes import Indexes, parse_indexes
from api.jobset import JobSet, ReplicatedJob
from api.layout import JobRange, Layout, layout_of
from api.names import job_name_prefix
from kube.model.meta import Condition

_MAX_DIGITS = 18
_GO_INTEGER = re.compile(rf"[+-]?[0-9]{{1,{_MAX_DIGITS}}}", re.ASCII)


class Child(msgspec.Struct, frozen=True):
    """A child Job, its ReplicatedJob, its index within the ReplicatedJob, and its index within the set.

    `was_deleted`: the object was deleted after the Job had finished or was bound to fail (condition FailureTarget).
    """

    job: Job
    replicated_job: str
    job_index: int
    global_index: int
    was_deleted: bool = False

    @property
    def name(self) -> str:
        return self.job.metadata.name

    @property
    def deleting(self) -> bool:
        return self.was_deleted or self.job.metadata.deletion_timestamp is not None

    @property
    def may_run(self) -> bool:
        """Whether the Job is neither suspended nor being deleted."""
        return not (self.job.spec.suspend or self.deleting)


def as_failed(child: Child, reason: str, message: str, now: str) -> Child:
    """A copy of the Job that has the condition Failed. The Job counts as failed before the Job controller says so."""
    failure = Condition(type=keys.JOB_FAILED, status="True", reason=reason, message=message, last_transition_time=now)
    other_conditions = (condition for condition in child.job.status.conditions if condition.type != keys.JOB_FAILED)
    status = msgspec.structs.replace(child.job.status, conditions=(*other_conditions, failure))
    return msgspec.structs.replace(child, job=msgspec.structs.replace(child.job, status=status))


class Tally(NamedTuple):
    """Counts of the active Jobs of one ReplicatedJob, which are those that have neither completed nor failed.

    - `ready`: Jobs of which all pods that may run at the same time are ready or have succeeded. `with_pods`: Jobs with
      at least one pod.
    - `suspended`: Jobs with `spec.suspend`. `suspended_ready`: suspended Jobs whose pods are still ready, but will end.
    - `running`: Jobs that are not suspended. `started`: running Jobs that have a pod or are ready.
    - `queued`: Jobs that wait for the Job controller, which has not looked at them since their creation or resume.
    """

    ready: int = 0
    with_pods: int = 0
    suspended: int = 0
    suspended_ready: int = 0
    started: int = 0
    running: int = 0
    queued: int = 0


NO_JOBS = Tally()


def tally_of(child: Child) -> Tally:
    """The counts of one active Job."""
    job = child.job
    ready, with_pods, suspended = is_job_ready(job), job.status.active > 0, job.spec.suspend
    return Tally(
        ready,
        with_pods,
        suspended,
        suspended and ready,
        not suspended and (with_pods or ready),
        not suspended,
        job.awaits_job_controller and not child.deleting,
    )


def tally(children: Iterable[Child]) -> Mapping[str, Tally]:
    """The counts of these Jobs by ReplicatedJob.

    Most Jobs of a ReplicatedJob have the same counts, so equal counts are multiplied, which saves time.
    """
    numbers_of_jobs: dict[tuple[str, Tally], int] = {}
    for child in children:
        key = child.replicated_job, tally_of(child)
        numbers_of_jobs[key] = numbers_of_jobs.get(key, 0) + 1
    sums: dict[str, Tally] = {}
    for (name, job_tally), number in numbers_of_jobs.items():
        pairs = zip(sums.get(name, NO_JOBS), job_tally, strict=True)
        sums[name] = Tally(*[total + number * count for total, count in pairs])
    return sums


def replace_counts(counts: Tally, old: Tally, new: Tally) -> Tally:
    """`counts` of a ReplicatedJob after the counts of one of its Jobs have changed from `old` to `new`."""
    triples = zip(counts, old, new, strict=True)
    return Tally(*(count - old_count + new_count for count, old_count, new_count in triples))


@dataclass(frozen=True, slots=True)
class ChildJobs:
    """Child Jobs by state, each tuple by ascending global index.

    - `active`, `failed`: Jobs of the current attempt. With failOn FailureTarget, a Job that is bound to fail counts as
      failed. `completed`: by ReplicatedJob, the indexes of completed Jobs, whether they exist or the status records
      them.
    - `previous`: Jobs of an earlier attempt. `surplus`: Jobs with an index that the spec no longer has.
    - `redundant`: unfinished Jobs whose index has completed. A process created them that did not know of the completed
      Job.
    - `unrecognized`: Jobs that the set owns, with labels that cannot be parsed or that do not fit the name. They are
      left alone while the set runs, so that one bad object cannot stop the rest.
    - `existing`: by ReplicatedJob, the indexes whose Job names are in use by Jobs of this set. `fully_existing`: the
      ReplicatedJobs of which all Jobs exist.
    - `unrecorded`: completed Jobs that are being deleted or are gone, and that the status does not record yet.
    - `newer`: Jobs of a later attempt than that of the status. The cache of JobSets is then behind the cache of Jobs.
    - `tallies`: counts of the active Jobs by ReplicatedJob, without ReplicatedJobs that have no active Jobs.
    """

    active: tuple[Child, ...]
    failed: tuple[Child, ...]
    completed: Mapping[str, Indexes]
    previous: tuple[Child, ...]
    surplus: tuple[Child, ...]
    redundant: tuple[Child, ...]
    unrecognized: tuple[Job, ...]
    existing: Mapping[str, set[int]]
    fully_existing: frozenset[str]
    unrecorded: tuple[Job, ...]
    newer: tuple[Job, ...]
    tallies: Mapping[str, Tally]

    def tally(self, name: str) -> Tally:
        """The counts of the active Jobs of one ReplicatedJob."""
        return self.tallies.get(name, NO_JOBS)

    def missing_indexes(self, rjob: ReplicatedJob) -> Iterator[int]:
        """The indexes of a ReplicatedJob whose Jobs neither exist nor have completed."""
        existing = self.existing[rjob.name]
        return (index for index in self.completed[rjob.name].missing(rjob.replicas) if index not in existing)

    def lack_jobs(self, rjob: ReplicatedJob) -> bool:
        """Whether a Job of a ReplicatedJob neither exists nor has completed."""
        return rjob.name not in self.fully_existing and next(self.missing_indexes(rjob), None) is not None


def integer(text: str | None) -> int | None:
    """The decimal value of a label; None if the label is not an optional sign and ASCII digits."""
    if text is not None and len(text) <= _MAX_DIGITS and text.isdigit() and text.isascii():
        return int(text)  # the usual case, three times as fast
    return int(text) if text is not None and _GO_INTEGER.fullmatch(text) else None


@dataclass(slots=True)
class _JobGroup:
    """One ReplicatedJob while its Jobs are sorted.

    - `jobs`: the global indexes of its Jobs. `prefix`: the names of its Jobs without the index.
    - `recorded`: completed indexes that the status records. `completed`: completed indexes that it does not record.
    - `restarts`: how often each Job was restarted alone, by job index (gate RestartJob).
    - `existing`: indexes whose Job names are in use by Jobs of this set.
    """

    jobs: JobRange
    prefix: str
    replicas: int
    recorded: Indexes
    has_recorded: bool
    restarts: tuple[int, ...]
    completed: set[int] = field(default_factory=set)
    existing: set[int] = field(default_factory=set)


def all_exist(indexes: set[int], replicas: int) -> bool:
    """Whether `indexes` has all job indexes of a ReplicatedJob with so many replicas."""
    return len(indexes) >= replicas and indexes.issuperset(range(replicas))


child_order = attrgetter("global_index", "replicated_job")
"""The sort key of children. A surplus Job may have the same global index as a Job of another ReplicatedJob."""


def fails_when_doomed(js: JobSet) -> bool:
    """Whether a Job counts as failed as soon as it is bound to fail (doomed), with the condition FailureTarget."""
    return js.spec.failure_policy is not None and js.spec.failure_policy.fail_on == "FailureTarget"


def sort_jobs(
    js: JobSet, jobs: Iterable[Job], layout: Layout, gates: FeatureGates, departed: Iterable[Job] = ()
) -> ChildJobs:
    """Sort the Jobs of `js`: those that exist (`jobs`) and those that were deleted (`departed`).

    The labels of a Job give its attempt and its indexes, and its conditions give its outcome.
    """
    sorting = _Sorting(js, layout, gates)
    # Departed Jobs first: if one of them has completed, a Job that exists at its index is redundant.
    for job in departed:
        sorting.add(job, was_deleted=True)
    for job in jobs:
        sorting.add(job, was_deleted=False)
    return sorting.result()


class _Sorting:
    """One pass over the Jobs of one set."""

    def __init__(self, js: JobSet, layout: Layout, gates: FeatureGates) -> None:
        stored = {s.name: s for s in js.status.replicated_jobs_status}
        self._attempt = js.status.restarts
        self._elastic = gates["ElasticJobSet"]
        self._restart_job = gates["RestartJob"]
        self._doomed_job_fails = fails_when_doomed(js)
        self._groups: dict[str, _JobGroup] = {}
        for jobs in layout.ranges:
            rjob = jobs.replicated_job
            status = stored.get(rjob.name)
            self._groups[rjob.name] = _JobGroup(
                jobs=jobs,
                prefix=job_name_prefix(js.metadata.name, rjob.name),
                replicas=rjob.replicas,
                recorded=parse_indexes(status.completed_indexes, rjob.replicas) if status else Indexes(),
                has_recorded=status is not None and bool(status.completed_indexes),
                restarts=status.job_restarts if status and gates["RestartJob"] else (),
            )
        self._active: list[Child] = []
        self._failed: list[Child] = []
        self._previous: list[Child] = []
        self._surplus: list[Child] = []
        self._redundant: list[Child] = []
        self._unrecognized: list[Job] = []
        self._unrecorded: list[Job] = []
        self._newer: list[Job] = []

    def add(self, job: Job, *, was_deleted: bool) -> None:
        """Add one Job to the list to which it belongs."""
        labels = job.metadata.labels
        attempt = integer(labels.get(keys.RESTART_ATTEMPT))
        if attempt is not None and attempt < self._attempt:
            self._add_previous(job, was_deleted)
            return
        group = self._groups.get(labels.get(keys.REPLICATED_JOB_NAME, ""))
        index = integer(labels.get(keys.JOB_INDEX, ""))
        if group is None or index is None or attempt is None or f"{group.prefix}{index}" != job.metadata.name:
            if not was_deleted:
                self._unrecognized.append(job)
            return
        child = Child(job, group.jobs.replicated_job.name, index, group.jobs.global_offset + index, was_deleted)
        if index < group.replicas:
            self._add_current(group, child, job, is_newer=attempt > self._attempt)
        elif not was_deleted:
            self._surplus.append(child) if self._elastic else self._unrecognized.append(job)

    def _add_previous(self, job: Job, was_deleted: bool) -> None:
        if was_deleted:
            return
        name = job.metadata.labels.get(keys.REPLICATED_JOB_NAME, "")
        group, index = self._groups.get(name), integer(job.metadata.labels.get(keys.JOB_INDEX, ""))
        if group is None or index is None or f"{group.prefix}{index}" != job.metadata.name:
            self._previous.append(Child(job, name, -1, -1))
            return
        group.existing.add(index)
        self._previous.append(Child(job, name, index, group.jobs.global_offset + index))

    def _add_current(self, group: _JobGroup, child: Child, job: Job, *, is_newer: bool) -> None:
        """Sort a Job with an index of the spec. `is_newer`: the Job is of a later attempt than that of the status.

        The completed indexes in the status are then those of an earlier attempt, and say nothing about this Job.
        """
        index = child.job_index
        if not child.was_deleted:
            group.existing.add(index)
        if self._restart_job:
            # A Job without the label was created while the gate was off, and was never restarted alone.
            labeled_restarts = integer(job.metadata.labels.get(keys.JOB_RESTART_ATTEMPT)) or 0
            stored_restarts = restarts_of_job(group.restarts, index)
            if labeled_restarts < stored_restarts:
                if not child.was_deleted:
                    self._previous.append(child)
                return
            is_newer |= labeled_restarts > stored_restarts
        if is_newer and not child.was_deleted:
            self._newer.append(job)
        is_recorded = group.has_recorded and index in group.recorded
        is_completed = is_recorded or index in group.completed
        outcome = "Complete" if is_completed and not is_newer else self._outcome(job)
        if outcome is None:
            self._active.append(child)
        elif outcome == "Failed":
            self._failed.append(child)
        else:
            self._add_completed(group, child, job, is_recorded=is_recorded)

    def _add_completed(self, group: _JobGroup, child: Child, job: Job, *, is_recorded: bool) -> None:
        if job.outcome is None:
            self._redundant.append(child)
        if not is_recorded:
            group.completed.add(child.job_index)
            if child.deleting:
                self._unrecorded.append(job)

    def _outcome(self, job: Job) -> str | None:
        """`Complete` or `Failed`; None while the Job has not ended."""
        if not job.status.conditions:
            return None  # most Jobs
        return job.outcome or (keys.JOB_FAILED if self._doomed_job_fails and job.is_failing else None)

    def result(self) -> ChildJobs:
        for children in (self._active, self._failed, self._previous, self._surplus, self._redundant):
            children.sort(key=child_order)
        return ChildJobs(
            active=tuple(self._active),
            failed=tuple(self._failed),
            completed={name: group.recorded.union(group.completed) for name, group in self._groups.items()},
            previous=tuple(self._previous),
            surplus=tuple(self._surplus),
            redundant=tuple(self._redundant),
            unrecognized=tuple(sorted(self._unrecognized, key=lambda job: job.metadata.name)),
            existing={name: group.existing for name, group in self._groups.items()},
            fully_existing=frozenset(
                name for name, group in self._groups.items() if all_exist(group.existing, group.replicas)
            ),
            unrecorded=tuple(self._unrecorded),
            newer=tuple(self._newer),
            tallies=tally(self._active),
        )


def restarts_of_job(restarts: tuple[int, ...], index: int) -> int:
    """How often the Job with this index was restarted alone (gate RestartJob)."""
    return restarts[index] if index < len(restarts) else 0


def unrecorded_jobs(js: JobSet, departed: Iterable[Job], gates: FeatureGates) -> tuple[Job, ...]:
    """The Jobs of `departed` whose end the status does not record yet."""
    children = sort_jobs(js, (), layout_of(js), gates, departed)
    return (*children.unrecorded, *(child.job for child in children.failed))
