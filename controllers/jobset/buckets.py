"""Sorts child Jobs by attempt and outcome (behaviour section 5.4). Every later decision starts from these lists."""

import re
from dataclasses import dataclass

from api import keys
from api.batch import Job
from api.features import FeatureGates
from api.jobset import JobSet
from api.placement import Placement

_GO_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Child:
    """A child Job with the place that its labels give it."""

    job: Job
    replicated_job: str
    job_index: int
    global_index: int

    @property
    def name(self) -> str:
        return self.job.metadata.name

    @property
    def deleting(self) -> bool:
        return self.job.metadata.deletion_timestamp is not None


@dataclass(frozen=True, slots=True)
class Buckets:
    """Child Jobs by state, each list by ascending global index.

    `previous` are of an earlier attempt; `odd` carry labels that cannot be read or name no Job of this spec: they are
    left alone, so that one bad object cannot stop the rest.
    """

    active: tuple[Child, ...]
    successful: tuple[Child, ...]
    failed: tuple[Child, ...]
    previous: tuple[Child, ...]
    odd: tuple[Job, ...]

    @property
    def current(self) -> tuple[Child, ...]:
        """All Jobs of the current attempt."""
        return (*self.active, *self.successful, *self.failed)


def integer(text: str | None) -> int | None:
    """A label's decimal value: an optional sign and ASCII digits only; anything else is None."""
    return int(text) if text is not None and _GO_INTEGER.fullmatch(text) else None


def bucket(js: JobSet, jobs: tuple[Job, ...], placed: Placement, gates: FeatureGates) -> Buckets:
    """Sort `jobs` of `js`. Labels of a Job say what it is; its conditions say how it went."""
    groups = placed.by_name()
    targets = {s.name: s.job_restarts for s in js.status.replicated_jobs_status} if gates["RestartJob"] else {}
    sorted_: dict[str, list[Child]] = {"active": [], "Complete": [], "Failed": [], "previous": []}
    odd: list[Job] = []
    for job in jobs:
        labels = job.metadata.labels
        group = groups.get(labels.get(keys.REPLICATED_JOB_NAME, ""))
        index = integer(labels.get(keys.JOB_INDEX))
        attempt = integer(labels.get(keys.RESTART_ATTEMPT))
        if group is None or index is None or attempt is None or not 0 <= index < group.replicated_job.replicas:
            odd.append(job)
            continue
        rjob = group.replicated_job
        child = Child(job, rjob.name, index, group.global_offset + index)
        if attempt < js.status.restarts or _restarted_alone(job, targets.get(rjob.name, ()), index):
            sorted_["previous"].append(child)
        else:
            sorted_[job.finished or "active"].append(child)
    for children in sorted_.values():
        children.sort(key=lambda c: c.global_index)
    return Buckets(
        active=tuple(sorted_["active"]),
        successful=tuple(sorted_["Complete"]),
        failed=tuple(sorted_["Failed"]),
        previous=tuple(sorted_["previous"]),
        odd=tuple(odd),
    )


def _restarted_alone(job: Job, targets: tuple[int, ...], index: int) -> bool:
    """Whether this Job alone was restarted since (gate RestartJob). A Job without the label predates the gate."""
    attempt = integer(job.metadata.labels.get(keys.JOB_RESTART_ATTEMPT))
    return attempt is not None and index < len(targets) and attempt < targets[index]
