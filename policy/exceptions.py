"""Decides whether an exception counts, for admission and the command line. The caller passes the time. Pure.

An exception (JobSetPolicyException) allows JobSets of its namespace to break rules of a policy until a time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from policy.evaluate import rules_in_force
from policy.exception_types import JobSetPolicyException
from policy.fields import seconds_of
from policy.judged import JudgedJobSet, Namespace
from policy.mismatch import namespace_mismatch
from policy.namespaces import DEFAULT
from policy.types import Exceptions, JobSetPolicy

IN_FORCE: Final = "InForce"
EXPIRED: Final = "Expired"
"""Reason of the condition InForce of an exception that has ended, and its action in metrics."""
NOT_ALLOWED: Final = "NotAllowed"
NO_POLICY: Final = "NoPolicy"
NO_RULE: Final = "NoRule"

EARLIEST = datetime.min.replace(tzinfo=UTC)
"""A time before the end of every exception."""

Excused = Mapping[tuple[str, str], str]
"""The names of exceptions, by the names of the policy and of its rule that a JobSet may break by the exception."""


def duration_of(text: str) -> timedelta:
    """The duration of a text such as `12h`; 0 for a text that is not a duration."""
    return timedelta(seconds=seconds_of(text))


def time_of(text: str) -> datetime | None:
    """The time of a text in ISO 8601; None for other texts, and for times without a time zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if time.tzinfo is None else time


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether an exception counts, and until when.

    - `why_not`: why the exception does not count; empty if it counts.
    - `end_time`: when the exception ends; None if it is not known.
    - `reason`: the reason of the condition InForce.
    - `missing_rules`: the names of rules of the exception that its policy does not have.
    """

    why_not: str = ""
    end_time: datetime | None = None
    reason: str = IN_FORCE
    missing_rules: tuple[str, ...] = ()


def standing(
    exception: JobSetPolicyException, policy: JobSetPolicy | None, namespace: Namespace | None, now: datetime
) -> Standing:
    """Whether an exception in this namespace counts now. `policy`: the policy that it names; None if it does not exist.

    If `namespace` is None, its labels are not known, and the policy is assumed to allow exceptions in it. An exception
    that is not stored yet is assumed to be created now.
    """
    name = exception.spec.policy
    if policy is None:
        return Standing(f"there is no policy {name}", reason=NO_POLICY)
    allowed = policy.spec.exceptions
    if allowed is None:
        return Standing(f"policy {name} allows no exceptions", reason=NOT_ALLOWED)
    if namespace is not None and not allowed.allowed_namespaces.matches(namespace.labels):
        reason = namespace_mismatch(allowed.allowed_namespaces, "exceptions.allowedNamespaces", namespace)
        return Standing(f"policy {name} allows no exceptions in this namespace: {reason}", reason=NOT_ALLOWED)
    end_time = ends_at(exception, allowed, now)
    if end_time is None:
        return Standing("expiresAt is not a time with a time zone", reason=NOT_ALLOWED)
    return _standing_until(exception, policy, end_time, now)


def _standing_until(
    exception: JobSetPolicyException, policy: JobSetPolicy, end_time: datetime, now: datetime
) -> Standing:
    """Whether an exception counts now that its policy allows until `end_time`."""
    if now >= end_time:
        return Standing(f"it ended at {format_time(end_time)}", end_time, EXPIRED)
    rules_of_policy = {rule.name for rule, _ in rules_in_force(policy)}
    missing_rules = tuple(rule for rule in exception.spec.rules if rule not in rules_of_policy)
    if len(missing_rules) == len(exception.spec.rules):
        why_not = f"policy {policy.metadata.name} has no rule {' or '.join(missing_rules)}"
        return Standing(why_not, end_time, NO_RULE, missing_rules)
    return Standing("", end_time, missing_rules=missing_rules)


def ends_at(exception: JobSetPolicyException, allowed: Exceptions, now: datetime) -> datetime | None:
    """The end of an allowed exception, by `expiresAt` or earlier by its policy; None if `expiresAt` is not a time."""
    expires = time_of(exception.spec.expires_at)
    created = time_of(exception.metadata.creation_timestamp or "") or now
    return None if expires is None else min(expires, created + duration_of(allowed.max_duration))


def format_time(time: datetime) -> str:
    """The time in RFC 3339, with Z for UTC."""
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")


def excused_rules(
    exceptions: Iterable[JobSetPolicyException],
    policies: Sequence[JobSetPolicy],
    judged: JudgedJobSet,
    namespace: Namespace,
    now: datetime,
) -> Excused:
    """The rules that a JobSet may break now, each with the first exception, by name, that allows it.

    `exceptions`: all exceptions in the namespace of the JobSet.
    """
    policies_by_name = {policy.metadata.name: policy for policy in policies}
    excused: dict[tuple[str, str], str] = {}
    for exception in sorted(exceptions, key=lambda item: item.metadata.name):
        if _is_about(exception, judged):
            policy = exception.spec.policy
            if not standing(exception, policies_by_name.get(policy), namespace, now).why_not:
                for rule in exception.spec.rules:
                    excused.setdefault((policy, rule), exception.metadata.name)
    return excused


def _is_about(exception: JobSetPolicyException, judged: JudgedJobSet) -> bool:
    """Whether the exception selects the JobSet."""
    match, meta = exception.spec.match, judged.js.metadata
    return (match.names is None or meta.name in match.names) and match.object_selector.matches(meta.labels)


def namespace_exceptions(exceptions: Sequence[JobSetPolicyException], name: str) -> list[JobSetPolicyException]:
    """The exceptions in a namespace. A manifest without a namespace is for `default`."""
    return [item for item in exceptions if (item.metadata.namespace or DEFAULT) == (name or DEFAULT)]
