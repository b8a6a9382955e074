"""Reads policies, exceptions and namespaces of a cluster, with the rights of the user."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cli.session import NoRightError
from kube.client import Client
from kube.errors import Forbidden, KubeError, NotFound
from kube.options import COMMAND_TIMEOUT
from kube.resources import NAMESPACES, Resource
from policy.exception_types import JobSetPolicyException
from policy.judged import Namespace
from policy.namespaces import NamespaceMetadata, annotation_keys
from policy.types import JobSetPolicy, JobSetPolicyObject
from webhooks.policy.watches import JOBSET_POLICIES, POLICY_EXCEPTIONS


class NoNamespaceError(KubeError):
    """A namespace does not exist."""


def no_right(error: Forbidden, resource: Resource) -> NoRightError:
    """The error that the user lacks the right to read a resource."""
    is_policy = resource.group == JOBSET_POLICIES.group
    role = ", which the ClusterRole jobset-policy-viewer-role has" if is_policy else ""
    return NoRightError(f"{error}; ask for the right to read {resource}{role}")


async def stored_policies(client: Client) -> list[JobSetPolicyObject]:
    """The policies with their status, sorted by name. Raises `KubeError`."""
    try:
        policies = [
            policy async for policy in client.pages(JOBSET_POLICIES, type=JobSetPolicyObject, timeout=COMMAND_TIMEOUT)
        ]
    except NotFound as error:
        raise KubeError("the cluster does not serve JobSetPolicies: apply manifests/policy first") from error
    except Forbidden as error:
        raise no_right(error, JOBSET_POLICIES) from error
    return sorted(policies, key=lambda policy: policy.metadata.name)


async def stored_exceptions(client: Client, namespace: str | None) -> dict[str, list[JobSetPolicyException]]:
    """The exceptions by namespace; empty if the cluster does not serve them. `namespace`: None for all namespaces."""
    exceptions: dict[str, list[JobSetPolicyException]] = {}
    try:
        pages = client.pages(
            POLICY_EXCEPTIONS, type=JobSetPolicyException, namespace=namespace, timeout=COMMAND_TIMEOUT
        )
        async for exception in pages:
            exceptions.setdefault(exception.metadata.namespace, []).append(exception)
    except NotFound:
        return {}
    except Forbidden as error:
        raise no_right(error, POLICY_EXCEPTIONS) from error
    return exceptions


@dataclass(slots=True)
class Namespaces:
    """Reads namespaces with the fields that policies need. Each namespace is requested once."""

    client: Client
    policies: Sequence[JobSetPolicy]
    _cache: dict[str, Namespace] = field(default_factory=dict)

    async def get(self, name: str) -> Namespace:
        """The namespace of this name. Raises `KubeError`, and `NoNamespaceError` if it does not exist."""
        if name not in self._cache:
            try:
                metadata = await self.client.get(NAMESPACES, name, type=NamespaceMetadata, timeout=COMMAND_TIMEOUT)
            except NotFound as error:
                raise NoNamespaceError(f"there is no namespace {name}") from error
            except Forbidden as error:
                raise no_right(error, NAMESPACES) from error
            self._cache[name] = metadata.known(annotation_keys(self.policies)).namespace
        return self._cache[name]
