"""Data that this process keeps about each Job with exclusive placement beyond the caches: one record each.

A process that starts looks once for misplaced pods of each running Job. It reports again what an earlier process has
reported.
"""

from dataclasses import dataclass
from typing import NamedTuple

from api.batch import Job
from api.topology import Follower, Leader
from kube.indexes import IndexKey


class JobRequest(NamedTuple):
    """The Job to reconcile. The UID distinguishes it from another Job of the same name."""

    namespace: str
    job: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.job}"

    @property
    def pods(self) -> IndexKey:
        """The key in `BY_JOB` of the pods that the Job controls."""
        return IndexKey(self.namespace, self.uid)

    @classmethod
    def from_job(cls, job: Job) -> "JobRequest":
        return cls(job.metadata.namespace, job.metadata.name, job.metadata.uid)

    @classmethod
    def from_pod(cls, pod: Leader | Follower) -> "JobRequest":
        return cls(pod.namespace, pod.job, pod.job_uid)


@dataclass(slots=True)
class JobMemory:
    """One Job by namespace, name and UID, until it is gone. Times are seconds of the event loop's clock."""

    checks: tuple[float, ...] = ()
    """When to check for misplaced pods, soonest first.

    Remembered: until the check. A process that starts checks every running exclusive Job once.
    """
    without_domain_since: float | None = None
    """Since when it has no leader, or one whose node has no domain; None: it has a domain.

    Remembered: until it has one, or no pod waits. Without it an event comes 5 s later or earlier.
    """

    @property
    def empty(self) -> bool:
        return not self.checks and self.without_domain_since is None


class JobMemories:
    """The records by Job, and when each JobSet was last reported. Bounded by the number of waiting Jobs."""

    def __init__(self) -> None:
        self._records: dict[JobRequest, JobMemory] = {}
        self._reported: dict[IndexKey, float] = {}
        """When a JobSet, by namespace and UID, was last reported because a Job has no domain.

        Remembered: until the first report of another one after 60 s. Without it the event is sent again."""

    def __len__(self) -> int:
        return len(self._records)

    def checks(self, request: JobRequest) -> tuple[float, ...]:
        """When to check for misplaced pods of a Job."""
        memory = self._records.get(request)
        return memory.checks if memory else ()

    def check_at(self, request: JobRequest, *times: float) -> None:
        """Also check for misplaced pods of a Job at these times. Only its first and its last check are kept."""
        memory = self._records.setdefault(request, JobMemory())
        due = {*memory.checks, *times}
        memory.checks = (min(due), max(due)) if len(due) > 1 else tuple(due)

    def forget_checks(self, request: JobRequest, until: float) -> tuple[float, ...]:
        """Forget the checks that were due at `until`, and return those that are left."""
        memory = self._records.get(request)
        if memory is None:
            return ()
        memory.checks = tuple(check for check in memory.checks if check > until)
        self._drop_if_empty(request)
        return memory.checks

    def without_domain(self, request: JobRequest, now: float) -> float:
        """Since when a Job has no domain; records `now` the first time."""
        memory = self._records.setdefault(request, JobMemory())
        if memory.without_domain_since is None:
            memory.without_domain_since = now
        return memory.without_domain_since

    def has_domain(self, request: JobRequest) -> None:
        """Note that a Job has a domain, or that no pod waits for one."""
        memory = self._records.get(request)
        if memory is not None:
            memory.without_domain_since = None
            self._drop_if_empty(request)

    def forget(self, request: JobRequest) -> None:
        """Drop the record of a deleted Job."""
        self._records.pop(request, None)

    def last_report(self, jobset: IndexKey) -> float | None:
        """When the JobSet of that namespace and UID was last reported."""
        return self._reported.get(jobset)

    def report(self, jobset: IndexKey, now: float, keep: float) -> None:
        """Note that a JobSet is reported now; forget reports that are older than `keep` seconds."""
        self._reported = {key: at for key, at in self._reported.items() if now - at < keep}
        self._reported[jobset] = now

    def _drop_if_empty(self, request: JobRequest) -> None:
        if self._records[request].empty:
            del self._records[request]
