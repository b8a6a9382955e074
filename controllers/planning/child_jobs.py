"""Sorts child Jobs by attempt and outcome. All later decisions use these lists.

See docs/reference/lifecycle.md#sorting-of-jobs.

A Job that completed in this attempt stays completed, also when its object is gone: `status.completedIndexes` records
it, and until that is stored, the deleted Jobs that the watch has seen are sorted as well
(defect 17 in docs/reference/defects.md).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

import msgspec

from api import keys
from api.batch import Job, job_ready
from api.features import FeatureGates
from api.indexes import Indexes, parse_indexes
from api.jobset import JobSet
from api.layout import JobRange, Layout, layout_of
from api.names import job_name_prefix
from kube.model.meta import Condition

_DIGITS = 18
_GO_INTEGER = re.compile(rf"[+-]?[0-9]{{1,{_DIGITS}}}", re.ASCII)


class Child(msgspec.Struct, frozen=True):
    """A child Job with the indexes that its labels give it.

    `gone`: deleted after it had finished or was bound to fail.
    """

    job: Job
    replicated_job: str
    job_index: int
    global_index: int
    gone: bool = False

    @property
    def name(self) -> str:
        return self.job.metadata.name

    @property
    def deleting(self) -> bool:
        return self.gone or self.job.metadata.deletion_timestamp is not None


def as_failed(child: Child, reason: str, message: str, now: str) -> Child:
    """The Job as if it already had the condition Failed."""
    failure = Condition(type=keys.JOB_FAILED, status="True", reason=reason, message=message, last_transition_time=now)
    others = (condition for condition in child.job.status.conditions if condition.type != keys.JOB_FAILED)
    status = msgspec.structs.replace(child.job.status, conditions=(*others, failure))
    return msgspec.structs.replace(child, job=msgspec.structs.replace(child.job, status=status))


class Tally(NamedTuple):
    """Active Jobs of one ReplicatedJob.

    - `ready`: every pod that the Job wants at once is ready or has succeeded. `with_pods`: it has a pod.
    - `suspended`: `spec.suspend` is set. `halting`: those of them whose pods are still ready, but will end.
    - `there`: not suspended, with a pod or ready. `running`: not suspended.
    - `queued`: the Job controller has still to take them up.
    """

    ready: int = 0
    with_pods: int = 0
    suspended: int = 0
    halting: int = 0
    there: int = 0
    running: int = 0
    queued: int = 0


NONE = Tally()


def tally_of(child: Child) -> Tally:
    """The counts of one active Job."""
    job = child.job
    ready, with_pods, suspended = job_ready(job), job.status.active > 0, job.spec.suspend
    return Tally(
        ready,
        with_pods,
        suspended,
        suspended and ready,
        not suspended and (with_pods or ready),
        not suspended,
        job.queued and not child.deleting,
    )


def tally(children: Iterable[Child]) -> Mapping[str, Tally]:
    """The counts of these Jobs by ReplicatedJob."""
    equal_tallies: dict[tuple[str, Tally], int] = {}
    for child in children:
        key = child.replicated_job, tally_of(child)
        equal_tallies[key] = equal_tallies.get(key, 0) + 1
    found: dict[str, Tally] = {}
    for (name, part), number in equal_tallies.items():
        before = found.get(name, NONE)
        found[name] = Tally(*[count + number * more for count, more in zip(before, part, strict=True)])
    return found


def exchange(counts: Tally, old: Tally, new: Tally) -> Tally:
    """The counts after one Job has changed."""
    return Tally(*(before - was + now for before, was, now in zip(counts, old, new, strict=True)))


@dataclass(frozen=True, slots=True)
class ChildJobs:
    """Child Jobs by state, each tuple by ascending global index.

    - `active`, `failed`: of the current attempt; with failOn FailureTarget, Jobs that are bound to fail have failed.
      `completed`: indexes by ReplicatedJob, of Jobs that exist and of those that the status records.
    - `previous`: of an earlier attempt. `surplus`: with an index that the spec no longer has.
    - `redundant`: run although their index has completed: created by a process that did not know that.
    - `unrecognized`: owned, but with labels that cannot be read or that do not fit the name. They are left alone while
      the set runs, so that one bad object cannot stop the rest.
    - `existing`: indexes by ReplicatedJob whose name is in use by a Job of this set. `whole`: whether all are.
    - `unrecorded`: completed Jobs in deletion or gone that the status does not record yet.
    - `newer`: of a later attempt than the status has: the JobSet was read from a cache that is behind that of Jobs.
    - `tallies`: counts of `active`, by ReplicatedJob; only those with active Jobs.
    """

    active: tuple[Child, ...]
    failed: tuple[Child, ...]
    completed: Mapping[str, Indexes]
    previous: tuple[Child, ...]
    surplus: tuple[Child, ...]
    redundant: tuple[Child, ...]
    unrecognized: tuple[Job, ...]
    existing: Mapping[str, set[int]]
    whole: frozenset[str]
    unrecorded: tuple[Job, ...]
    newer: tuple[Job, ...]
    tallies: Mapping[str, Tally]

    def tally(self, name: str) -> Tally:
        """The counts of the active Jobs of one ReplicatedJob."""
        return self.tallies.get(name, NONE)


def integer(text: str | None) -> int | None:
    """A label's decimal value: an optional sign and ASCII digits only; anything else is None."""
    if text is not None and len(text) <= _DIGITS and text.isdigit() and text.isascii():
        return int(text)  # the usual case, three times as fast
    return int(text) if text is not None and _GO_INTEGER.fullmatch(text) else None


