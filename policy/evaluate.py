"""Finds the violations of policies by a JobSet, for admission and the command line. Pure.

A rule of a policy is a field of `spec.rules`, such as `maxTotals`. The value of the field is what the rule demands.

The work is bounded by the size of the JobSet and the number of policies. A rule reads each template once, lists of
policies have at most 64 items, and at most `MAX_FINDINGS_OF_RULE` findings of one rule are kept.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Protocol

from kube.model.field import FieldError, Rule, Severity
from kube.model.requests import Amount
from policy.exception_types import JobSetPolicyException
from policy.judged import JudgedJobSet, Namespace
from policy.limits import LimitError, Number
from policy.registry import RULES
from policy.rule import PolicyRule
from policy.types import JobSetPolicy

MAX_FINDINGS_OF_RULE = 50
"""At most this many findings of one rule of one policy are kept."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A finding that a JobSet breaks a rule of a policy."""

    policy: JobSetPolicy
    rule: str
    error: FieldError


class PolicySource(Protocol):
    """Reads policies, exceptions and namespaces."""

    @property
    def in_force(self) -> Sequence[JobSetPolicy]:
        """All policies, which are all in force, sorted by name."""

    async def namespace(self, name: str) -> Namespace:
        """The namespace of this name. Raises `KubeError` or `TimeoutError`."""

    def exceptions(self, namespace: str) -> Sequence[JobSetPolicyException]:
        """All exceptions in a namespace, also those that do not count."""


def matches(policy: JobSetPolicy, labels: dict[str, str], namespace: Namespace) -> bool:
    """Whether the policy applies to a JobSet with these labels in this namespace."""
    match = policy.spec.match
    return match.namespace_selector.matches(namespace.labels) and match.object_selector.matches(labels)


def rules_in_force(policy: JobSetPolicy) -> Iterator[tuple[PolicyRule, object]]:
    """The rules that a policy uses, each with the value of its field."""
    rules = policy.spec.rules
    for field, rule in RULES.items():
        demanded = getattr(rules, field)
        if demanded not in (None, "", False):
            yield rule, demanded


OnFailure = Callable[[JobSetPolicy, str, Exception], None]
"""Called with a policy, the name of its rule that could not be checked, and the exception that was raised."""
IsExcepted = Callable[[JobSetPolicy, str], bool]
"""Returns whether a JobSetPolicyException allows the JobSet to break this rule of the policy."""


def violations(
    policies: Sequence[JobSetPolicy],
    judged: JudgedJobSet,
    namespace: Namespace,
    old: JudgedJobSet | None = None,
    *,
    is_excepted: IsExcepted | None = None,
    on_failure: OnFailure | None = None,
) -> list[Violation]:
    """The violations by a JobSet, sorted by path, and at one path in the order of the policies.

    - `old`: the JobSet before an update. Its violations are left out unless the update makes them worse, so that a new
      policy does not block other changes of JobSets.
    - `is_excepted`: called for each broken rule. If it returns True, the violations of the rule are left out.
    - `on_failure`: called with each rule that raises an exception, and the other rules are still checked. Without
      `on_failure` the exception is raised.
    """
    result: list[Violation] = []
    for policy in policies:
        if matches(policy, judged.js.metadata.labels, namespace):
            for rule, demanded in rules_in_force(policy):
                try:
                    rule_violations = list(_rule_violations(policy, rule, demanded, judged, namespace, old))
                except Exception as error:
                    if on_failure is None:
                        raise
                    on_failure(policy, rule.name, error)
                    continue
                if rule_violations and not (is_excepted is not None and is_excepted(policy, rule.name)):
                    result += rule_violations
    return sorted(result, key=lambda violation: violation.error.path.order)


def _rule_violations(
    policy: JobSetPolicy,
    rule: PolicyRule,
    demanded: object,
    judged: JudgedJobSet,
    namespace: Namespace,
    old: JudgedJobSet | None,
) -> Iterator[Violation]:
    errors = rule.find(demanded, judged, namespace)
    if old is not None:
        errors = _new_or_worse(errors, rule.find(demanded, old, namespace))
    for error in islice(errors, MAX_FINDINGS_OF_RULE):
        yield Violation(policy, rule.name, _add_policy_name(policy, error))


def _new_or_worse(errors: Iterator[FieldError], old_errors: Iterator[FieldError]) -> Iterator[FieldError]:
    """The findings of a rule about an updated JobSet that are new, or worse than before the update.

    A number over its limit is worse if it is larger than before. Other findings are compared without indexes of lists
    in a template, since the removal of an item changes the indexes of all later items.
    """
    amounts: dict[tuple[str, str], Amount] = {}
    old_findings: Counter[tuple[object, ...]] = Counter()
    for error in old_errors:
        if isinstance(error, LimitError) and error.number is not None:
            amounts[error.number.name, error.number.replicated_job] = error.number.amount
        else:
            old_findings[_identity(error)] += 1
    for error in errors:
        if isinstance(error, LimitError) and error.number is not None:
            old_amount = amounts.get((error.number.name, error.number.replicated_job))
            if old_amount is None or error.number.amount > old_amount:
                yield error
        elif old_findings[identity := _identity(error)]:
            old_findings[identity] -= 1
        else:
            yield error


_TEMPLATE_DEPTH = 3
"""The number of parts of the path to a ReplicatedJob, such as `spec.replicatedJobs[0]`."""


def _identity(error: FieldError) -> tuple[object, ...]:
    """The key by which findings before and after an update are recognized as the same finding."""
    parts = error.path.parts
    names_in_template = tuple(part for part in parts[_TEMPLATE_DEPTH:] if isinstance(part, str))
    return error.rule, parts[:_TEMPLATE_DEPTH], names_in_template, error.detail, repr(error.value)


def numbers_by_rule(policy: JobSetPolicy, judged: JudgedJobSet, namespace: Namespace) -> dict[str, list[Number]]:
    """The numbers of a JobSet that a policy compares with limits, by the name of the rule."""
    return {
        rule.name: list(rule.numbers(demanded, judged, namespace))
        for rule, demanded in rules_in_force(policy)
        if rule.numbers is not None
    }


def _add_policy_name(policy: JobSetPolicy, error: FieldError) -> FieldError:
    """The finding with the policy's name in its text. It is a warning if the policy refuses nothing."""
    detail = f"policy {policy.metadata.name}" + (f": {error.detail}" if error.detail else "")
    rule = error.rule if policy.spec.denies or error.rule is None else as_warning(error.rule)
    return replace(error, detail=detail, rule=rule)


@lru_cache(maxsize=128)
def as_warning(rule: Rule) -> Rule:
    """The same rule with the severity of a warning."""
    return replace(rule, severity=Severity.WARNING)
