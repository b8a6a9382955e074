"""Where each Job stands in its set: indices across ReplicatedJobs and groups.

See docs/reference/names-and-labels.md#indices.

One pass over the ReplicatedJobs gives every offset, so that placing N Jobs is O(N).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from api.jobset import JobSet, ReplicatedJob
from api.names import job_name


@dataclass(frozen=True, slots=True)
class Slot:
    """One Job that should exist."""

    replicated_job: ReplicatedJob
    name: str
    job_index: int
    global_index: int
    group_index: int


@dataclass(frozen=True, slots=True)
class Group:
    """A ReplicatedJob with its offsets in the set."""

    replicated_job: ReplicatedJob
    global_offset: int
    group_offset: int
    group_replicas: int

    def slot(self, jobset: str, index: int) -> Slot:
        """Its Job of that index."""
        rjob = self.replicated_job
        return Slot(
            replicated_job=rjob,
            name=job_name(jobset, rjob.name, index),
            job_index=index,
            global_index=self.global_offset + index,
            group_index=self.group_offset + index,
        )

    def slots(self, jobset: str) -> Iterator[Slot]:
        """Its Jobs by ascending index."""
        return (self.slot(jobset, index) for index in range(self.replicated_job.replicas))


@dataclass(frozen=True, slots=True)
class Placement:
    """All groups of a set in list order."""

    groups: tuple[Group, ...]
    global_replicas: int

    def by_name(self) -> dict[str, Group]:
        """Groups by the name of their ReplicatedJob."""
        return {group.replicated_job.name: group for group in self.groups}


def placement(js: JobSet) -> Placement:
    """Offsets of every ReplicatedJob."""
    totals: dict[str, int] = {}
    for rjob in js.spec.replicated_jobs:
        totals[rjob.group_name] = totals.get(rjob.group_name, 0) + rjob.replicas
    groups: list[Group] = []
    before: dict[str, int] = {}
    offset = 0
    for rjob in js.spec.replicated_jobs:
        groups.append(Group(rjob, offset, before.get(rjob.group_name, 0), totals[rjob.group_name]))
        before[rjob.group_name] = before.get(rjob.group_name, 0) + rjob.replicas
        offset += rjob.replicas
    return Placement(tuple(groups), offset)
