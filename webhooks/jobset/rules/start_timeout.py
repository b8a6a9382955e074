"""The time limit for the start of pods (spec.failurePolicy.startTimeoutSeconds)."""

from collections.abc import Iterator

from kube.model.field import SPEC, ErrorType, FieldError, Rule
from webhooks.jobset.subject import Subject

_GATE = "JobSetStartTimeout"
NO_GATE = Rule(
    id="start-timeout-gate",
    type=ErrorType.FORBIDDEN,
    message=f"needs the feature gate {_GATE}: without it pods may pend for ever",
    fix=f"start the manager with --feature-gates={_GATE}=true, or remove the field",
    source="docs/reference/validation.md#start-timeout",
)


def gate(subject: Subject) -> Iterator[FieldError]:
    """A time limit for the start needs its feature gate."""
    policy = subject.js.spec.failure_policy
    if policy is not None and policy.start_timeout_seconds is not None and not subject.gates[_GATE]:
        yield NO_GATE.at(SPEC.at("failurePolicy", "startTimeoutSeconds"))
