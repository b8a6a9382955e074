"""Explanations of warnings, with examples, from explanations.yaml: for `jobset rule` and docs/reference/rules.md."""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import yaml


class Explanation(NamedTuple):
    """`bad` and `good` are YAML examples; `at` is their part of a JobSet. `since`: the first version."""

    why: str
    at: str
    bad: str
    good: str
    since: str


@cache
def explanations() -> dict[str, Explanation]:
    """By the id of the rule."""
    text = files("cli.rule").joinpath("explanations.yaml").read_text(encoding="utf-8")
    return {name: Explanation(**row) for name, row in yaml.safe_load(text).items()}
