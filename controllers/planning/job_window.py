"""Measures how many Jobs of a set may wait for the Job controller while no other set's Jobs wait. Pure.

This works like the congestion window of TCP. One Job of a plan is watched. The time until the Job controller takes up
that Job, and the number of Jobs that waited before it, say how many Jobs the Job controller takes up in
`QUEUE_SECONDS`. A set that arrives later waits about that long.
"""

from dataclasses import dataclass, replace

from api.batch import Job
from controllers.planning.actions import CreateJob, PatchJob, Plan

QUEUE_SECONDS = 2.0
"""How long a Job should wait for the Job controller at most."""

IDLE_SECONDS = 10.0
"""How long a measured size is valid. The Job controller may be slower later."""

GROWTH = 2
"""Largest factor by which a measurement increases the number of Jobs that may wait."""


@dataclass(frozen=True, slots=True)
class JobWindow:
    """How many Jobs of one set may wait for the Job controller. Times are of the event loop's clock.

    - `size`: how many Jobs may wait; 0: not known. `time`: when `size` was measured, or since when `job` is watched.
    - `job`: name of the Job that is watched; empty for none. `waiting`: how many Jobs waited when the watch began,
      including that Job.
    """

    size: int = 0
    job: str = ""
    waiting: int = 0
    time: float = 0.0

    def watch(self, job: str, waiting: int, time: float) -> "JobWindow":
        """Watch `job`, the last Job of a plan made at `time`, unless another Job is watched."""
        return self if self.job else replace(self, job=job, waiting=waiting, time=time)

    def measure(self, job: Job | None, time: float) -> "JobWindow":
        """The window at `time`. `job`: the watched Job, if it exists."""
        if not self.job:
            return self if time - self.time < IDLE_SECONDS else UNKNOWN
        if job is None:
            return replace(self, job="")
        if job.awaits_job_controller:
            return self
        seconds = max(time - self.time, QUEUE_SECONDS / GROWTH)
        return JobWindow(int(self.waiting * QUEUE_SECONDS / seconds), time=time)


UNKNOWN = JobWindow()


def started_job_names(plan: Plan) -> list[str]:
    """Names of the Jobs that a plan creates or resumes, so that the Job controller has to take them up."""
    names = []
    for action in plan.actions:
        if isinstance(action, CreateJob) or (
            isinstance(action, PatchJob) and action.patch.get("spec", {}).get("suspend") is False
        ):
            names.append(action.name)  # noqa: PERF401 -- a comprehension is a further call, of each reconcile
    return names
