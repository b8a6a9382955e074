"""Durations as Go writes them, such as `15s` or `1m30s`. Pure."""

import re
from typing import Any

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}


def parse_duration(text: Any) -> float:
    """Seconds of a Go duration such as `15s` or `1m30s`. Raises ValueError, with the fault, for any other value."""
    if not isinstance(text, str) or not text:
        raise ValueError("must be a duration such as 15s or 1m30s")
    if text == "0":
        return 0
    numbers_with_units = _DURATION.findall(text)
    if "".join(number + unit for number, unit in numbers_with_units) != text:
        raise ValueError(f"{text!r} is not a duration: write it like 15s or 1m30s")
    return float(sum(float(number) * _SECONDS[unit] for number, unit in numbers_with_units))


def duration_text(seconds: float) -> str:
    """The Go duration of `seconds`, such as `15s`, `1m30s`, `500ms`. `parse_duration` reads it back."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = [f"{number:g}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (seconds, "s")) if number]
    return "".join(parts) or "0s"
