"""Names of the API of policies, apart from their records, which take time and memory to import."""

from typing import Final, NamedTuple

from api.keys import GROUP as JOBSET_GROUP

GROUP: Final = f"policy.{JOBSET_GROUP}"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "JobSetPolicy"
PLURAL: Final = "jobsetpolicies"
EXCEPTION_KIND: Final = "JobSetPolicyException"
EXCEPTION_PLURAL: Final = "jobsetpolicyexceptions"

GATE: Final = "JobSetPolicies"
"""The feature gate with which admission applies policies."""


class PolicyId(NamedTuple):
    """The identity of a policy for counts. A policy that is created again has another UID, and so another identity."""

    name: str
    uid: str
