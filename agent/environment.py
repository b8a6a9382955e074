"""Reads numbers and flags from environment variables. An empty variable counts as unset."""

from __future__ import annotations

from collections.abc import Mapping


def read_number(env: Mapping[str, str], name: str, default: str, maximum: int, problems: list[str]) -> int:
    """The number of a variable, from 1 to `maximum`. Any other text adds a problem to `problems`, and 0 is returned."""
    text = env.get(name) or default
    if text.isascii() and text.isdigit() and len(text) <= len(str(maximum)) and 1 <= int(text) <= maximum:
        return int(text)
    problems.append(f"{name} is {text!r}: set a number from 1 to {maximum}")
    return 0


def read_flag(env: Mapping[str, str], name: str, problems: list[str], *, default: bool) -> bool:
    """The boolean of a variable. Any other text adds a problem to `problems`, and `default` is returned."""
    text = env.get(name) or str(default).lower()
    if text not in {"true", "false"}:
        problems.append(f"{name} is {text!r}: set true or false")
        return default
    return text == "true"
