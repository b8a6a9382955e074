"""Reads the webhook configurations of an API server, and switches them off or on."""

from kube.client import Client
from kube.clock import now, rfc3339
from kube.errors import Conflict, NotFound
from kube.model.meta import JSON
from kube.resources import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS, Resource
from manifests.installed.webhook_switch import State, configuration_state, switched_off, switched_on
from manifests.naming import MUTATING_CONFIGURATION, VALIDATING_CONFIGURATION

CONFIGURATIONS = (
    (MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_CONFIGURATION),
    (VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING_CONFIGURATION),
)
TRIES = 5
"""Number of tries to write one configuration, which the manager writes, too, when it renews the CA bundle."""


async def switch(client: Client, resource: Resource, name: str, wanted: str) -> JSON | None:
    """Switch one configuration `off` or `on`, or only read it for `status`. Returns the stored result."""
    for is_last_try in (False,) * (TRIES - 1) + (True,):
        try:
            stored: JSON | None = await client.get(resource, name)
        except NotFound:
            stored = None
        configuration = configuration_state(resource.kind, name, stored)
        if (
            stored is None
            or wanted == "status"
            or configuration.state is State.MISSING
            or configuration.state.value == wanted
        ):
            return stored
        body = switched_off(stored, rfc3339(now())) if wanted == "off" else switched_on(stored)
        try:
            return await client.replace(resource, name, body)
        except Conflict:
            if is_last_try:
                raise
    raise AssertionError("unreachable: the last conflict is raised")
