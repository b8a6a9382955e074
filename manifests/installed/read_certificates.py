"""Reads the objects that `certificates` needs."""

import contextlib

from api.keys import GROUP, PLURAL
from kube.client import Client
from kube.errors import Forbidden
from kube.model.meta import JSON
from kube.reader import Reader
from kube.resources import CRDS, MUTATING_WEBHOOK_CONFIGURATIONS, SECRETS, VALIDATING_WEBHOOK_CONFIGURATIONS
from manifests.installed.answering import unreachable_services
from manifests.installed.certificates import InstalledObjects
from manifests.installed.configurations import CONFIGURATIONS
from manifests.naming import POLICY_MUTATING_CONFIGURATION, POLICY_VALIDATING_CONFIGURATION

_OF_POLICIES = (
    (MUTATING_WEBHOOK_CONFIGURATIONS, POLICY_MUTATING_CONFIGURATION),
    (VALIDATING_WEBHOOK_CONFIGURATIONS, POLICY_VALIDATING_CONFIGURATION),
)
"""The webhook configurations of manifests/policy, which not every installation has."""
_CRD = f"{PLURAL}.{GROUP}"


async def read_certificates(client: Client, namespace: str, secret: str) -> InstalledObjects:
    """Read the Secret, the configurations, the CRD, and the endpoints of Services."""
    reader = Reader(client, namespace)
    stored_secret = await reader.get(SECRETS, JSON, secret)
    configurations = {(kind.kind, name): await reader.get(kind, JSON, name) for kind, name in CONFIGURATIONS}
    for kind, name in _OF_POLICIES:
        with contextlib.suppress(Forbidden):  # few installations have these, so the caller may lack the right
            if stored := await reader.get(kind, JSON, name):
                configurations[kind.kind, name] = stored
    return InstalledObjects(
        f"{namespace}/{secret}",
        stored_secret,
        configurations,
        _CRD,
        await reader.get(CRDS, JSON, _CRD),
        tuple(await unreachable_services(client, configurations.values())),
    )
