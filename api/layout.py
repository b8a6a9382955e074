"""Computes the name and the indexes of each Job of a JobSet (docs/reference/names-and-labels.md#indices). Pure.

A Job has three indexes: in its ReplicatedJob, in the whole JobSet (the global index), and in its group. A group is all
ReplicatedJobs with the same `groupName`. Computing the indexes of N Jobs takes O(N).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from api.elastic_variables import may_read_node_count
from api.jobset import JobSet, ReplicatedJob
from api.names import job_name


@dataclass(frozen=True, slots=True)
class JobPosition:
    """The name and the indexes of one Job."""

    replicated_job: ReplicatedJob
    name: str
    job_index: int
    global_index: int
    group_index: int


@dataclass(frozen=True, slots=True)
class JobRange:
    """The Jobs of one ReplicatedJob.

    - `global_offset`, `group_offset`: the global index, and the index in the group, of the first Job.
    - `group_replicas`: how many Jobs the group has.
    """

    replicated_job: ReplicatedJob
    global_offset: int
    group_offset: int
    group_replicas: int

    def position(self, jobset_name: str, index: int) -> JobPosition:
        rjob = self.replicated_job
        return JobPosition(
            replicated_job=rjob,
            name=job_name(jobset_name, rjob.name, index),
            job_index=index,
            global_index=self.global_offset + index,
            group_index=self.group_offset + index,
        )

    def positions(self, jobset_name: str) -> Iterator[JobPosition]:
        """The positions of all Jobs of the ReplicatedJob by ascending index."""
        return (self.position(jobset_name, index) for index in range(self.replicated_job.replicas))


@dataclass(frozen=True)
class Layout:
    """All Jobs of a JobSet: one range for each ReplicatedJob in the order of the spec, and the number of Jobs."""

    ranges: tuple[JobRange, ...]
    global_replicas: int

    def ranges_by_name(self) -> dict[str, JobRange]:
        return {jobs.replicated_job.name: jobs for jobs in self.ranges}

    @cached_property
    def names_reading_node_count(self) -> frozenset[str]:
        """Names of the ReplicatedJobs whose pods may read the number of nodes, as torchrun does."""
        return frozenset(jobs.replicated_job.name for jobs in self.ranges if may_read_node_count(jobs.replicated_job))


def layout_of(js: JobSet) -> Layout:
    """The layout of a JobSet."""
    group_replicas: dict[str, int] = {}
    for rjob in js.spec.replicated_jobs:
        group_replicas[rjob.group_name] = group_replicas.get(rjob.group_name, 0) + rjob.replicas
    ranges: list[JobRange] = []
    group_offsets: dict[str, int] = {}
    global_offset = 0
    for rjob in js.spec.replicated_jobs:
        group_offset = group_offsets.get(rjob.group_name, 0)
        ranges.append(JobRange(rjob, global_offset, group_offset, group_replicas[rjob.group_name]))
        group_offsets[rjob.group_name] = group_offset + rjob.replicas
        global_offset += rjob.replicas
    return Layout(tuple(ranges), global_offset)
