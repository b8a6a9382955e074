"""Moments and durations as people read them. Pure."""

from datetime import UTC, datetime

_UNITS = ((86400, "d", 3600), (3600, "h", 60), (60, "min", 1), (1, "s", 1))
"""Units: seconds of the unit, its name, seconds of the next smaller unit."""
_SMALLER_UNITS = {"d": "h", "h": "min"}


def seconds_since(moment: str, now: datetime) -> float | None:
    """Seconds from an RFC 3339 moment until now; None for an invalid text."""
    try:
        return (now - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):
        return None


def clock(moment: str, now: datetime) -> str:
    """The time of day, as in `14:05:03Z`, with the date if it is not today; empty for a text that is not RFC 3339."""
    if seconds_since(moment, now) is None:
        return ""
    when = datetime.fromisoformat(moment).astimezone(UTC)
    return when.strftime("%H:%M:%SZ" if when.date() == now.astimezone(UTC).date() else "%Y-%m-%d %H:%M:%SZ")


def age(seconds: float) -> str:
    """A duration with at most two units, as in `12 min`, `1 h 5 min` or `2 d 3 h`; negative seconds count as 0."""
    whole_seconds = max(int(seconds), 0)
    size, unit, smaller = next((step for step in _UNITS if whole_seconds >= step[0]), _UNITS[-1])
    number, rest = divmod(whole_seconds, size)
    remainder = rest // smaller if unit in {"d", "h"} else 0
    return f"{number} {unit} {remainder} {_SMALLER_UNITS[unit]}" if remainder else f"{number} {unit}"
