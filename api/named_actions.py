"""Lists the actions that a failure policy names, with the paths of their fields. Pure.

An action (`api.failure_actions`) is what the controller does about a failed Job, such as RestartJobSet. A rule of the
policy names one action in its field `action`. Its list `then` names actions for the case that the first action has not
helped. `nodeFailure` names the action for Jobs whose node has failed.
"""

from collections.abc import Iterator
from typing import NamedTuple

from api.failure_actions import FailureAction, action_of
from api.policies import FailurePolicy
from kube.model.field import SPEC, Path

_POLICY = SPEC.at("failurePolicy")


class NamedAction(NamedTuple):
    """An action that a failure policy names.

    - `path`: the path of the field that names the action.
    - `owner_path`: the path of the rule, or of `nodeFailure`, that has the field.
    - `max_restarts`: `maxRestarts` of the rule, which limits restarts by all its actions; None if it is absent.
    """

    path: Path
    action: FailureAction
    owner_path: Path
    max_restarts: int | None = None


def named_actions(policy: FailurePolicy) -> Iterator[NamedAction]:
    """The actions of all rules, with those of their `then`, and the action of `nodeFailure`."""
    for owner_path, rule in _POLICY.at("rules").each(policy.rules):
        yield NamedAction(owner_path.at("action"), action_of(rule.action), owner_path, rule.max_restarts)
        for path, step in owner_path.at("then").each(rule.then):
            yield NamedAction(path.at("action"), action_of(step.action), owner_path, rule.max_restarts)
    if policy.node_failure is not None:
        owner_path = _POLICY.at("nodeFailure")
        yield NamedAction(owner_path.at("action"), action_of(policy.node_failure.action), owner_path)
