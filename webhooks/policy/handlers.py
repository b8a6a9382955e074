"""Admission of JobSetPolicies and of exceptions: one with a fault is refused, with all its faults at once.

A policy that conflicts with another one, or has a likely unintended effect, is admitted with warnings.

The same handler serves a mutating webhook, which is called before the API server checks the schema and has better
messages, and a validating one, which gets the result of other webhooks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from api.features import FeatureGates
from kube.clock import now
from kube.errors import KubeError
from kube.model.field import FieldError, by_path
from kube.model.jsontree import dig, without_nulls
from kube.model.meta import JSON
from policy.conflicts import conflicts
from policy.evaluate import PolicySource
from policy.exception_faults import exception_faults
from policy.exception_types import read_exception
from policy.faults import cautions, faults
from policy.kinds import EXCEPTION_KIND, GROUP, KIND
from policy.types import JobSetPolicy, read_policy
from webhooks.jobset.answers import verdict
from webhooks.jobset.policies import Clock
from webhooks.jobset.schema.schema import Schema
from webhooks.review import AdmissionRequest, AdmissionResponse, Handler, nothing_to_check, request_refusal

POLICY_PATH = "/validate-policy-jobset-x-k8s-io-v1alpha1-jobsetpolicy"
EXCEPTION_PATH = "/validate-policy-jobset-x-k8s-io-v1alpha1-jobsetpolicyexception"


@dataclass(frozen=True, slots=True)
class Schemas:
    """Schemas of the CRDs of policies and of exceptions."""

    policy: Schema
    exception: Schema


def policy_handlers(
    schemas: Schemas, source: PolicySource, gates: FeatureGates, clock: Clock = now
) -> Mapping[str, Handler]:
    """The handlers by URL path. `source`: the stored policies."""
    return {
        POLICY_PATH: partial(_validate, schemas.policy, source, gates),
        EXCEPTION_PATH: partial(_validate_exception, schemas.exception, source, clock),
    }


def faults_of(schema: Schema, obj: JSON, known: Sequence[FieldError] = ()) -> tuple[list[FieldError], JobSetPolicy]:
    """The faults of a policy, and the policy itself, which can be decoded whatever its faults are.

    `known`: faults that the API server finds before any webhook, for a caller before it: unknown fields, an invalid
    name.
    """
    obj = without_nulls(obj)
    refused = schema.faults(obj)
    found = [*known, *refused]
    name = dig(obj, "metadata", "name")
    policy = read_policy({**schema.repair(obj, refused), "metadata": {"name": name if isinstance(name, str) else ""}})
    wrong = {error.path.parts for error in found}
    more = [error for error in faults(policy) if not any(_consequence(error.path.parts, parts) for parts in wrong)]
    return [*found, *more], policy


def _consequence(found: tuple[str | int, ...], wrong: tuple[str | int, ...]) -> bool:
    """Whether one path contains the other, so that a second fault there says nothing new."""
    shorter = min(len(found), len(wrong))
    return found[:shorter] == wrong[:shorter]


def _validate(
    schema: Schema, source: PolicySource, gates: FeatureGates, request: AdmissionRequest
) -> AdmissionResponse:
    """Refuse a policy with faults, whether it is created or changed; warn of likely unintended effects."""
    if answer_at_once := nothing_to_check(request):
        return answer_at_once
    found, policy = faults_of(schema, request.object or {})
    if found:
        return _answer(found, KIND, request)
    return _answer([*cautions(policy), *conflicts(policy, source.in_force, gates)], KIND, request)


def _answer(found: Sequence[FieldError], kind: str, request: AdmissionRequest) -> AdmissionResponse:
    warnings = [error for error in found if error.is_warning]
    errors = by_path(error for error in found if not error.is_warning)
    name = dig(request.object, "metadata", "name")
    return verdict(errors, warnings, GROUP, kind, name if isinstance(name, str) else "")


async def _validate_exception(
    schema: Schema, source: PolicySource, clock: Clock, request: AdmissionRequest
) -> AdmissionResponse:
    """Refuse an exception with faults, or one that its policy does not allow, unless its spec is unchanged."""
    if answer_at_once := nothing_to_check(request):
        return answer_at_once
    if request.stored is not None and dig(request.stored, "spec") == dig(request.object, "spec"):
        return AdmissionResponse()
    obj = without_nulls(request.object)
    if refused := schema.faults(obj):
        return _answer(refused, EXCEPTION_KIND, request)
    try:
        namespace = await source.namespace(request.namespace)
    except (KubeError, TimeoutError) as error:
        return request_refusal(500, "InternalError", f"the namespace cannot be read: {type(error).__name__}")
    policies = {policy.metadata.name: policy for policy in source.in_force}
    found = exception_faults(read_exception(obj), policies, namespace, clock())
    return _answer(found, EXCEPTION_KIND, request)
