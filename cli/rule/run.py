"""Runs `jobset rule`: prints a rule, or the ids of all rules."""

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import indent, wrap
from typing import TextIO

from authoring.rule_catalogue import all_rules
from cli.rule.explanations import Explanation, explanations
from kube.model.field import Layer, Rule, Severity, with_placeholders
from kube.model.suggest import nearest

WIDTH = 100
"""The line width of the text."""
CHECKER_BY_LAYER = {
    Layer.SCHEMA: "the schema of the CRD",
    Layer.WEBHOOK: "admission and jobset validate, from the object alone",
    Layer.CLUSTER: "admission, and jobset validate --server, which ask the cluster",
}


@dataclass(frozen=True, slots=True)
class Options:
    """`id`: the id of a rule; empty to list all rules."""

    id: str = ""


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the rule to `out`, or the problem to `err`. Returns the exit code."""
    by_id = {rule.id: rule for rule in all_rules()}
    if not options.id:
        out.writelines(f"{rule.id:40} {rule.severity.value}\n" for _, rule in sorted(by_id.items()))
        return 0
    rule = by_id.get(options.id)
    if rule is None:
        similar_id = nearest(options.id, (name for name in by_id if name[:1] == options.id[:1]))
        hint = f"did you mean {similar_id}?" if similar_id else "`jobset rule` lists all"
        err.write(f"jobset rule: there is no rule {options.id!r}; {hint}\n")
        return 2
    out.writelines(f"{line}\n" for line in rule_lines(rule))
    return 0


def rule_lines(rule: Rule) -> Iterator[str]:
    """The lines about a rule: its message, why it is given, the fix, examples, and how to suppress a warning."""
    explanation = explanations().get(rule.id)
    yield f"{rule.id} ({rule.severity.value})"
    yield ""
    yield from _paragraph("What", with_placeholders(rule.message) or rule.type.text)
    if explanation:
        yield from _paragraph("Why", explanation.why)
    if rule.fix:
        yield from _paragraph("Fix", with_placeholders(rule.fix))
    yield from _paragraph("Found by", CHECKER_BY_LAYER[rule.layer])
    yield from _paragraph("Source", rule.source)
    if explanation:
        yield from _paragraph("Since", explanation.since)
        yield from example_lines(explanation)
    if rule.severity is Severity.WARNING:
        yield ""
        yield "To leave it out for one JobSet, name it in the annotation jobset.sigs.k8s.io/ignore-warnings."


def example_lines(explanation: Explanation) -> Iterator[str]:
    """The bad and the good example, each with its path."""
    location = f", in {explanation.at}" if explanation.at else ""
    for title, text in (("Bad", explanation.bad), ("Good", explanation.good)):
        yield ""
        yield f"{title}{location}:"
        yield indent(text.rstrip("\n"), "    ")


def _paragraph(title: str, text: str) -> list[str]:
    return wrap(text, WIDTH, initial_indent=f"{title + ':':10}", subsequent_indent=" " * 10, break_on_hyphens=False)
