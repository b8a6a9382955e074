"""Puts together the checks of admission, for the manager, the command line and the benchmark alike."""

from functools import cache
from typing import TYPE_CHECKING

from api.features import FeatureGates
from kube.model.meta import JSON
from manifests.definition import crd, exception_crd, policy_crd
from webhooks.jobset.engine import Engine
from webhooks.jobset.schema.schema import Schema
from webhooks.jobset.subject import DEFAULT_LIMITS, SetLimits

if TYPE_CHECKING:
    from webhooks.policy.handlers import Schemas


def engine(gates: FeatureGates, limits: SetLimits = DEFAULT_LIMITS) -> Engine:
    """The checks for these feature gates and limits of one JobSet."""
    return Engine(gates, _schema(), limits)


@cache
def crd_schema() -> JSON:
    """The `openAPIV3Schema` of the CRD."""
    schema: JSON = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@cache
def policy_schema() -> Schema:
    """The schema of JobSetPolicies."""
    return Schema(policy_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


@cache
def exception_schema() -> Schema:
    """The schema of JobSetPolicyExceptions."""
    return Schema(exception_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def policy_schemas() -> "Schemas":
    """The schemas of policies and exceptions."""
    from webhooks.policy.handlers import Schemas  # noqa: PLC0415 (all rules of policies, which JobSets do not need)

    return Schemas(policy_schema(), exception_schema())


@cache
def _schema() -> Schema:
    return Schema(crd_schema())
