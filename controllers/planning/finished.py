"""Whether a JobSet has finished, how long it may run, and how long it is kept.

See docs/reference/failure-policy.md#deadline and docs/reference/lifecycle.md#time-to-live.
"""

from api import keys
from api.jobset import JobSet
from kube.model.meta import seconds_between

GATE = "JobSetActiveDeadlineSeconds"
EXCEEDED = "DeadlineExceeded"
"""Reason of the condition Failed of a set that has reached its deadline."""


def has_finished(js: JobSet) -> bool:
    """Whether the condition Completed or Failed is True. After that nothing is started for the set."""
    return finish_time(js) is not None


def finish_time(js: JobSet) -> str | None:
    """The transition time of the first condition Completed or Failed that is True; None: the set has not finished."""
    for condition in js.status.conditions:
        if condition.type in {keys.COMPLETED, keys.FAILED} and condition.status == "True":
            return condition.last_transition_time
    return None


def time_to_live(js: JobSet, now: str) -> float | None:
    """Seconds until the JobSet has to be deleted, 0 or less if it has to be deleted now.

    None if the JobSet has not finished, or has no `ttlSecondsAfterFinished`.
    """
    finish = finish_time(js)
    if finish is None or js.spec.ttl_seconds_after_finished is None:
        return None
    return js.spec.ttl_seconds_after_finished - seconds_between(finish, now)


def time_left(seconds: int, start_time: str, now: str) -> float | None:
    """The seconds from `now` until `seconds` after `start_time`, 0 or less if this time has passed.

    Both times are RFC 3339. None if the start time is empty or cannot be parsed. A start in the future comes from a
    manager whose clock is ahead, and counts as now.
    """
    try:
        elapsed = seconds_between(start_time, now)
    except (ValueError, TypeError):
        return None
    return seconds - max(elapsed, 0.0)
