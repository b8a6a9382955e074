"""The labels by which installed objects select pods and Services."""

from collections.abc import Iterator
from typing import Any

SELECTED_BY = {"app.kubernetes.io/name", "app.kubernetes.io/instance", "control-plane"}
"""All that selectors may have: labels that are the same whoever manages the objects, and in every version."""


def selectors(node: Any, key: str = "") -> Iterator[dict[str, Any]]:
    """Every mapping of labels in a selector, wherever it is."""
    if isinstance(node, dict):
        if key == "matchLabels" or (key == "selector" and not {*node} & {"matchLabels", "matchExpressions"}):
            yield node
        for name, value in node.items():
            if name != "openAPIV3Schema":
                yield from selectors(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from selectors(value)
