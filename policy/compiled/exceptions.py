"""Exceptions from policies, in CEL. Pure: the time is passed in.

CEL has no clock. But the API server sets `creationTimestamp` of a new object before it evaluates admission policies,
and clients cannot set it: for a new JobSet it is the current time. So an exception ends to the second in the API server
too, even if the policy is not applied again. An update has no such time, so exceptions do not count for updates: a new
violation is refused.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from policy.cel import foreign, text, texts
from policy.compiled.selectors import NAMESPACE_LABELS, OBJECT_LABELS, selector_conditions
from policy.exception_types import JobSetPolicyException
from policy.exceptions import ends_at, format_time
from policy.types import JobSetPolicy

MAX_EXCEPTIONS = 100
"""Exceptions from one policy that are compiled, the first by end. The API server ignores the others."""


def unexpired_exceptions(
    exceptions: Iterable[JobSetPolicyException], policy: JobSetPolicy, now: datetime
) -> list[tuple[JobSetPolicyException, datetime]]:
    """The exceptions from a policy that have not ended, each with its end, in the order of their names."""
    if policy.spec.exceptions is None:
        return []
    own = (each for each in exceptions if each.spec.policy == policy.metadata.name)
    ending = ((each, ends_at(each, policy.spec.exceptions, now)) for each in own)
    found = [(each, end) for each, end in ending if end is not None and now < end]
    return sorted(found, key=lambda pair: (pair[0].metadata.namespace, pair[0].metadata.name))


def exception_condition(
    rule: str, found: Sequence[tuple[JobSetPolicyException, datetime]], policy: JobSetPolicy
) -> str:
    """The condition under which a rule does not count; empty where it always does."""
    own = [_condition(each, end, policy) for each, end in found[:MAX_EXCEPTIONS] if rule in each.spec.rules]
    return " || ".join(f"({condition})" for condition in own)


def _condition(exception: JobSetPolicyException, end: datetime, policy: JobSetPolicy) -> str:
    spec = foreign(exception.spec)
    match, allowed = spec.match, policy.spec.exceptions
    conditions = ["oldObject == null", f"request.namespace == {text(exception.metadata.namespace)}"]
    if allowed is not None:
        conditions += selector_conditions(allowed.allowed_namespaces, NAMESPACE_LABELS)
    if match.names is not None:
        conditions.append(f"object.metadata.name in {texts(match.names)}")
    conditions += selector_conditions(match.object_selector, OBJECT_LABELS)
    conditions.append(f"timestamp(object.metadata.creationTimestamp) < timestamp({text(format_time(end))})")
    return " && ".join(conditions)
