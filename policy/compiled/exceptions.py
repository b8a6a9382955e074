"""Writes exceptions from policies in CEL. Pure; the caller passes the time.

CEL has no clock. But the API server sets `creationTimestamp` of a new object before it evaluates admission policies,
and clients cannot set it. For a new JobSet it is the current time, so an exception also ends to the second in the API
server, even if the policy is not applied again. For an update there is no current time, so exceptions do not count for
updates, and new violations are refused.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from policy.cel import foreign, text, texts
from policy.compiled.selectors import NAMESPACE_LABELS, OBJECT_LABELS, selector_conditions
from policy.exception_types import JobSetPolicyException
from policy.exceptions import ends_at, format_time
from policy.types import JobSetPolicy

MAX_EXCEPTIONS = 100
"""At most this many exceptions from one policy are compiled, the first by namespace and name.

Further exceptions do not count in the API server.
"""


def unexpired_exceptions(
    exceptions: Iterable[JobSetPolicyException], policy: JobSetPolicy, now: datetime
) -> list[tuple[JobSetPolicyException, datetime]]:
    """The exceptions from a policy that have not ended, each with its end, sorted by namespace and name."""
    if policy.spec.exceptions is None:
        return []
    of_policy = (exception for exception in exceptions if exception.spec.policy == policy.metadata.name)
    with_ends = ((exception, ends_at(exception, policy.spec.exceptions, now)) for exception in of_policy)
    unexpired = [(exception, end) for exception, end in with_ends if end is not None and now < end]
    return sorted(unexpired, key=lambda pair: (pair[0].metadata.namespace, pair[0].metadata.name))


def exception_condition(
    rule: str, exceptions: Sequence[tuple[JobSetPolicyException, datetime]], policy: JobSetPolicy
) -> str:
    """CEL: true if an exception from the rule applies to the JobSet. An empty text if there is no such exception."""
    conditions = [
        _condition(exception, end, policy)
        for exception, end in exceptions[:MAX_EXCEPTIONS]
        if rule in exception.spec.rules
    ]
    return " || ".join(f"({condition})" for condition in conditions)


def _condition(exception: JobSetPolicyException, end: datetime, policy: JobSetPolicy) -> str:
    """CEL: true if the exception applies to the JobSet."""
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
