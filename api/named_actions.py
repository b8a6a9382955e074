"""Lists the actions that a failure policy names, each with its limit of restarts. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from api.failure_actions import FailureAction, action_of
from api.policies import FailurePolicy
from kube.model.field import SPEC, Path

_POLICY = SPEC.at("failurePolicy")


class NamedAction(NamedTuple):
    """An action, and the path of the field that names it. `owner_path`: the path of the rule, or of `nodeFailure`.

    `max_restarts`: how many restarts by the action are allowed; None if the action has no limit of its own.
    """

    path: Path
    action: FailureAction
    owner_path: Path
    max_restarts: int | None = None


def named_actions(policy: FailurePolicy) -> Iterator[NamedAction]:
    """The actions that the policy may take: those of its rules, of their `then`, and of failed nodes."""
    for owner_path, rule in _POLICY.at("rules").each(policy.rules):
        yield NamedAction(owner_path.at("action"), action_of(rule.action), owner_path, rule.max_restarts)
        for path, step in owner_path.at("then").each(rule.then):
            yield NamedAction(path.at("action"), action_of(step.action), owner_path, rule.max_restarts)
    if policy.node_failure is not None:
        owner_path = _POLICY.at("nodeFailure")
        yield NamedAction(owner_path.at("action"), action_of(policy.node_failure.action), owner_path)
