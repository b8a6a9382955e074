"""How many Jobs of a set may wait for the Job controller if no other set's Jobs do: a congestion window. Pure.

A Job of each plan is watched. The time from the plan until the Job controller takes that Job up, and the Jobs that
waited with it, say how many it takes up in `QUEUE_SECONDS`: a set that arrives later waits about that long.
"""

from dataclasses import dataclass, replace

from api.batch import Job
from controllers.planning.actions import CreateJob, PatchJob, Plan

QUEUE_SECONDS = 2.0
"""Longest time that a Job may have to wait for the Job controller."""

IDLE_SECONDS = 10.0
"""How long a measured size is valid: the Job controller may be slower later."""

GROWTH = 2
"""Largest factor by which a measurement increases the number of Jobs that may wait."""


@dataclass(frozen=True, slots=True)
class JobWindow:
    """The measured speed at which the Job controller takes up the Jobs of one set. Times: event loop's clock.

    - `size`: how many may wait; 0: not known. `time`: when it was measured, or since when `job` is watched.
    - `job`: name of the Job that is watched; empty for none. `waiting`: the Jobs that wait, up to that one.
    """

    size: int = 0
    job: str = ""
    waiting: int = 0
    time: float = 0.0

    def watch(self, job: str, waiting: int, time: float) -> "JobWindow":
        """Watch the last Job of a plan made at that time; not while another one is watched."""
        return self if self.job else replace(self, job=job, waiting=waiting, time=time)

    def measure(self, job: Job | None, time: float) -> "JobWindow":
        """The window now. `job`: the watched one, if it exists."""
        if not self.job:
            return self if time - self.time < IDLE_SECONDS else UNKNOWN
        if job is None:
            return replace(self, job="")
        if job.queued:
            return self
        took = max(time - self.time, QUEUE_SECONDS / GROWTH)
        return JobWindow(int(self.waiting * QUEUE_SECONDS / took), time=time)


UNKNOWN = JobWindow()


def started_jobs(decided: Plan) -> list[str]:
    """Names of the Jobs that a plan creates or resumes, so that the Job controller has to take them up."""
    names = []
    for action in decided.actions:
        if isinstance(action, CreateJob) or (
            isinstance(action, PatchJob) and action.patch.get("spec", {}).get("suspend") is False
        ):
            names.append(action.name)  # noqa: PERF401 -- a comprehension is a further call, of each reconcile
    return names
