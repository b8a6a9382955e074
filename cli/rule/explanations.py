"""Why warnings are given, with examples, from explanations.yaml: for `jobset rule` and docs/reference/rules.md."""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import yaml


class Explanation(NamedTuple):
    """`bad` and `good` are YAML; `at` says in which part of a JobSet they stand. `since`: the first version."""

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
