"""The rights without which no JobSet can be carried out: readiness fails while one is missing, and names it.

Missing rights to list show in the caches, which are not filled then.
"""

import asyncio
import logging
from typing import NamedTuple

import msgspec

from api.keys import GROUP, PLURAL
from app.health import Health, fails, passes
from kube.client import Client
from kube.errors import KubeError
from kube.leader import LeaseConfig
from kube.resources import LEASES, Resource

log = logging.getLogger(__name__)

REVIEWS = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
"""Every user may create them."""


class Right(NamedTuple):
    """Attributes of a SelfSubjectAccessReview; namespace and name "" stand for all."""

    group: str
    resource: str
    subresource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {where}{self.group and '.'}{self.group}"


NEEDED = (
    Right("batch", "jobs", "", "create"),
    Right("batch", "jobs", "", "delete"),
    Right("batch", "jobs", "", "patch"),
    Right("", "services", "", "create"),
    Right(GROUP, PLURAL, "status", "patch"),
    Right(GROUP, PLURAL, "", "watch"),
    Right("batch", "jobs", "", "watch"),
    Right("", "services", "", "watch"),
    Right("", "persistentvolumeclaims", "", "watch"),
    Right("scheduling.k8s.io", "priorityclasses", "", "watch"),
    Right("", "pods", "", "watch"),
    Right("", "nodes", "", "watch"),
)
"""What the ClusterRoles grant. Other rights are needed by some sets only; a set that lacks one says so."""

APPLY = "kubectl apply --server-side --force-conflicts -k manifests/rbac"
"""For all of them, whoever has changed them."""

ASK_AGAIN = 10.0
"""Seconds until the rights are asked for again while one is missing."""

LOG_EVERY = 60.0
"""Seconds between two warnings about the same missing rights."""


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = True
    """An API server says it in any case."""


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


async def watch_rights(client: Client, health: Health, lease: LeaseConfig | None) -> None:
    """Tell `health` about missing rights until there are none. What it cannot find out counts as granted.

    `lease`: the one of the leader; None where there is no election.
    """
    said, say_again_at = "", 0.0
    while fault := await _fault(client, lease):
        now = asyncio.get_running_loop().time()
        if fault != said or now >= say_again_at:
            log.warning("not ready: %s", fault)
            said, say_again_at = fault, now + LOG_EVERY
        health.set_readiness("rights", fails(fault))
        await asyncio.sleep(ASK_AGAIN)
    health.set_readiness("rights", passes)


def lease_rights(lease: LeaseConfig) -> tuple[Right, ...]:
    """What the Role for leader election grants. A right to create has no name."""
    of, where = (LEASES.group, LEASES.plural, ""), lease.namespace
    return (
        Right(*of, "get", where, lease.name),
        Right(*of, "create", where),
        Right(*of, "patch", where, lease.name),
    )


async def _fault(client: Client, lease: LeaseConfig | None) -> str:
    """What is missing, and what to do about it; "" for nothing."""
    faults = []
    if missing := await _missing(client, NEEDED):
        faults.append(f"the manager may not {missing}: apply its ClusterRoles again: {APPLY}")
    if lease is not None and (missing := await _missing(client, lease_rights(lease))):
        faults.append(
            f"the manager may not {missing} in namespace {lease.namespace}, so it cannot lead: apply its Role"
            f" jobset-leader-election-role and the RoleBinding there again: {APPLY}"
        )
    return "; ".join(faults)


async def _missing(client: Client, rights: tuple[Right, ...]) -> str:
    allowed = await asyncio.gather(*(_allowed(client, right) for right in rights))
    return ", ".join(str(right) for right, granted in zip(rights, allowed, strict=True) if not granted)


async def _allowed(client: Client, right: Right) -> bool:
    attributes = {key: value for key, value in right._asdict().items() if value}
    body = {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind, "spec": {"resourceAttributes": attributes}}
    try:
        review = await client.create(REVIEWS, body, type=_Review)
    except KubeError as error:
        log.info("whether the manager may %s is not known: %s", right, error)
        return True
    return review.status.allowed