@dataclass(slots=True)
class _JobGroup:
    """One ReplicatedJob while its Jobs are sorted. `recorded`: completed indexes of the status; `completed`: others."""

    jobs: JobRange
    prefix: str
    replicas: int
    recorded: Indexes
    any_recorded: bool
    restarts: tuple[int, ...]
    completed: set[int] = field(default_factory=set)
    existing: set[int] = field(default_factory=set)

    @property
    def whole(self) -> bool:
        """Whether every Job exists."""
        return all_exist(self.existing, self.replicas)


def all_exist(indexes: set[int], replicas: int) -> bool:
    """Whether there is a Job for every index."""
    return len(indexes) >= replicas and indexes.issuperset(range(replicas))


by_index = attrgetter("global_index", "replicated_job")
"""The order of children. The index is not unique: a surplus Job may have that of another ReplicatedJob's Job."""


def fails_when_doomed(js: JobSet) -> bool:
    """Whether a Job counts as failed as soon as it is bound to fail."""
    return js.spec.failure_policy is not None and js.spec.failure_policy.fail_on == "FailureTarget"


def sort_jobs(
    js: JobSet, jobs: Iterable[Job], layout: Layout, gates: FeatureGates, departed: Iterable[Job] = ()
) -> ChildJobs:
    """Sort `jobs` of `js` and those that departed. Labels identify a Job; its conditions are its outcome."""
    sorting = _Sorting(js, layout, gates)
    # Departed Jobs first: if one of them has completed, a Job that exists at its index is redundant.
    for job in departed:
        sorting.add(job, gone=True)
    for job in jobs:
        sorting.add(job, gone=False)
    return sorting.result()


