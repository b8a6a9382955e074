"""A rule in words for people. Pure."""

from collections.abc import Iterator
from textwrap import indent, wrap

from cli.rule.explanations import Explanation, explanations
from kube.model.field import Layer, Rule, Severity, with_placeholders

WIDTH = 100
"""Columns of the text."""
FOUND_BY = {
    Layer.SCHEMA: "the schema of the CRD",
    Layer.WEBHOOK: "admission and jobset validate, from the object alone",
    Layer.CLUSTER: "admission, and jobset validate --server, which ask the cluster",
}


def rule_lines(rule: Rule) -> Iterator[str]:
    """What it says, why, the fix, examples, and how to leave it out."""
    warning = rule.severity is Severity.WARNING
    explanation = explanations().get(rule.id)
    yield f"{rule.id} ({rule.severity.value})"
    yield ""
    yield from _paragraph("What", _plain(rule.message) or rule.type.text)
    if explanation:
        yield from _paragraph("Why", explanation.why)
    if rule.fix:
        yield from _paragraph("Fix", _plain(rule.fix))
    yield from _paragraph("Found by", FOUND_BY[rule.layer])
    yield from _paragraph("Source", rule.source)
    if explanation:
        yield from _paragraph("Since", explanation.since)
        yield from example_lines(explanation)
    if warning:
        yield ""
        yield "To leave it out for one JobSet, name it in the annotation jobset.sigs.k8s.io/ignore-warnings."


def example_lines(explanation: Explanation) -> Iterator[str]:
    """The bad and the good example, each with its place."""
    where = f", in {explanation.at}" if explanation.at else ""
    for title, text in (("Bad", explanation.bad), ("Good", explanation.good)):
        yield ""
        yield f"{title}{where}:"
        yield indent(text.rstrip("\n"), "    ")


def _paragraph(title: str, text: str) -> list[str]:
    return wrap(text, WIDTH, initial_indent=f"{title + ':':10}", subsequent_indent=" " * 10, break_on_hyphens=False)


def _plain(template: str) -> str:
    return with_placeholders(template, "<{}>".format)
