"""Rules of the failure policy with `then`: every step has to be reachable, and to do more than the one before it.

See docs/reference/validation.md#escalation.
"""

from collections.abc import Iterator

from api.failure_actions import ACTIONS, FailureAction, Scope, action_of
from api.policies import FailurePolicyRule
from kube.model.field import ErrorType, FieldError, Path
from webhooks.jobset.rules import Source
from webhooks.jobset.rules.failure import FAILURE, RULES
from webhooks.jobset.rules.in_place import IN_PLACE
from webhooks.jobset.subject import Subject

_GATE = "JobSetFailureEscalation"
MAX_RULES = 8
"""Rules with `then`: the status has the step of each."""
_SOURCE = Source("docs/reference/validation.md#escalation")

NO_GATE = _SOURCE.gate("escalation-gate", _GATE, "the rule takes the same action each time")
TOO_MANY = _SOURCE.error(
    "escalation-too-many",
    f"at most {MAX_RULES} rules may say then: the status keeps how far each has come",
    "join rules, or remove then from some",
    ErrorType.TOO_MANY,
)
AFTER_THE_END = _SOURCE.error(
    "escalation-after-the-end",
    "{before} fails the set, so nothing follows it",
    "remove this step, or put it before {before}",
    ErrorType.FORBIDDEN,
)
NO_PROGRESS = _SOURCE.error(
    "escalation-no-progress",
    "{action} recreates no more than {before}, which has not helped: the rule could not move on",
    "choose one of {stronger}",
)
NEVER_REACHED = _SOURCE.error(
    "escalation-never",
    "never reached: {restarts} restarts come before it, and {limit} fails the set earlier",
    "raise {name}, or lower afterRestarts",
)
IN_PLACE_GATE = _SOURCE.gate("in-place-restarts-gate", _GATE, "maxRestarts alone limits restarts in place")
IN_PLACE_ALONE = _SOURCE.error(
    "in-place-restarts-alone",
    "no effect without restartStrategy InPlaceRestart: nothing restarts in place",
    "remove the field, or set restartStrategy: InPlaceRestart",
    ErrorType.FORBIDDEN,
)
IN_PLACE_NEVER = _SOURCE.error(
    "in-place-restarts-never",
    "no Job is ever recreated: spec.failurePolicy.maxRestarts {limit} fails the set earlier",
    "raise spec.failurePolicy.maxRestarts, or lower this number",
)


def check_in_place_limit(subject: Subject) -> Iterator[FieldError]:
    """The limit of restarts in place has to be reached before that of all restarts."""
    policy, path = subject.failure_policy, FAILURE.at("inPlaceRestarts")
    most = policy.in_place_restarts
    if most is None:
        return
    if not subject.gates[_GATE]:
        yield IN_PLACE_GATE.at(path)
    elif policy.restart_strategy != IN_PLACE:
        yield IN_PLACE_ALONE.at(path, most)
    elif most >= policy.max_restarts:
        yield IN_PLACE_NEVER.at(path, most, limit=max(policy.max_restarts, 0))


def check_steps(subject: Subject) -> Iterator[FieldError]:
    """Faults of the steps under `then`."""
    rules = subject.failure_policy.rules
    found = [(path.at("then"), rule) for path, rule in RULES.each(rules) if rule.then]
    if not subject.gates[_GATE]:
        yield from (NO_GATE.at(path) for path, _ in found)
        return
    if len(found) > MAX_RULES:
        yield TOO_MANY.at(found[MAX_RULES][0], len(found))
    for path, rule in found[:MAX_RULES]:
        yield from _check_rule(subject, rule, path)


def _check_rule(subject: Subject, rule: FailurePolicyRule, path: Path) -> Iterator[FieldError]:
    most = max(subject.failure_policy.max_restarts, 0)
    before, by_rule, counted = action_of(rule.action), 0, 0
    for step_path, step in path.each(rule.then):
        action, action_path = action_of(step.action), step_path.at("action")
        if before.scope is Scope.NOTHING:
            yield AFTER_THE_END.at(action_path, before=before.name)
            return
        if action.reach <= before.reach:
            stronger = ", ".join(_stronger(before))
            yield NO_PROGRESS.at(action_path, action.name, action=action.name, before=before.name, stronger=stronger)
            return
        by_rule += step.after_restarts
        counted += step.after_restarts if before.counted else 0
        of_rule = f"maxRestarts {rule.max_restarts} of the rule"
        if rule.max_restarts is not None and not _comes(
            by_rule, rule.max_restarts, limited=action.scope is not Scope.NOTHING
        ):
            yield NEVER_REACHED.at(
                action_path, action.name, restarts=by_rule, limit=of_rule, name="maxRestarts of the rule"
            )
            return
        if not _comes(counted, most, limited=action.counted):
            of_set = f"spec.failurePolicy.maxRestarts {most}"
            yield NEVER_REACHED.at(
                action_path, action.name, restarts=counted, limit=of_set, name="spec.failurePolicy.maxRestarts"
            )
            return
        before = action


def _comes(used: int, limit: int, *, limited: bool) -> bool:
    """Whether that many restarts are allowed, followed by an action that may be `limited`, too."""
    return used < limit or (used == limit and not limited)


def _stronger(before: FailureAction) -> Iterator[str]:
    return (action.name for action in ACTIONS.values() if action.reach > before.reach)
