"""Reads values of environment variables; an unset and an empty variable are the same."""

from __future__ import annotations

from collections.abc import Mapping


def number(env: Mapping[str, str], name: str, default: str, most: int, problems: list[str]) -> int:
    """A number from 1 to `most`; 0 and a problem if the variable holds anything else."""
    text = env.get(name) or default
    if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most:
        return int(text)
    problems.append(f"{name} is {text!r}: set a number from 1 to {most}")
    return 0


def flag(env: Mapping[str, str], name: str, problems: list[str], *, default: bool) -> bool:
    """True or false; the default and a problem if the variable holds anything else."""
    text = env.get(name) or str(default).lower()
    if text not in {"true", "false"}:
        problems.append(f"{name} is {text!r}: set true or false")
        return default
    return text == "true"
