"""Nodes that a set avoids after a failure on them (spec.failurePolicy.avoidNodes)."""

from collections.abc import Iterator

from kube.model.field import SPEC, FieldError
from webhooks.jobset.rules import Source
from webhooks.jobset.rules.exit_codes import NO_VALUES
from webhooks.jobset.subject import Subject

_PATH = SPEC.at("failurePolicy", "avoidNodes")
_SOURCE = Source("docs/reference/validation.md#nodes-to-avoid")
NO_FAILURE = _SOURCE.error(
    "avoid-nodes-no-failure",
    "no node can fail this set: nodeFailure, onExitCodes and onPodReasons are all left out",
    "set failurePolicy.nodeFailure, or say by which exit codes or reasons of pods a node has failed",
)
NO_CODES = _SOURCE.warning(
    "avoid-nodes-codes-unseen",
    "no effect: no pod template has restartPolicy Never",
    "set restartPolicy: Never",
)
NO_DOMAIN = _SOURCE.warning(
    "avoid-nodes-no-domain",
    "means Node: no Job is placed exclusively by affinity",
    "remove it",
)


def check_avoid_nodes(subject: Subject) -> Iterator[FieldError]:
    """Check that avoidNodes says how a node fails, and that each of its options has an effect."""
    policy = subject.js.spec.failure_policy
    avoid_nodes = policy.avoid_nodes if policy is not None else None
    if policy is None or avoid_nodes is None:
        return
    codes = avoid_nodes.on_exit_codes
    if policy.node_failure is None and codes is None and not avoid_nodes.on_pod_reasons:
        yield NO_FAILURE.at(_PATH)
    if codes is not None and not codes.values:
        yield NO_VALUES.at(_PATH.at("onExitCodes", "values"), [])
    if codes is not None and subject.entries and not any(entry.never_restarts for entry in subject.entries):
        yield NO_CODES.at(_PATH.at("onExitCodes"))
    if avoid_nodes.scope == "Domain" and not any(subject.topologies):
        yield NO_DOMAIN.at(_PATH.at("scope"), avoid_nodes.scope)
