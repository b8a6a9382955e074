"""Pods of nodes that have failed (spec.failurePolicy.nodeFailure)."""

from collections.abc import Iterator

from kube.model.field import SPEC, ErrorType, FieldError, Rule
from webhooks.jobset.subject import Subject

_GATE = "JobSetNodeFailure"
NO_GATE = Rule(
    id="node-failure-gate",
    type=ErrorType.FORBIDDEN,
    message=f"needs the feature gate {_GATE}: without it nodes are not looked at",
    fix=f"start the manager with --feature-gates={_GATE}=true, or remove the field",
    source="docs/reference/validation.md#node-failure",
)


def gate(subject: Subject) -> Iterator[FieldError]:
    """What is done about failed nodes needs its feature gate."""
    policy = subject.js.spec.failure_policy
    if policy is not None and policy.node_failure is not None and not subject.gates[_GATE]:
        yield NO_GATE.at(SPEC.at("failurePolicy", "nodeFailure"))
