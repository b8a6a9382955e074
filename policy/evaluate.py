"""The violations of policies by a JobSet, in order of path. The one function for admission and the command line. Pure.

Work is bounded by the size of the JobSet and the number of policies: a rule reads each template once, lists of policies
have at most 64 items, and at most `MAX_OF_A_RULE` findings of one rule are kept.
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

MAX_OF_A_RULE = 50
"""Findings of one rule of one policy that are kept, at most."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One finding: the policy, its rule, the path and the text."""

    policy: JobSetPolicy
    rule: str
    error: FieldError


class PolicySource(Protocol):
    """Where policies, exceptions from them and namespaces come from."""

    @property
    def in_force(self) -> Sequence[JobSetPolicy]:
        """The policies, by name."""

    async def namespace(self, name: str) -> Namespace:
        """A namespace. Raises `KubeError` or `TimeoutError`."""

    def exceptions(self, namespace: str) -> Sequence[JobSetPolicyException]:
        """The exceptions in a namespace, whether they count or not."""


def matches(policy: JobSetPolicy, labels: dict[str, str], namespace: Namespace) -> bool:
    """Whether the policy applies to a JobSet with these labels in this namespace."""
    match = policy.spec.match
    return match.namespace_selector.matches(namespace.labels) and match.object_selector.matches(labels)


def rules_in_force(policy: JobSetPolicy) -> Iterator[tuple[PolicyRule, object]]:
    """The rules that a policy has, with what it demands."""
    rules = policy.spec.rules
    for field, rule in RULES.items():
        demanded = getattr(rules, field)
        if demanded not in (None, "", False):
            yield rule, demanded


Failed = Callable[[JobSetPolicy, str, Exception], None]
"""Called with the policy and rule that could not be checked, and the exception."""
Excepted = Callable[[JobSetPolicy, str], bool]
"""Whether there is an exception from a rule of a policy: called for each violated rule."""


def violations(
    policies: Sequence[JobSetPolicy],
    judged: JudgedJobSet,
    namespace: Namespace,
    old: JudgedJobSet | None = None,
    *,
    excepted: Excepted | None = None,
    failed: Failed | None = None,
) -> list[Violation]:
    """The violations by a JobSet, by path, and at one path in the order of the policies.

    `old`: the JobSet before an update. Its violations do not refuse the update, unless the update makes them worse: a
    later policy must not block other changes. `excepted`: whether a violated rule does not count. `failed`: called with
    each rule that raises an exception, while other rules are still checked; without it the exception is raised.
    """
    found: list[Violation] = []
    for policy in policies:
        if matches(policy, judged.js.metadata.labels, namespace):
            for rule, demanded in rules_in_force(policy):
                try:
                    broken = list(_rule_violations(policy, rule, demanded, judged, namespace, old))
                except Exception as error:
                    if failed is None:
                        raise
                    failed(policy, rule.name, error)
                    continue
                if broken and not (excepted is not None and excepted(policy, rule.name)):
                    found += broken
    return sorted(found, key=lambda violation: violation.error.path.order)


def _rule_violations(
    policy: JobSetPolicy,
    rule: PolicyRule,
    demanded: object,
    judged: JudgedJobSet,
    namespace: Namespace,
    old: JudgedJobSet | None,
) -> Iterator[Violation]:
    found = rule.find(demanded, judged, namespace)
    if old is not None:
        found = _new_or_worse(found, rule.find(demanded, old, namespace))
    for error in islice(found, MAX_OF_A_RULE):
        yield Violation(policy, rule.name, _said_by(policy, error))


def _new_or_worse(found: Iterator[FieldError], before: Iterator[FieldError]) -> Iterator[FieldError]:
    """Findings of a rule about a new object, without those that the old one had as well.

    A number over its limit is worse if it is larger than it was. Anything else is compared without its index in a list
    of its template: removing an item changes the indexes of those after it.
    """
    amounts: dict[tuple[str, str], Amount] = {}
    known: Counter[tuple[object, ...]] = Counter()
    for error in before:
        if isinstance(error, LimitError) and error.number is not None:
            amounts[error.number.name, error.number.replicated_job] = error.number.amount
        else:
            known[_identity(error)] += 1
    for error in found:
        if isinstance(error, LimitError) and error.number is not None:
            most = amounts.get((error.number.name, error.number.replicated_job))
            if most is None or error.number.amount > most:
                yield error
        elif known[identity := _identity(error)]:
            known[identity] -= 1
        else:
            yield error


_OF_TEMPLATE = 3
"""Parts of a path that lead to a ReplicatedJob: `spec.replicatedJobs[0]`."""


def _identity(error: FieldError) -> tuple[object, ...]:
    parts = error.path.parts
    inside = tuple(part for part in parts[_OF_TEMPLATE:] if isinstance(part, str))
    return error.rule, parts[:_OF_TEMPLATE], inside, error.detail, repr(error.value)


def numbers(policy: JobSetPolicy, judged: JudgedJobSet, namespace: Namespace) -> dict[str, list[Number]]:
    """The numbers that a policy compares with limits, by rule: what an explanation shows."""
    return {
        rule.name: list(rule.numbers(demanded, judged, namespace))
        for rule, demanded in rules_in_force(policy)
        if rule.numbers is not None
    }


def _said_by(policy: JobSetPolicy, error: FieldError) -> FieldError:
    """The finding with the policy's name; a warning if the policy does not refuse the JobSet."""
    detail = f"policy {policy.metadata.name}" + (f": {error.detail}" if error.detail else "")
    rule = error.rule if policy.spec.denies or error.rule is None else as_warning(error.rule)
    return replace(error, detail=detail, rule=rule)


@lru_cache(maxsize=128)
def as_warning(rule: Rule) -> Rule:
    """The rule of a finding that refuses nothing."""
    return replace(rule, severity=Severity.WARNING)
