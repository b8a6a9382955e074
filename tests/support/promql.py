"""Whether a PromQL expression asks for metrics and labels that the manager has, and which labels its result has."""

import re
from pathlib import Path

import promql_parser as promql

_PAGE = Path(__file__).parents[2] / "docs/reference/metrics.md"
"""tests/app/test_metrics.py compares it with the registry."""

OF_THE_TARGET = {"job", "namespace", "pod"}
"""Labels that Prometheus adds to each series of a pod that a ServiceMonitor finds."""

_SUFFIXES = {"histogram": {"_count": set(), "_sum": set(), "_bucket": {"le"}}}


def _series() -> dict[str, set[str]]:
    rows = re.findall(r"^\| `([a-z_]+)` \| (\w+) \|([^|]*)\|", _PAGE.read_text(), re.MULTILINE)
    return {
        name + suffix: set(re.findall(r"`(\w+)`", labels)) | more
        for name, kind, labels in rows
        for suffix, more in _SUFFIXES.get(kind, {"": set()}).items()
    }


SERIES = _series()
"""Names of series, and the labels that the manager gives them."""


def parsed(expression: str) -> promql.Expr:
    """The expression with values for Grafana's variables. Raises ValueError if it is not PromQL."""
    return promql.parse(expression.replace("$__rate_interval", "5m"))


def selectors(expression: str) -> list[tuple[str, dict[str, str]]]:
    """Each selection of series in an expression: the metric, and the text of the condition on each label."""
    found = []

    def note(node: promql.Expr) -> None:
        if isinstance(node, promql.VectorSelector):
            found.append((node.name, {each.name: str(each) for each in node.matchers.matchers}))

    promql.walk(parsed(expression), pre_visit=note)
    return found


def labels_of(expression: str) -> set[str]:
    """The labels of its result.

    Fails if a metric or label is unknown, or if an operator's sides have different labels, so that nothing matches.
    """
    return _labels(parsed(expression)) or set()


def _labels(node: promql.Expr) -> set[str] | None:
    """None: a number."""
    match node:
        case promql.VectorSelector():
            assert node.name in SERIES, f"no metric {node.name}"
            known = SERIES[node.name] | OF_THE_TARGET
            assert {each.name for each in node.matchers.matchers} <= known, node
            return known
        case promql.MatrixSelector() | promql.ParenExpr():
            return _labels(node.vector_selector if isinstance(node, promql.MatrixSelector) else node.expr)
        case promql.AggregateExpr():
            kept = set(node.modifier.labels if node.modifier else ())
            assert node.modifier is None or node.modifier.type == promql.AggModifierType.By
            assert kept <= (_labels(node.expr) or set()), f"no such label in {node.expr}"
            return kept
        case promql.Call():
            return _called(node)
        case promql.BinaryExpr():
            return _combined(node)
    assert isinstance(node, promql.NumberLiteral), f"{node} is not expected here"
    return None


def _called(node: promql.Call) -> set[str] | None:
    given = [_labels(each) for each in node.args]
    match node.func.name:
        case "time":
            return None
        case "vector" | "absent":
            return set()
        case "histogram_quantile":
            assert "le" in given[-1], "these are no buckets"
            return given[-1] - {"le"}
    (labels,) = given
    return labels


def _combined(node: promql.BinaryExpr) -> set[str] | None:
    left, right = _labels(node.lhs), _labels(node.rhs)
    if left is None or right is None:
        return right if left is None else left
    matching = node.modifier.matching if node.modifier else None
    if matching is None:
        assert left == right, f"the sides of {node.op} have different labels"
    else:
        assert set(matching.labels) <= left & right
    return left
