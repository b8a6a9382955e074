"""How long a JobSet may still run (docs/reference/failure-policy.md#deadline)."""

from kube.model.meta import seconds_between

GATE = "JobSetActiveDeadlineSeconds"
EXCEEDED = "DeadlineExceeded"
"""Reason of the condition Failed."""


def time_left(seconds: int, start_time: str, now: str) -> float | None:
    """Seconds until `activeDeadlineSeconds` after the start, 0 or less when they are over; both times RFC 3339.

    None: the time has not begun, or its start cannot be read. A start in the future is that of a manager whose clock is
    ahead: the whole time is left.
    """
    try:
        elapsed = seconds_between(start_time, now)
    except (ValueError, TypeError):
        return None
    return seconds - max(elapsed, 0.0)
