"""Label selectors, in CEL and as Kubernetes writes them. Pure."""

from kube.model.meta import JSON
from policy.cel import foreign, text, texts
from policy.types import Requirement, Selector

OBJECT_LABELS = "object.metadata.?labels.orValue({})"
NAMESPACE_LABELS = "namespaceObject.metadata.?labels.orValue({})"


def selector_conditions(selector: Selector, labels: str) -> list[str]:
    """Conditions, all of which hold if a selector matches `labels`, an expression."""
    selector = foreign(selector)
    same = [f"{labels}[?{text(key)}] == optional.of({text(value)})" for key, value in selector.match_labels.items()]
    return same + [_requirement(requirement, labels) for requirement in selector.match_expressions]


def _requirement(requirement: Requirement, labels: str) -> str:
    key, values = text(requirement.key), texts(requirement.values)
    has_key = f"{key} in {labels}"
    among = f"({has_key} && {labels}[{key}] in {values})"
    return {"Exists": has_key, "DoesNotExist": f"!({has_key})", "In": among, "NotIn": f"!{among}"}[requirement.operator]


def as_json(selector: Selector) -> JSON:
    """A selector, as Kubernetes writes it."""
    found: JSON = {}
    if selector.match_labels:
        found["matchLabels"] = dict(selector.match_labels)
    if selector.match_expressions:
        found["matchExpressions"] = [
            {"key": each.key, "operator": each.operator, **({"values": list(each.values)} if each.values else {})}
            for each in selector.match_expressions
        ]
    return found
