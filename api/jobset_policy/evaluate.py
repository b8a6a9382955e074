"""Policies and a JobSet: what it breaks, in order of path. The one function for admission and the command line. Pure.

Work is bounded by the size of the JobSet and the number of policies: a rule looks once at each template, lists of
policies have at most 64 items, and of one rule at most `MOST_OF_A_RULE` findings are kept.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from api.field import FieldError, Rule, Severity
from api.jobset_policy.judged import Judged, Namespace, Number
from api.jobset_policy.registry import RULES
from api.jobset_policy.rules.words import PolicyRule
from api.jobset_policy.types import JobSetPolicy

MOST_OF_A_RULE = 50
"""Findings of one rule of one policy that are kept."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One finding: the policy and its rule, and what is said about which place."""

    policy: JobSetPolicy
    rule: str
    error: FieldError


def matches(policy: JobSetPolicy, judged: Judged, namespace: Namespace) -> bool:
    """Whether the policy is about this JobSet."""
    match = policy.spec.match
    return match.namespace_selector.matches(namespace.labels) and match.object_selector.matches(
        judged.js.metadata.labels
    )


def in_force(policy: JobSetPolicy) -> Iterator[tuple[PolicyRule, object]]:
    """The rules that a policy has, with what it demands."""
    rules = policy.spec.rules
    for field, rule in RULES.items():
        demanded = getattr(rules, field)
        if demanded not in (None, "", False):
            yield rule, demanded


Failed = Callable[[JobSetPolicy, str, Exception], None]
"""Hears of the policy and rule that could not be checked, and of the exception."""


def violations(
    policies: Sequence[JobSetPolicy],
    judged: Judged,
    namespace: Namespace,
    old: Judged | None = None,
    *,
    failed: Failed | None = None,
) -> list[Violation]:
    """What a JobSet breaks, by path, and at one path in the order of the policies.

    `old`: the JobSet before an update. What it breaks in the same way already is no reason to refuse the update: a
    policy that came later stops nobody from changing something else. `failed`: hears of each rule that raises an
    exception, and the other rules are checked all the same; without it the exception is raised.
    """
    found: list[Violation] = []
    for policy in policies:
        if matches(policy, judged, namespace):
            for rule, demanded in in_force(policy):
                try:
                    found += tuple(_of_rule(policy, rule, demanded, judged, namespace, old))
                except Exception as error:
                    if failed is None:
                        raise
                    failed(policy, rule.name, error)
    return sorted(found, key=lambda violation: violation.error.path.order)


def _of_rule(
    policy: JobSetPolicy,
    rule: PolicyRule,
    demanded: object,
    judged: Judged,
    namespace: Namespace,
    old: Judged | None,
) -> Iterator[Violation]:
    found = rule.find(demanded, judged, namespace)
    if old is not None:
        before = {_what(error) for error in rule.find(demanded, old, namespace)}
        found = (error for error in found if _what(error) not in before)
    for error in islice(found, MOST_OF_A_RULE):
        yield Violation(policy, rule.name, _said_by(policy, error))


def _what(error: FieldError) -> tuple[object, ...]:
    return error.rule, error.path, error.detail, repr(error.value)


def numbers(policy: JobSetPolicy, judged: Judged, namespace: Namespace) -> dict[str, list[Number]]:
    """The numbers that a policy compares with limits, by rule: what an explanation shows."""
    return {
        rule.name: list(rule.numbers(demanded, judged, namespace))
        for rule, demanded in in_force(policy)
        if rule.numbers is not None
    }


def _said_by(policy: JobSetPolicy, error: FieldError) -> FieldError:
    """The finding in the policy's name: a warning, if the policy does not refuse the JobSet."""
    detail = f"policy {policy.metadata.name}" + (f": {error.detail}" if error.detail else "")
    rule = error.rule if policy.spec.denies or error.rule is None else _as_warning(error.rule)
    return replace(error, detail=detail, rule=rule)


@lru_cache(maxsize=128)
def _as_warning(rule: Rule) -> Rule:
    return replace(rule, severity=Severity.WARNING)
