"""Annotations that change how the Jobs of a set are suspended. Pure.

See docs/reference/validation.md#suspension.
"""

from collections.abc import Iterator

from api.keys import DELETE_ON_SUSPEND, SKIP_SUSPEND
from api.suspension import GATE, leaves_suspension_to_others
from kube.model.field import SPEC, ErrorType, FieldError, Path
from webhooks.jobset.rules import Source
from webhooks.jobset.subject import Subject

_DOCS = Source("docs/reference/validation.md#suspension")
LEFT_TO_OTHERS = _DOCS.error(
    "suspend-left-to-others",
    "must be absent: by the annotation {key} another controller suspends the Jobs, one by one",
    "remove the field, or the annotation",
    ErrorType.FORBIDDEN,
)
GATE_OFF = _DOCS.warning(
    "suspension-options-gate",
    "needs the feature gate {gate}: without it the annotation has no effect",
    "start the manager with --feature-gates={gate}=true, or remove the annotation",
)
VALUE = _DOCS.warning("suspension-option-value", "has no effect: only true has", "write true, or remove the annotation")


def check_suspend(subject: Subject) -> Iterator[FieldError]:
    """A finding about the field `suspend` of a set whose Jobs another controller suspends."""
    suspend = subject.js.spec.suspend
    if suspend is not None and leaves_suspension_to_others(subject.js, subject.gates):
        yield LEFT_TO_OTHERS.at(SPEC.at("suspend"), suspend, key=SKIP_SUSPEND)


def check_annotations(subject: Subject) -> Iterator[FieldError]:
    """Findings about annotations that have no effect, without the feature gate or by their value."""
    for key in (SKIP_SUSPEND, DELETE_ON_SUSPEND):
        value, path = subject.js.metadata.annotations.get(key), Path(("metadata", "annotations", key))
        if value is not None and value not in {"true", "false"}:
            yield VALUE.at(path, value)
        elif value == "true" and not subject.gates[GATE]:
            yield GATE_OFF.at(path, value, gate=GATE)
