"""Reads explanations.yaml, which explains warnings with examples, for `jobset rule` and docs/reference/rules.md."""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import yaml


class Explanation(NamedTuple):
    """Why a warning is given, and examples as YAML: `bad` gets the warning, `good` does not.

    `at`: the path of the examples in a JobSet. `since`: the first version with the rule.
    """

    why: str
    at: str
    bad: str
    good: str
    since: str


@cache
def explanations() -> dict[str, Explanation]:
    """The explanations by the id of the rule."""
    text = files("cli.rule").joinpath("explanations.yaml").read_text(encoding="utf-8")
    return {name: Explanation(**row) for name, row in yaml.safe_load(text).items()}
