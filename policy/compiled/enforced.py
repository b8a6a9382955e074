"""The admission policies by which the API server enforces a JobSetPolicy. Pure."""

from collections.abc import Sequence
from typing import Final

from api.features import FeatureGates
from kube.model.meta import JSON
from policy.compiled.defaults import mutating_objects
from policy.compiled.policy import Circumstances, validating_objects
from policy.kinds import API_VERSION, GROUP, KIND
from policy.types import JobSetPolicy

ENFORCED: Final = f"{GROUP}/enforced"
"""Label of the objects that the manager applies and keeps up to date."""


def enforced_objects(
    policy: JobSetPolicy, policies: Sequence[JobSetPolicy], circumstances: Circumstances, gates: FeatureGates
) -> list[JSON]:
    """The admission policies and bindings for a JobSetPolicy; empty unless the API server enforces the policy.

    The JobSetPolicy owns these objects. Rules that only warn or record are not compiled, since the webhooks warn.
    `policies`: all policies in force.
    """
    if not policy.spec.is_enforced_by_api_server:
        return []
    rules = validating_objects(policy, circumstances) if policy.spec.denies else []
    return [_with_owner(body, policy) for body in [*rules, *mutating_objects(policy, policies, gates)]]


def _with_owner(body: JSON, policy: JobSetPolicy) -> JSON:
    meta = policy.metadata
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": meta.name, "uid": meta.uid, "controller": True}
    labels = {**body["metadata"]["labels"], ENFORCED: "true"}
    return {**body, "metadata": {**body["metadata"], "labels": labels, "ownerReferences": [owner]}}
