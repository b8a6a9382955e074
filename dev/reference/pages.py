"""`python -m dev.reference.pages`: write the generated pages of docs/, or check that they are current.

The page docs/errors.md is made here, from the rules themselves, so that it has the texts of the answers. Each other
module of this package makes one page, or the pages of one folder.
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
    """Return the page of errors as Markdown."""
    parts = [beginning("errors.md")]
    for title, group in rules().items():
        parts.append(f"\n## {title.rstrip('.')}\n")
        parts.append("| Rule | What it says | Fix | Type | Found from | Source |\n|---|---|---|---|---|---|")
        parts.extend(_rule_row(rule) for rule in group)
    return "\n".join(parts) + "\n"


def _rule_row(rule: Rule) -> str:
    kind = f"{rule.type.text} (`{rule.type.value}`)" if rule.severity.value == "error" else "warning"
    cells = (
        f"`{rule.id}`",
        template_markdown(rule.message),
        template_markdown(rule.fix),
        kind,
        _FOUND_BY[rule.layer],
        with_links(rule.source),
    )
    return f"| {' | '.join(cells)} |"


def with_links(source: str) -> str:
    """Return the source of a rule with links to the pages of docs/ and to the defects that it names."""
    return _DEFECT.sub(r"[\1](reference/defects.md#defects)", _CITED.sub(r"[\2](\1)", source))


def template_markdown(template: str) -> str:
    """Return a template of a message as Markdown, with its placeholders in angle brackets."""
    escaped = template.replace("<", "&lt;").replace(">", "&gt;").replace("|", "\\|")
    return with_placeholders(escaped, lambda word: f"*&lt;{word.replace('_', ' ')}&gt;*")


PAGES: Mapping[str, Callable[[], str]] = {
    "downgrade.md": downgrade.page,
    "errors.md": page,
    "reference/configuration.md": config_reference.page,
    "reference/fields.md": field_reference.page,
    "reference/rules.md": rule_reference.page,
    **policy_reference.pages(),
}
"""The function that makes each page, by its path below docs/."""


def main(argv: list[str] | None = None, docs: Path = DOCS) -> int:
    """Run the command. Returns the exit code. `docs` is the folder of the pages."""
    return generated.main({docs / name: make for name, make in PAGES.items()}, argv)


if __name__ == "__main__":
    raise SystemExit(main())
