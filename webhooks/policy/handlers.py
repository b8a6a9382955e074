"""Admission of JobSetPolicies and of exceptions from them. A refusal names all faults of the object at once.

A policy that conflicts with another policy, or has an effect that is probably not intended, is admitted with warnings.

Each handler serves a mutating webhook, which runs before the API server checks the schema and has better messages than
the schema, and a validating webhook, which gets the object as other webhooks have changed it.
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
from webhooks.jobset.answers import review_answer
from webhooks.jobset.policies import Clock
from webhooks.jobset.schema.schema import Schema
from webhooks.review import AdmissionRequest, AdmissionResponse, Handler, answer_without_object, request_refusal

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
        POLICY_PATH: partial(_review_policy, schemas.policy, source, gates),
        EXCEPTION_PATH: partial(_review_exception, schemas.exception, source, clock),
    }


def faults_of(
    schema: Schema, obj: JSON, known_faults: Sequence[FieldError] = ()
) -> tuple[list[FieldError], JobSetPolicy]:
    """The faults of a policy, and the policy without the values that the schema refuses.

    `known_faults`: faults that the caller has found before, such as unknown fields and an invalid name.
    """
    obj = without_nulls(obj)
    schema_faults = schema.faults(obj)
    errors = [*known_faults, *schema_faults]
    name = dig(obj, "metadata", "name")
    metadata = {"name": name if isinstance(name, str) else ""}
    policy = read_policy({**schema.repair(obj, schema_faults), "metadata": metadata})
    wrong_paths = {error.path for error in errors}
    rule_faults = [error for error in faults(policy) if not any(map(error.path.overlaps, wrong_paths))]
    return [*errors, *rule_faults], policy


def _review_policy(
    schema: Schema, source: PolicySource, gates: FeatureGates, request: AdmissionRequest
) -> AdmissionResponse:
    """Refuse a policy with faults. Warn of conflicts, and of effects that are probably not intended."""
    if answer_at_once := answer_without_object(request):
        return answer_at_once
    errors, policy = faults_of(schema, request.object or {})
    findings = errors or [*cautions(policy), *conflicts(policy, source.in_force, gates)]
    return _answer(findings, KIND, request)


def _answer(findings: Sequence[FieldError], kind: str, request: AdmissionRequest) -> AdmissionResponse:
    warnings = [error for error in findings if error.is_warning]
    errors = by_path(error for error in findings if not error.is_warning)
    name = dig(request.object, "metadata", "name")
    return review_answer(errors, warnings, GROUP, kind, name if isinstance(name, str) else "")


async def _review_exception(
    schema: Schema, source: PolicySource, clock: Clock, request: AdmissionRequest
) -> AdmissionResponse:
    """Refuse an exception that has faults or that its policy does not allow, unless its spec is unchanged."""
    if answer_at_once := answer_without_object(request):
        return answer_at_once
    if request.stored_object is not None and dig(request.stored_object, "spec") == dig(request.object, "spec"):
        return AdmissionResponse()
    obj = without_nulls(request.object)
    if schema_faults := schema.faults(obj):
        return _answer(schema_faults, EXCEPTION_KIND, request)
    try:
        namespace = await source.namespace(request.namespace)
    except (KubeError, TimeoutError) as error:
        return request_refusal(500, "InternalError", f"the namespace cannot be read: {type(error).__name__}")
    policies = {policy.metadata.name: policy for policy in source.in_force}
    errors = exception_faults(read_exception(obj), policies, namespace, clock())
    return _answer(errors, EXCEPTION_KIND, request)
