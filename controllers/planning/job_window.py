"""Measures how many Jobs of one set may wait for the Job controller at the same time, while no other set has such Jobs.

A Job waits for the Job controller from its creation or resume until the Job controller first looks at it. The Job
controller has one queue, so a set that is created later waits until the Jobs before its own are done. This wait should
be about `QUEUE_SECONDS`.

The limit is measured as in the congestion window of TCP. One new Job of a plan is watched: the time that it waits, and
the number of Jobs that waited before it, say how many Jobs the Job controller does in `QUEUE_SECONDS`.
"""

from dataclasses import dataclass, replace

from api.batch import Job
from controllers.planning.actions import CreateJob, PatchJob, Plan

QUEUE_SECONDS = 2.0
"""How long a Job should wait for the Job controller."""

IDLE_SECONDS = 10.0
"""How long a measured limit is valid. The Job controller may be slower later."""

GROWTH = 2
"""A measurement gives at most so many times the number of Jobs that waited."""


@dataclass(frozen=True, slots=True)
class JobWindow:
    """How many Jobs of one set may wait for the Job controller. Times are seconds of the event loop's clock.

    - `size`: how many Jobs may wait; 0: not known.
    - `job`: name of the watched Job; empty if none is watched. `waiting`: how many Jobs of the set waited when the
      watch began, including the watched Job.
    - `time`: when the watch of `job` began; if no Job is watched, when `size` was measured.
    """

    size: int = 0
    job: str = ""
    waiting: int = 0
    time: float = 0.0

    def watch(self, job: str, waiting: int, time: float) -> "JobWindow":
        """The window after a plan at `time`, whose last new Job is `job`. It watches `job`, unless it watches a Job."""
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
    """Names of the Jobs that a plan creates or resumes, and which then wait for the Job controller."""
    names = []
    for action in plan.actions:
        if isinstance(action, CreateJob) or (
            isinstance(action, PatchJob) and action.patch.get("spec", {}).get("suspend") is False
        ):
            names.append(action.name)  # noqa: PERF401 -- a comprehension is one more call in each reconcile
    return names
