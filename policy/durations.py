"""The pattern and the parser of durations in policies, such as `7d`. Pure."""

from typing import Final

DURATION: Final = "^[1-9][0-9]{0,5}[smhd]$"
"""Pattern of a duration: a number with s, m, h or d."""
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(text: str) -> int:
    """The seconds of a duration such as `12h`; 0 for a text that is not a duration."""
    number, unit = text[:-1], text[-1:]
    return int(number) * _SECONDS[unit] if unit in _SECONDS and number.isdecimal() else 0
