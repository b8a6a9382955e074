"""Reads values of environment variables; an unset and an empty variable are the same."""

from __future__ import annotations

from collections.abc import Mapping


def read_number(env: Mapping[str, str], name: str, default: str, maximum: int, problems: list[str]) -> int:
    """A number from 1 to `maximum`; 0 and a problem if the variable holds anything else."""
    text = env.get(name) or default
    if text.isascii() and text.isdigit() and len(text) <= len(str(maximum)) and 1 <= int(text) <= maximum:
        return int(text)
    problems.append(f"{name} is {text!r}: set a number from 1 to {maximum}")
    return 0


def read_flag(env: Mapping[str, str], name: str, problems: list[str], *, default: bool) -> bool:
    """True or false; the default and a problem if the variable holds anything else."""
    text = env.get(name) or str(default).lower()
    if text not in {"true", "false"}:
        problems.append(f"{name} is {text!r}: set true or false")
        return default
    return text == "true"
