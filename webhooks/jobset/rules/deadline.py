"""The deadline of the set (spec.activeDeadlineSeconds)."""

from collections.abc import Iterator

from kube.model.field import SPEC, ErrorType, FieldError, Rule
from webhooks.jobset.subject import Subject

_GATE = "JobSetActiveDeadlineSeconds"
NO_GATE = Rule(
    id="active-deadline-gate",
    type=ErrorType.FORBIDDEN,
    message=f"needs the feature gate {_GATE}: without it the set would have no deadline",
    fix=f"start the manager with --feature-gates={_GATE}=true, or remove the field",
    source="docs/reference/validation.md#deadline",
)


def gate(subject: Subject) -> Iterator[FieldError]:
    """A deadline needs its feature gate."""
    if subject.js.spec.active_deadline_seconds is not None and not subject.gates[_GATE]:
        yield NO_GATE.at(SPEC.at("activeDeadlineSeconds"))
