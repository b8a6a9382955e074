"""`python -m dev.reference.pages`: write the generated pages of docs/, or check that they are current.

docs/errors.md is made from the rules themselves, so that it has the texts of the answers,
docs/reference/configuration.md from the settings and flags of the manager, docs/reference/fields.md from the CRD and
the examples, the fields of docs/downgrade.md from api/own_fields.py, the pages of docs/policy from the rules of
policies and their examples.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from authoring.rule_catalogue import rules
from dev.hack import generated
from dev.hack.generated import DOCS, beginning
from dev.reference import configuration as config_reference
from dev.reference import downgrade
from dev.reference import fields as field_reference
from dev.reference import policies as policy_reference
from dev.reference import rules as rule_reference
from kube.model.field import Layer, Rule, with_placeholders

_FOUND_BY = {
    Layer.SCHEMA: "object (schema)",
    Layer.WEBHOOK: "object",
    Layer.CLUSTER: "cluster",
}
_CITED = re.compile(r"\bdocs/((?:[\w-]+/)*([\w-]+)\.md(?:#[\w-]+)?)")
_DEFECT = re.compile(r"\b(defect \d+)")


def page() -> str:
    """The page of errors as Markdown."""
    parts = [beginning("errors.md")]
    for title, group in rules().items():
        parts.append(f"\n## {title.rstrip('.')}\n")
        parts.append("| Rule | What it says | Fix | Type | Found from | Source |\n|---|---|---|---|---|---|")
        parts.extend(_row(rule) for rule in group)
    return "\n".join(parts) + "\n"


def _row(rule: Rule) -> str:
    kind = f"{rule.type.text} (`{rule.type.value}`)" if rule.severity.value == "error" else "warning"
    cells = (f"`{rule.id}`", words(rule.message), words(rule.fix), kind, _FOUND_BY[rule.layer], with_links(rule.source))
    return f"| {' | '.join(cells)} |"


def with_links(source: str) -> str:
    """Pages of docs/ that a rule cites, and defects, as links from this page."""
    return _DEFECT.sub(r"[\1](reference/defects.md#defects)", _CITED.sub(r"[\2](\1)", source))


def words(template: str) -> str:
    """A template as text for people: its placeholders are in angle brackets."""
    plain = template.replace("<", "&lt;").replace(">", "&gt;").replace("|", "\\|")
    return with_placeholders(plain, lambda word: f"*&lt;{word.replace('_', ' ')}&gt;*")


PAGES: Mapping[str, Callable[[], str]] = {
    "downgrade.md": downgrade.page,
    "errors.md": page,
    "reference/configuration.md": config_reference.page,
    "reference/fields.md": field_reference.page,
    "reference/rules.md": rule_reference.page,
    **policy_reference.pages(),
}
"""Path below docs/, and the function that makes the page."""


def main(argv: list[str] | None = None, docs: Path = DOCS) -> int:
    """Entry point; the exit code. `docs` is the folder in which the pages are."""
    return generated.main({docs / name: make for name, make in PAGES.items()}, argv)


if __name__ == "__main__":
    raise SystemExit(main())
