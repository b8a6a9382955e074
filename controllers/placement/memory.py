"""Keeps data about each Job with exclusive placement that is in no cache: planned checks and times of reports.

In exclusive placement, all pods of a Job run in one topology domain, such as a rack. A check looks for misplaced pods,
which are outside the domain. A report is an event about a Job that has no domain yet. The data is lost when the process
ends. The next process checks each running Job once, and may repeat reports.
"""

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from api.batch import Job
from api.topology import Follower, Leader
from kube.indexes import IndexKey


class JobRequest(NamedTuple):
    """The Job to reconcile. The UID distinguishes the Job from earlier and later Jobs of the same name."""

    namespace: str
    job: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.job}"

    @property
    def pods_key(self) -> IndexKey:
        """The key of the Job's pods in the index `BY_JOB` of the caches of pods."""
        return IndexKey(self.namespace, self.uid)

    @classmethod
    def from_job(cls, job: Job) -> "JobRequest":
        return cls(job.metadata.namespace, job.metadata.name, job.metadata.uid)

    @classmethod
    def from_pod(cls, pod: Leader | Follower) -> "JobRequest":
        return cls(pod.namespace, pod.job, pod.job_uid)


@dataclass(slots=True)
class JobMemory:
    """The data about one Job, until the Job is gone. Times are seconds of the event loop's clock."""

    checks: tuple[float, ...] = ()
    """When to check for misplaced pods, soonest first.

    Remembered: until the check. A process that starts checks every running exclusive Job once.
    """
    without_domain_since: float | None = None
    """Since when the Job has no leader, or a leader whose node has no domain; None: the Job has a domain.

    Remembered: until the Job has a domain, or no pod waits. Without it an event comes 5 s later or earlier.
    """

    @property
    def is_empty(self) -> bool:
        return not self.checks and self.without_domain_since is None


class JobMemories:
    """The data by Job, and the time of the last report by JobSet. Bounded by the number of Jobs that wait."""

    def __init__(self) -> None:
        self._records: dict[JobRequest, JobMemory] = {}
        self._report_times: dict[IndexKey, float] = {}
        """When a JobSet, by namespace and UID, was last reported because a Job has no domain.

        Remembered: for 60 s, and until another JobSet is reported. Without it the event is sent again."""

    def __len__(self) -> int:
        return len(self._records)

    def checks(self, request: JobRequest) -> tuple[float, ...]:
        """When to check a Job for misplaced pods, soonest first."""
        memory = self._records.get(request)
        return memory.checks if memory else ()

    def check_at(self, request: JobRequest, *times: float) -> None:
        """Also check a Job for misplaced pods at these times. Only the first and the last check of a Job are kept."""
        memory = self._records.setdefault(request, JobMemory())
        check_times = {*memory.checks, *times}
        memory.checks = (min(check_times), max(check_times)) if len(check_times) > 1 else tuple(check_times)

    def forget_due_checks(self, request: JobRequest, now: float) -> bool:
        """Forget the checks that are due. Returns whether any check was due."""
        memory = self._records.get(request)
        if memory is None or not memory.checks or memory.checks[0] > now:
            return False
        memory.checks = tuple(check for check in memory.checks if check > now)
        self._drop_if_empty(request)
        return True

    def without_domain_since(self, request: JobRequest, now: float) -> float:
        """Since when a Job has no domain. If no time is recorded, `now` is recorded and returned."""
        memory = self._records.setdefault(request, JobMemory())
        if memory.without_domain_since is None:
            memory.without_domain_since = now
        return memory.without_domain_since

    def note_domain(self, request: JobRequest) -> None:
        """Note that a Job has a domain, or that none of its pods waits for a domain."""
        memory = self._records.get(request)
        if memory is not None:
            memory.without_domain_since = None
            self._drop_if_empty(request)

    def forget(self, request: JobRequest) -> None:
        """Drop the record of a deleted Job."""
        self._records.pop(request, None)

    def begin_report(self, jobset: IndexKey, now: float, interval: float) -> float:
        """Record a report about a JobSet at `now` and return 0, if `interval` seconds have passed since the last.

        Otherwise return the seconds until the JobSet may be reported again.
        """
        seconds_left = interval - (now - self._report_times.get(jobset, -inf))
        if seconds_left > 0:
            return seconds_left
        self._report_times = {key: time for key, time in self._report_times.items() if now - time < interval}
        self._report_times[jobset] = now
        return 0.0

    def _drop_if_empty(self, request: JobRequest) -> None:
        if self._records[request].is_empty:
            del self._records[request]
