"""Moments and durations as people read them. Pure."""

import math
from datetime import UTC, datetime

_UNITS = (("d", 86400, "h", 3600), ("h", 3600, "min", 60))
"""The units of durations that are given in two units: unit, its seconds, next smaller unit, its seconds."""


def seconds_since(moment: str | None, now: datetime, *, unknown: float = math.inf) -> float:
    """Seconds from an RFC 3339 moment until now; `unknown` if the moment is absent or not RFC 3339."""
    try:
        return (now - datetime.fromisoformat(moment or "")).total_seconds()
    except (ValueError, TypeError):
        return unknown


def clock(moment: str, now: datetime) -> str:
    """The time of day, as in `14:05:03Z`, with the date if it is not today; empty for a text that is not RFC 3339."""
    if math.isinf(seconds_since(moment, now)):
        return ""
    when = datetime.fromisoformat(moment).astimezone(UTC)
    return when.strftime("%H:%M:%SZ" if when.date() == now.astimezone(UTC).date() else "%Y-%m-%d %H:%M:%SZ")


def age(seconds: float) -> str:
    """A duration with at most two units, as in `12 min`, `1 h 5 min` or `2 d 3 h`; negative seconds count as 0."""
    whole_seconds = max(int(seconds), 0)
    for unit, size, smaller_unit, smaller_size in _UNITS:
        if whole_seconds >= size:
            remainder = whole_seconds % size // smaller_size
            return f"{whole_seconds // size} {unit}" + (f" {remainder} {smaller_unit}" if remainder else "")
    return f"{whole_seconds // 60} min" if whole_seconds >= 60 else f"{whole_seconds} s"
