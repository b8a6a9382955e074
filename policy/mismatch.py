"""Why a selector of a policy does not match, in words. Pure."""

from dataclasses import dataclass

from kube.model.field import shorten
from policy.judged import Namespace
from policy.types import JobSetPolicy, Requirement, Selector

MAX_TEXT = 160
"""Characters of a requirement, and of the actual value, in a message."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first requirement of a selector that labels do not meet. `owner`: what has the labels."""

    selector: str
    requirement: Requirement
    owner: str
    labels: dict[str, str]

    def __str__(self) -> str:
        key = self.requirement.key
        has = f"{key}={self.labels[key]}" if key in self.labels else "no such label"
        wanted = shorten(str(self.requirement), MAX_TEXT)
        return f"{self.selector} wants {wanted}, and {self.owner} has {shorten(has, MAX_TEXT)}"


def namespace_mismatch(selector: Selector, field: str, namespace: Namespace) -> Mismatch | None:
    """Why a selector of namespaces, in that field, does not match this one; None if it does."""
    unmet = selector.unmet(namespace.labels)
    name = f"namespace {namespace.name}" if namespace.name else "the namespace"
    return None if unmet is None else Mismatch(field, unmet, name, namespace.labels)


def policy_mismatch(policy: JobSetPolicy, labels: dict[str, str], namespace: Namespace) -> Mismatch | None:
    """Why a policy does not apply to a JobSet with these labels in this namespace; None if it does."""
    match = policy.spec.match
    if found := namespace_mismatch(match.namespace_selector, "namespaceSelector", namespace):
        return found
    unmet = match.object_selector.unmet(labels)
    return None if unmet is None else Mismatch("objectSelector", unmet, "the JobSet", labels)
