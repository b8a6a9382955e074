"""Admission of JobSetPolicies themselves: a policy with a fault is refused, with all its faults at once.

A policy that conflicts with another one is admitted with warnings.

The same handler serves a mutating webhook, which sees a policy before the API server's schema does and says more than
that, and a validating one, which sees what other webhooks have made of it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from api.features import FeatureGates
from api.field import FieldError, by_path, invalid_status
from api.jobset_policy.conflicts import conflicts
from api.jobset_policy.faults import faults
from api.jobset_policy.types import GROUP, KIND, JobSetPolicy, read_policy
from api.jsontree import dig, without_nulls
from api.meta import JSON
from webhooks.jobset.answers import rules_of, warning_texts
from webhooks.jobset.schema import Schema
from webhooks.review import AdmissionRequest, AdmissionResponse, Handler, denied

POLICY_PATH = "/validate-policy-jobset-x-k8s-io-v1alpha1-jobsetpolicy"


Stored = Callable[[], Sequence[JobSetPolicy]]


def policy_handlers(schema: Schema, in_force: Stored, gates: FeatureGates) -> Mapping[str, Handler]:
    """The handler by URL path. `schema`: that of policies. `in_force`: the policies that are stored already."""
    return {POLICY_PATH: partial(_validate, schema, in_force, gates)}


def faults_of(schema: Schema, obj: JSON, known: Sequence[FieldError] = ()) -> tuple[list[FieldError], JobSetPolicy]:
    """What is wrong with a policy, and the policy, readable whatever is wrong with it.

    `known`: what the API server itself says before any webhook, for a caller that comes before it: unknown fields, a
    wrong name.
    """
    obj = without_nulls(obj)
    refused = schema.faults(obj)
    found = [*known, *refused]
    name = dig(obj, "metadata", "name")
    policy = read_policy({**schema.repaired(obj, refused), "metadata": {"name": name if isinstance(name, str) else ""}})
    wrong = {error.path.parts for error in found}
    more = [error for error in faults(policy) if not any(_consequence(error.path.parts, parts) for parts in wrong)]
    return [*found, *more], policy


def _consequence(found: tuple[str | int, ...], wrong: tuple[str | int, ...]) -> bool:
    """Whether one place is part of the other: what is wrong there has been said."""
    shorter = min(len(found), len(wrong))
    return found[:shorter] == wrong[:shorter]


def _validate(schema: Schema, in_force: Stored, gates: FeatureGates, request: AdmissionRequest) -> AdmissionResponse:
    """Refuse a policy with faults, whether it is created or changed; warn of conflicts with the others."""
    if request.operation not in {"CREATE", "UPDATE"}:
        return AdmissionResponse()
    if request.object is None:
        return denied(400, "BadRequest", f"request.object is missing from a review of {request.operation}")
    found, policy = faults_of(schema, request.object)
    if not found:
        return AdmissionResponse(warnings=warning_texts(conflicts(policy, in_force(), gates)))
    status = invalid_status(by_path(found), group=GROUP, kind=KIND, name=policy.metadata.name)
    return AdmissionResponse(allowed=False, status=status, rules=rules_of(found))
