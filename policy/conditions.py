"""The conditions of policies and of exceptions. Pure: the time is passed in."""

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

MAX_SAID = 5
"""Faults and conflicts that a message names; the rest is counted."""
MAX_TEXT = 300
"""Characters of one fault or conflict."""

Conditions = tuple[Condition, ...]


class EnforcementState(NamedTuple):
    """Whether the API server enforces a policy that asks for it."""

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
    """The status with the conditions that the policy has now. `policies`: all in force.

    `enforcement` None: not known yet, so the condition about it stays.
    """
    wrong = faults(policy)
    ready = _join_errors(wrong) if wrong else "the policy is in force"
    conditions = _with(status.conditions, READY, not wrong, "Faulty" if wrong else IN_FORCE, ready, at)
    against = conflicts(policy, policies, gates)
    if against:
        conditions = _with(conditions, CONFLICTING, True, "ContradictingDefaults", _join_errors(against), at)
    elif find(conditions, CONFLICTING) is not None:
        conditions = _with(conditions, CONFLICTING, False, "NoConflict", "defaults and other policies agree", at)
    if not policy.spec.is_enforced_by_api_server:
        conditions = tuple(each for each in conditions if each.type != IN_API_SERVER)
    elif enforcement is not None:
        conditions = _with(conditions, IN_API_SERVER, enforcement.holds, enforcement.reason, enforcement.message, at)
    return msgspec.structs.replace(status, conditions=conditions, observed_generation=policy.metadata.generation)


def exception_status(exception: JobSetPolicyException, stands: Standing, at: str) -> JobSetPolicyExceptionStatus:
    """The status that an exception has now."""
    status = exception.status
    until = None if stands.until is None else format_time(stands.until)
    message = stands.why_not or f"it counts until {until}"
    if stands.absent and not stands.why_not:
        message += f"; the policy has no rule {' or '.join(stands.absent)}"
    conditions = _with(status.conditions, IN_FORCE, not stands.why_not, stands.reason, message, at)
    if status.first_used is not None:
        used = f"it was first used at {status.first_used}"
        if status.reviews_from != API_SERVER:
            used += f"; {FORGEABLE}"
        conditions = _with(conditions, USED, True, FIRST_USED, used, at)
    return msgspec.structs.replace(status, conditions=conditions, until=until)


def reportable_conditions(before: JobSetPolicyExceptionStatus, after: JobSetPolicyExceptionStatus) -> list[Condition]:
    """New conditions of an exception about its first use or its end."""
    found: list[Condition] = []
    if is_true(after.conditions, USED) and not is_true(before.conditions, USED):
        found += [each for each in after.conditions if each.type == USED]
    old, new = find(before.conditions, IN_FORCE), find(after.conditions, IN_FORCE)
    if new is not None and new.reason == EXPIRED and (old is None or old.reason != EXPIRED):
        found.append(new)
    return found


def _join_errors(found: Iterable[FieldError]) -> str:
    texts = [shorten(error.reader_text, MAX_TEXT) for error in found]
    more = [f"and {len(texts) - MAX_SAID} more"] if len(texts) > MAX_SAID else []
    return "; ".join([*texts[:MAX_SAID], *more])


def _with(conditions: Conditions, kind: str, status: bool, reason: str, message: str, at: str) -> Conditions:
    """The conditions with this one added or replaced. The transition time is kept while the status is the same."""
    old, value = find(conditions, kind), "True" if status else "False"
    since = old.last_transition_time if old is not None and old.status == value else at
    new = Condition(type=kind, status=value, reason=reason, message=message, last_transition_time=since)
    if old is None:
        return (*conditions, new)
    return tuple(new if each.type == kind else each for each in conditions)
