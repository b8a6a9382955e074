"""Warns of JobSets that are stored without the defaults of the webhook, because the webhook was not called."""

from api.stored_defaults import missing_defaults
from kube.model.field import ErrorType, FieldError, Rule, Severity
from kube.model.jsontree import dig
from kube.model.meta import JSON

WITHOUT_DEFAULT = Rule(
    "stored-without-default",
    ErrorType.REQUIRED,
    "is stored without its default, as no webhook was called: {means}",
    "make the JobSet again: kubectl get jobset NAME -n NAMESPACE -o yaml | sed '/^  resourceVersion:/d'"
    " | kubectl replace --force -f -",
    "docs/break-glass.md#repair-what-was-let-in",
    severity=Severity.WARNING,
)


def without_defaults(js: JSON) -> list[FieldError]:
    """A warning for each default that a stored JobSet lacks. A JobSet without a UID is not stored."""
    if not dig(js, "metadata", "uid"):
        return []
    return [WITHOUT_DEFAULT.at(path, means=means) for path, means in missing_defaults(dig(js, "spec"))]
