"""The webhook configurations of an API server: read, and switched off or on."""

from kube.client import Client
from kube.clock import now, rfc3339
from kube.errors import Conflict, NotFound
from kube.model.meta import JSON
from kube.resources import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS, Resource
from manifests.installed.webhook_switch import State, look, switched_off, switched_on
from manifests.naming import MUTATING_CONFIGURATION, VALIDATING_CONFIGURATION

CONFIGURATIONS = (
    (MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_CONFIGURATION),
    (VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING_CONFIGURATION),
)
TRIES = 5
"""Tries to write one configuration that others write, too: the manager renews its CA bundle."""


async def switch(client: Client, resource: Resource, name: str, wanted: str) -> JSON | None:
    """Bring one configuration into the wanted state; returns the stored result."""
    for last in (False,) * (TRIES - 1) + (True,):
        try:
            stored: JSON | None = await client.get(resource, name)
        except NotFound:
            stored = None
        found = look(resource.kind, name, stored)
        if stored is None or wanted == "status" or found.state is State.MISSING or found.state.value == wanted:
            return stored
        body = switched_off(stored, rfc3339(now())) if wanted == "off" else switched_on(stored)
        try:
            return await client.replace(resource, name, body)
        except Conflict:
            if last:
                raise
    raise AssertionError("unreachable: the last conflict is raised")
