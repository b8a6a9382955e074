"""The rights to write without which no JobSet can be carried out: readiness fails while one is missing, and names it.

Missing rights to read show in the caches, which are not filled then.
"""

import asyncio
import logging

import msgspec

from api.keys import GROUP, PLURAL
from app.health import Health, fails, passes
from kube.client import Client
from kube.errors import KubeError
from kube.resources import Resource

log = logging.getLogger(__name__)

REVIEWS = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
"""Every user may create them."""

NEEDED = (
    ("batch", "jobs", "", "create"),
    ("batch", "jobs", "", "delete"),
    ("batch", "jobs", "", "patch"),
    ("", "services", "", "create"),
    (GROUP, PLURAL, "status", "patch"),
)
"""Group, resource, subresource and verb. Other rights are needed by some sets only; a set that lacks one says so."""

ASK_AGAIN = 10.0
"""Seconds until the rights are asked for again while one is missing."""


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = True
    """An API server says it in any case."""


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


async def watch_rights(client: Client, health: Health) -> None:
    """Tell `health` about missing rights until there are none. What it cannot find out counts as granted."""
    said = ""
    while missing := [lack for lack in await asyncio.gather(*(_lack(client, *right) for right in NEEDED)) if lack]:
        fault = f"the manager may not {', '.join(missing)}: apply its ClusterRoles with --force-conflicts"
        if fault != said:
            log.warning("not ready: %s", fault)
            said = fault
        health.set_readiness("rights", fails(fault))
        await asyncio.sleep(ASK_AGAIN)
    health.set_readiness("rights", passes)


async def _lack(client: Client, group: str, resource: str, subresource: str, verb: str) -> str:
    """The right in words if it is missing, else ""."""
    attributes = {"group": group, "resource": resource, "subresource": subresource, "verb": verb}
    body = {
        "apiVersion": REVIEWS.api_version,
        "kind": REVIEWS.kind,
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    try:
        review = await client.create(REVIEWS, body, type=_Review)
    except KubeError as error:
        log.info("whether the manager may %s %s is not known: %s", verb, resource, error)
        return ""
    where = f"{resource}/{subresource}" if subresource else resource
    return "" if review.status.allowed else f"{verb} {where}{group and '.'}{group}"
