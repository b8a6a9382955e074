"""Fields with a feature gate of their own: the deadline, the time limit for the start, and fields about nodes."""

from collections.abc import Iterable, Iterator

from api import avoided_nodes
from kube.model.field import SPEC, FieldError, Path, Rule
from kube.model.jsontree import dig
from webhooks.jobset.rules import Source
from webhooks.jobset.subject import Subject

_DEADLINE, _START_TIMEOUT, _NODE_FAILURE = "JobSetActiveDeadlineSeconds", "JobSetStartTimeout", "JobSetNodeFailure"
_MAINTENANCE = "JobSetNodeMaintenance"
DEADLINE = Source("docs/reference/validation.md#deadline").gate(
    "active-deadline-gate", _DEADLINE, "the set would have no deadline"
)
START_TIMEOUT = Source("docs/reference/validation.md#start-timeout").gate(
    "start-timeout-gate", _START_TIMEOUT, "pods may pend for ever"
)
NODE_FAILURE = Source("docs/reference/validation.md#node-failure").gate(
    "node-failure-gate", _NODE_FAILURE, "nodes are not looked at"
)
MAINTENANCE = Source("docs/reference/validation.md#node-maintenance").gate(
    "node-maintenance-gate", _MAINTENANCE, "the set does not leave nodes before they go"
)
AVOID_NODES = Source("docs/reference/validation.md#nodes-to-avoid").gate(
    "avoid-nodes-gate", avoided_nodes.GATE, "no node is avoided"
)
_FAILURE = SPEC.at("failurePolicy")
_GATED_FIELDS: tuple[tuple[Path, str, Rule], ...] = (
    (SPEC.at("activeDeadlineSeconds"), _DEADLINE, DEADLINE),
    (_FAILURE.at("startTimeoutSeconds"), _START_TIMEOUT, START_TIMEOUT),
    (_FAILURE.at("nodeFailure"), _NODE_FAILURE, NODE_FAILURE),
    (_FAILURE.at("maintenance"), _MAINTENANCE, MAINTENANCE),
    (_FAILURE.at("avoidNodes"), avoided_nodes.GATE, AVOID_NODES),
)


def check_gates(subject: Subject) -> Iterator[FieldError]:
    """Findings about fields whose feature gate is off."""
    return _without_gate(subject, _GATED_FIELDS)


def check_deadline_gate(subject: Subject) -> Iterator[FieldError]:
    """A finding about the deadline if its gate is off. Of these fields, an update may change only the deadline."""
    return _without_gate(subject, _GATED_FIELDS[:1])


def _without_gate(subject: Subject, gated_fields: Iterable[tuple[Path, str, Rule]]) -> Iterator[FieldError]:
    for path, gate, rule in gated_fields:
        if not subject.gates[gate] and dig(subject.raw_spec, *path.parts[1:]) is not None:
            yield rule.at(path)