class _Sorting:
    """One pass over the Jobs of one set."""

    def __init__(self, js: JobSet, layout: Layout, gates: FeatureGates) -> None:
        stored = {s.name: s for s in js.status.replicated_jobs_status}
        self._attempt = js.status.restarts
        self._elastic = gates["ElasticJobSet"]
        self._restart_job = gates["RestartJob"]
        self._doomed_fail = fails_when_doomed(js)
        self._groups: dict[str, _JobGroup] = {}
        for jobs in layout.ranges:
            rjob = jobs.replicated_job
            status = stored.get(rjob.name)
            self._groups[rjob.name] = _JobGroup(
                jobs=jobs,
                prefix=job_name_prefix(js.metadata.name, rjob.name),
                replicas=rjob.replicas,
                recorded=parse_indexes(status.completed_indexes, rjob.replicas) if status else Indexes(),
                any_recorded=status is not None and bool(status.completed_indexes),
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

    def add(self, job: Job, *, gone: bool) -> None:
        labels = job.metadata.labels
        attempt = integer(labels.get(keys.RESTART_ATTEMPT))
        if attempt is not None and attempt < self._attempt:
            self._add_previous(job, gone)
            return
        group = self._groups.get(labels.get(keys.REPLICATED_JOB_NAME, ""))
        index = integer(labels.get(keys.JOB_INDEX, ""))
        if group is None or index is None or attempt is None or f"{group.prefix}{index}" != job.metadata.name:
            if not gone:
                self._unrecognized.append(job)
            return
        child = Child(job, group.jobs.replicated_job.name, index, group.jobs.global_offset + index, gone)
        if index < group.replicas:
            self._add_current(group, child, job, newer=attempt > self._attempt)
        elif not gone:
            self._surplus.append(child) if self._elastic else self._unrecognized.append(job)

    def _add_previous(self, job: Job, gone: bool) -> None:
        if gone:
            return
        name = job.metadata.labels.get(keys.REPLICATED_JOB_NAME, "")
        group, number = self._groups.get(name), integer(job.metadata.labels.get(keys.JOB_INDEX, ""))
        if group is None or number is None or f"{group.prefix}{number}" != job.metadata.name:
            self._previous.append(Child(job, name, -1, -1))
            return
        group.existing.add(number)
        self._previous.append(Child(job, name, number, group.jobs.global_offset + number))

    def _add_current(self, group: _JobGroup, child: Child, job: Job, *, newer: bool) -> None:
        """`newer`: the status is older than the Job, so it records the end of an earlier Job."""
        index = child.job_index
        if not child.gone:
            group.existing.add(index)
        # A Job without the label was created while the gate was off: it was never restarted alone.
        own, wanted = (
            integer(job.metadata.labels.get(keys.JOB_RESTART_ATTEMPT)) or 0,
            _restarts_of_job(group.restarts, index),
        )
        if self._restart_job:
            if own < wanted:
                if not child.gone:
                    self._previous.append(child)
                return
            newer |= own > wanted
        if newer and not child.gone:
            self._newer.append(job)
        recorded = group.any_recorded and index in group.recorded
        completed = recorded or index in group.completed
        outcome = "Complete" if completed and not newer else self._outcome(job)
        if outcome is None:
            self._active.append(child)
        elif outcome == "Failed":
            self._failed.append(child)
        else:
            self._add_completed(group, child, job, recorded=recorded)

    def _add_completed(self, group: _JobGroup, child: Child, job: Job, *, recorded: bool) -> None:
        if job.outcome is None:
            self._redundant.append(child)
        if not recorded:
            group.completed.add(child.job_index)
            if child.deleting:
                self._unrecorded.append(job)

    def _outcome(self, job: Job) -> str | None:
        """`Complete` or `Failed`; None while it runs. With failOn FailureTarget a doomed Job has failed."""
        if not job.status.conditions:
            return None  # most Jobs
        return job.outcome or (keys.JOB_FAILED if self._doomed_fail and job.doomed else None)

    def result(self) -> ChildJobs:
        for children in (self._active, self._failed, self._previous, self._surplus, self._redundant):
            children.sort(key=by_index)
        return ChildJobs(
            active=tuple(self._active),
            failed=tuple(self._failed),
            completed={name: group.recorded.also(group.completed) for name, group in self._groups.items()},
            previous=tuple(self._previous),
            surplus=tuple(self._surplus),
            redundant=tuple(self._redundant),
            unrecognized=tuple(sorted(self._unrecognized, key=lambda job: job.metadata.name)),
            existing={name: group.existing for name, group in self._groups.items()},
            whole=frozenset(name for name, group in self._groups.items() if group.whole),
            unrecorded=tuple(self._unrecorded),
            newer=tuple(self._newer),
            tallies=tally(self._active),
        )


def _restarts_of_job(restarts: tuple[int, ...], index: int) -> int:
    """How often the Job of that index was restarted alone (gate RestartJob)."""
    return restarts[index] if index < len(restarts) else 0


def not_recorded(js: JobSet, departed: Iterable[Job], gates: FeatureGates) -> tuple[Job, ...]:
    """The Jobs of `departed` whose end the status does not record yet."""
    sorted_ = sort_jobs(js, (), layout_of(js), gates, departed)
    return (*sorted_.unrecorded, *(child.job for child in sorted_.failed))
