"""Whether a JobSet has finished, how long it may run, and how long it is kept.

See docs/reference/failure-policy.md#deadline and docs/reference/lifecycle.md#time-to-live.
"""

from api import keys
from api.jobset import JobSet
from kube.model.meta import seconds_between

GATE = "JobSetActiveDeadlineSeconds"
EXCEEDED = "DeadlineExceeded"
"""Reason of the condition Failed."""


def has_finished(js: JobSet) -> bool:
    """Whether Completed or Failed is True: from then on nothing starts any more."""
    return finish_time(js) is not None


def finish_time(js: JobSet) -> str | None:
    """When it finished: transition time of the first True condition Completed or Failed."""
    for condition in js.status.conditions:
        if condition.type in {keys.COMPLETED, keys.FAILED} and condition.status == "True":
            return condition.last_transition_time
    return None


def time_to_live(js: JobSet, now: str) -> float | None:
    """Seconds until the JobSet has to be deleted, 0 or less when that is due; None when it is kept."""
    finish = finish_time(js)
    if finish is None or js.spec.ttl_seconds_after_finished is None:
        return None
    return js.spec.ttl_seconds_after_finished - seconds_between(finish, now)


def time_left(seconds: int, start_time: str, now: str) -> float | None:
    """Seconds until `activeDeadlineSeconds` after the start, 0 or less when they are over; both times RFC 3339.

    None: there is no start time, or it cannot be parsed. A start in the future comes from a manager whose clock is
    ahead: it counts as now.
    """
    try:
        elapsed = seconds_between(start_time, now)
    except (ValueError, TypeError):
        return None
    return seconds - max(elapsed, 0.0)
