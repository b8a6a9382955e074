"""Each finding gets the words that the templates of its rule name."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

from kube.model.field import Rule

ROOT = Path(__file__).parents[2]
PACKAGES = ("api", "app", "authoring", "cli", "controllers", "diagnose", "kube", "manifests", "policy", "webhooks")


def findings() -> Iterator[tuple[str, Rule, set[str]]]:
    """Where a finding is made by the name of its rule, that rule, and the words it gets."""
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            if file.name == "__main__.py":
                continue
            place = file.relative_to(ROOT)
            names = vars(importlib.import_module(".".join(place.with_suffix("").parts)))
            for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                match call:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="at"), keywords=words):
                        rule = names.get(name)
                        if isinstance(rule, Rule) and all(word.arg for word in words):
                            yield f"{place}:{call.lineno}", rule, {str(word.arg) for word in words}


def placeholders(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def test_a_finding_has_all_words_of_its_rule():
    made = list(findings())
    assert len(made) > 250
    assert {
        place: missing for place, rule, words in made if (missing := placeholders(rule.message + rule.fix) - words)
    } == {}
