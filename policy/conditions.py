"""The conditions in the status of policies and exceptions. The caller passes the time. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from api.features import FeatureGates
from kube.model.field import FieldError, shorten
from kube.model.meta import Condition, find, is_true
from policy.conflicts import conflicts
from policy.exception_types import JobSetPolicyException
from policy.exceptions import EXPIRED, IN_FORCE, Standing, format_time
from policy.faults import faults
from policy.status_types import API_SERVER, FORGEABLE, JobSetPolicyExceptionStatus, JobSetPolicyStatus
from policy.types import JobSetPolicy

READY: Final = "Ready"
CONFLICTING: Final = "Conflicting"
IN_API_SERVER: Final = "InAPIServer"
USED: Final = "Used"

FIRST_USED: Final = "FirstUsed"

MAX_NAMED_ERRORS = 5
"""At most this many faults or conflicts are in a message, followed by the number of further ones."""
MAX_TEXT = 300
"""At most this many characters of one fault or conflict are in a message."""

Conditions = tuple[Condition, ...]


class EnforcementState(NamedTuple):
    """The condition InAPIServer of a policy. `holds`: its status, whether the API server enforces the policy."""

    holds: bool
    reason: str
    message: str


def policy_status(
    policy: JobSetPolicy,
    status: JobSetPolicyStatus,
    policies: Sequence[JobSetPolicy],
    gates: FeatureGates,
    at: str,
    enforcement: EnforcementState | None = None,
) -> JobSetPolicyStatus:
    """The status of a policy with its present conditions. `policies`: all policies. `at`: the time, RFC 3339.

    If `enforcement` is None, it is not known yet, and the condition InAPIServer stays as it is.
    """
    own_faults = faults(policy)
    message = _join_errors(own_faults) if own_faults else "the policy is in force"
    reason = "Faulty" if own_faults else IN_FORCE
    conditions = _put(status.conditions, READY, not own_faults, reason, message, at)
    contradictions = conflicts(policy, policies, gates)
    if contradictions:
        conditions = _put(conditions, CONFLICTING, True, "ContradictingDefaults", _join_errors(contradictions), at)
    elif find(conditions, CONFLICTING) is not None:
        conditions = _put(conditions, CONFLICTING, False, "NoConflict", "defaults and other policies agree", at)
    if not policy.spec.is_enforced_by_api_server:
        conditions = tuple(condition for condition in conditions if condition.type != IN_API_SERVER)
    elif enforcement is not None:
        conditions = _put(conditions, IN_API_SERVER, enforcement.holds, enforcement.reason, enforcement.message, at)
    return msgspec.structs.replace(status, conditions=conditions, observed_generation=policy.metadata.generation)


def exception_status(exception: JobSetPolicyException, standing: Standing, at: str) -> JobSetPolicyExceptionStatus:
    """The present status of an exception. `standing`: whether the exception counts now, and until when."""
    status = exception.status
    until = None if standing.end_time is None else format_time(standing.end_time)
    message = standing.why_not or f"it counts until {until}"
    if standing.missing_rules and not standing.why_not:
        message += f"; the policy has no rule {' or '.join(standing.missing_rules)}"
    conditions = _put(status.conditions, IN_FORCE, not standing.why_not, standing.reason, message, at)
    if status.first_used is not None:
        message = f"it was first used at {status.first_used}"
        if status.reviews_from != API_SERVER:
            message += f"; {FORGEABLE}"
        conditions = _put(conditions, USED, True, FIRST_USED, message, at)
    return msgspec.structs.replace(status, conditions=conditions, until=until)


def reportable_conditions(before: JobSetPolicyExceptionStatus, after: JobSetPolicyExceptionStatus) -> list[Condition]:
    """The conditions that report the first use or the end of an exception in `after`, but not in `before`."""
    reportable: list[Condition] = []
    if is_true(after.conditions, USED) and not is_true(before.conditions, USED):
        reportable += [condition for condition in after.conditions if condition.type == USED]
    old, new = find(before.conditions, IN_FORCE), find(after.conditions, IN_FORCE)
    if new is not None and new.reason == EXPIRED and (old is None or old.reason != EXPIRED):
        reportable.append(new)
    return reportable


def _join_errors(errors: Iterable[FieldError]) -> str:
    texts = [shorten(error.reader_text, MAX_TEXT) for error in errors]
    more = [f"and {len(texts) - MAX_NAMED_ERRORS} more"] if len(texts) > MAX_NAMED_ERRORS else []
    return "; ".join([*texts[:MAX_NAMED_ERRORS], *more])


def _put(conditions: Conditions, kind: str, status: bool, reason: str, message: str, at: str) -> Conditions:
    """The conditions with one added or replaced. A replaced condition of the same status keeps its transition time."""
    old, status_text = find(conditions, kind), "True" if status else "False"
    since = old.last_transition_time if old is not None and old.status == status_text else at
    new = Condition(type=kind, status=status_text, reason=reason, message=message, last_transition_time=since)
    if old is None:
        return (*conditions, new)
    return tuple(new if condition.type == kind else condition for condition in conditions)
