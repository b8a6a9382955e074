"""Rules of the failure policy that say `then`: every step has to be reached, and to do more than the one before it.

See docs/reference/validation.md#escalation.
"""

from collections.abc import Iterator

from api.failure_actions import ACTIONS, FailureAction, Scope, action_of
from api.policies import FailurePolicyRule
from kube.model.field import ErrorType, FieldError, Path, Rule
from webhooks.jobset.rules.failure import FAILURE, RULES
from webhooks.jobset.rules.in_place import IN_PLACE
from webhooks.jobset.subject import Subject

_GATE = "JobSetFailureEscalation"
MOST_RULES = 8
"""Rules with `then`: the status keeps for each how far it has come."""
_SOURCE = "docs/reference/validation.md#escalation"

NO_GATE = Rule(
    id="escalation-gate",
    type=ErrorType.FORBIDDEN,
    message=f"needs the feature gate {_GATE}: without it the rule takes the same action each time",
    fix=f"start the manager with --feature-gates={_GATE}=true, or remove the field",
    source=_SOURCE,
)
TOO_MANY = Rule(
    id="escalation-too-many",
    type=ErrorType.TOO_MANY,
    message=f"at most {MOST_RULES} rules may say then: the status keeps how far each has come",
    fix="join rules, or remove then from some",
    source=_SOURCE,
)
AFTER_THE_END = Rule(
    id="escalation-after-the-end",
    type=ErrorType.FORBIDDEN,
    message="{before} fails the set, so nothing follows it",
    fix="remove this step, or put it before {before}",
    source=_SOURCE,
)
NO_PROGRESS = Rule(
    id="escalation-no-progress",
    type=ErrorType.INVALID,
    message="{action} recreates no more than {before}, which has not helped: the rule could not move on",
    fix="choose one of {stronger}",
    source=_SOURCE,
)
NEVER = Rule(
    id="escalation-never",
    type=ErrorType.INVALID,
    message="never reached: {restarts} restarts come before it, and {limit} fails the set earlier",
    fix="raise {name}, or lower afterRestarts",
    source=_SOURCE,
)
IN_PLACE_GATE = Rule(
    id="in-place-restarts-gate",
    type=ErrorType.FORBIDDEN,
    message=f"needs the feature gate {_GATE}: without it maxRestarts alone limits restarts in place",
    fix=f"start the manager with --feature-gates={_GATE}=true, or remove the field",
    source=_SOURCE,
)
IN_PLACE_ALONE = Rule(
    id="in-place-restarts-alone",
    type=ErrorType.FORBIDDEN,
    message="no effect without restartStrategy InPlaceRestart: nothing restarts in place",
    fix="remove the field, or set restartStrategy: InPlaceRestart",
    source=_SOURCE,
)
IN_PLACE_NEVER = Rule(
    id="in-place-restarts-never",
    type=ErrorType.INVALID,
    message="no Job is ever recreated: spec.failurePolicy.maxRestarts {limit} fails the set earlier",
    fix="raise spec.failurePolicy.maxRestarts, or lower this number",
    source=_SOURCE,
)


def in_place(subject: Subject) -> Iterator[FieldError]:
    """A limit of restarts in place has to be reached before that of all restarts."""
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


def steps(subject: Subject) -> Iterator[FieldError]:
    """All that is wrong with them."""
    rules = subject.failure_policy.rules
    found = [i for i, rule in enumerate(rules) if rule.then]
    if found and not subject.gates[_GATE]:
        yield from (NO_GATE.at(RULES.at(i, "then")) for i in found)
        return
    if len(found) > MOST_RULES:
        yield TOO_MANY.at(RULES.at(found[MOST_RULES], "then"), len(found))
    for i in found[:MOST_RULES]:
        yield from _of_rule(subject, rules[i], RULES.at(i, "then"))


def _of_rule(subject: Subject, rule: FailurePolicyRule, path: Path) -> Iterator[FieldError]:
    most = max(subject.failure_policy.max_restarts, 0)
    before, by_rule, counted = action_of(rule.action), 0, 0
    for k, step in enumerate(rule.then):
        action, at = action_of(step.action), path.at(k, "action")
        if before.scope is Scope.NOTHING:
            yield AFTER_THE_END.at(at, before=before.name)
            return
        if action.reach <= before.reach:
            stronger = ", ".join(_stronger(before))
            yield NO_PROGRESS.at(at, action.name, action=action.name, before=before.name, stronger=stronger)
            return
        by_rule += step.after_restarts
        counted += step.after_restarts if before.counted else 0
        of_rule = f"maxRestarts {rule.max_restarts} of the rule"
        if rule.max_restarts is not None and not _comes(
            by_rule, rule.max_restarts, limited=action.scope is not Scope.NOTHING
        ):
            yield NEVER.at(at, action.name, restarts=by_rule, limit=of_rule, name="maxRestarts of the rule")
            return
        if not _comes(counted, most, limited=action.counted):
            of_set = f"spec.failurePolicy.maxRestarts {most}"
            yield NEVER.at(at, action.name, restarts=counted, limit=of_set, name="spec.failurePolicy.maxRestarts")
            return
        before = action


def _comes(used: int, limit: int, *, limited: bool) -> bool:
    """Whether so many restarts are allowed, and after them an action that is `limited`, too, or not."""
    return used < limit or (used == limit and not limited)


def _stronger(before: FailureAction) -> Iterator[str]:
    return (action.name for action in ACTIONS.values() if action.reach > before.reach)
