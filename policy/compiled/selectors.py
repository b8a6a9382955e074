"""Writes label selectors in CEL, and as JSON of the Kubernetes API. Pure."""

from kube.model.meta import JSON
from policy.cel import foreign, text, texts
from policy.types import Requirement, Selector

OBJECT_LABELS = "object.metadata.?labels.orValue({})"
NAMESPACE_LABELS = "namespaceObject.metadata.?labels.orValue({})"


def selector_conditions(selector: Selector, labels: str) -> list[str]:
    """Conditions in CEL, all of which hold if the selector matches `labels`, an expression for a map."""
    selector = foreign(selector)
    equalities = [
        f"{labels}[?{text(key)}] == optional.of({text(value)})" for key, value in selector.match_labels.items()
    ]
    return equalities + [_requirement(requirement, labels) for requirement in selector.match_expressions]


def _requirement(requirement: Requirement, labels: str) -> str:
    key, values = text(requirement.key), texts(requirement.values)
    has_key = f"{key} in {labels}"
    is_in = f"({has_key} && {labels}[{key}] in {values})"
    return {"Exists": has_key, "DoesNotExist": f"!({has_key})", "In": is_in, "NotIn": f"!{is_in}"}[requirement.operator]


def as_json(selector: Selector) -> JSON:
    """The selector as a LabelSelector of the Kubernetes API."""
    body: JSON = {}
    if selector.match_labels:
        body["matchLabels"] = dict(selector.match_labels)
    if selector.match_expressions:
        body["matchExpressions"] = [
            {"key": item.key, "operator": item.operator, **({"values": list(item.values)} if item.values else {})}
            for item in selector.match_expressions
        ]
    return body
