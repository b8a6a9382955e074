"""Finds why a selector of a policy does not match a JobSet or a namespace. Pure."""

from dataclasses import dataclass

from kube.model.field import shorten
from policy.judged import Namespace
from policy.types import JobSetPolicy, Requirement, Selector

MAX_TEXT = 160
"""At most this many characters of a requirement, and of the actual value, are in a message."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first requirement of a selector that labels do not meet. `owner`: the object that has the labels."""

    selector: str
    requirement: Requirement
    owner: str
    labels: dict[str, str]

    def __str__(self) -> str:
        key = self.requirement.key
        label = f"{key}={self.labels[key]}" if key in self.labels else "no such label"
        wanted = shorten(str(self.requirement), MAX_TEXT)
        return f"{self.selector} wants {wanted}, and {self.owner} has {shorten(label, MAX_TEXT)}"


def namespace_mismatch(selector: Selector, field: str, namespace: Namespace) -> Mismatch | None:
    """Why the selector in a field of a policy does not match a namespace; None if it matches."""
    unmet = selector.unmet(namespace.labels)
    name = f"namespace {namespace.name}" if namespace.name else "the namespace"
    return None if unmet is None else Mismatch(field, unmet, name, namespace.labels)


def policy_mismatch(policy: JobSetPolicy, labels: dict[str, str], namespace: Namespace) -> Mismatch | None:
    """Why a policy does not apply to a JobSet with these labels in this namespace; None if it applies."""
    match = policy.spec.match
    if mismatch := namespace_mismatch(match.namespace_selector, "namespaceSelector", namespace):
        return mismatch
    unmet = match.object_selector.unmet(labels)
    return None if unmet is None else Mismatch("objectSelector", unmet, "the JobSet", labels)
