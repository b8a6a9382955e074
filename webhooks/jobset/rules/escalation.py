"""Rules of the failure policy with `then`: each step has to be reachable, and to do more than the step before it.

See docs/reference/validation.md#escalation.
"""

from collections.abc import Iterator

from api.failure_actions import ACTIONS, Scope, action_of
from api.policies import FailurePolicyRule
from kube.model.field import ErrorType, FieldError, Path
from webhooks.jobset.rules import Source
from webhooks.jobset.rules.failure import FAILURE, RULES
from webhooks.jobset.rules.in_place import IN_PLACE
from webhooks.jobset.subject import Subject

_GATE = "JobSetFailureEscalation"
MAX_RULES = 8
"""The most rules with `then`: the status has the present step of each."""
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
    """Check that the limit of restarts in place is below the limit of all restarts."""
    policy, path = subject.failure_policy, FAILURE.at("inPlaceRestarts")
    limit = policy.in_place_restarts
    if limit is None:
        return
    if not subject.gates[_GATE]:
        yield IN_PLACE_GATE.at(path)
    elif policy.restart_strategy != IN_PLACE:
        yield IN_PLACE_ALONE.at(path, limit)
    elif limit >= policy.max_restarts:
        yield IN_PLACE_NEVER.at(path, limit, limit=max(policy.max_restarts, 0))


def check_steps(subject: Subject) -> Iterator[FieldError]:
    """Findings about the steps under `then`."""
    rules = [(path.at("then"), rule) for path, rule in RULES.each(subject.failure_policy.rules) if rule.then]
    if not subject.gates[_GATE]:
        yield from (NO_GATE.at(path) for path, _ in rules)
        return
    if len(rules) > MAX_RULES:
        yield TOO_MANY.at(rules[MAX_RULES][0], len(rules))
    for path, rule in rules[:MAX_RULES]:
        yield from _check_rule(subject, rule, path)


def _check_rule(subject: Subject, rule: FailurePolicyRule, path: Path) -> Iterator[FieldError]:
    """The first fault of the steps of a rule."""
    max_restarts = max(subject.failure_policy.max_restarts, 0)
    previous, rule_restarts, counted_restarts = action_of(rule.action), 0, 0
    for step_path, step in path.each(rule.then):
        action, action_path = action_of(step.action), step_path.at("action")
        if previous.scope is Scope.NOTHING:
            yield AFTER_THE_END.at(action_path, before=previous.name)
            return
        if action.reach <= previous.reach:
            stronger = ", ".join(each.name for each in ACTIONS.values() if each.reach > previous.reach)
            yield NO_PROGRESS.at(action_path, action.name, action=action.name, before=previous.name, stronger=stronger)
            return
        rule_restarts += step.after_restarts
        counted_restarts += step.after_restarts if previous.counts_restarts else 0
        restarts_jobs = action.scope is not Scope.NOTHING
        if rule.max_restarts is not None and not _is_reached(rule_restarts, rule.max_restarts, counts=restarts_jobs):
            name, limit = "maxRestarts of the rule", f"maxRestarts {rule.max_restarts} of the rule"
            yield NEVER_REACHED.at(action_path, action.name, restarts=rule_restarts, limit=limit, name=name)
            return
        if not _is_reached(counted_restarts, max_restarts, counts=action.counts_restarts):
            name = "spec.failurePolicy.maxRestarts"
            limit = f"{name} {max_restarts}"
            yield NEVER_REACHED.at(action_path, action.name, restarts=counted_restarts, limit=limit, name=name)
            return
        previous = action


def _is_reached(restarts: int, limit: int, *, counts: bool) -> bool:
    """Whether an action may follow so many restarts. `counts`: the action is a restart that the limit counts, too."""
    return restarts < limit or (restarts == limit and not counts)
