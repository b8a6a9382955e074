"""Checks the manager's RBAC rights that all JobSets or the settings need. Readiness fails while one is missing.

This module does not check rights to list objects. While such a right is missing, readiness fails in `caches`.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import NamedTuple

from api.keys import GROUP, PLURAL
from app.health import Health, fails, passes
from app.manager.options import Options
from app.settings import LOOK_UPS, LookUp
from kube.client import Client
from kube.errors import KubeError
from kube.interruptions import APPLY_ROLES, LOG_EVERY
from kube.leader import LeaseConfig
from kube.resources import LEASES
from kube.reviews import has_right

log = logging.getLogger(__name__)


class Right(NamedTuple):
    """An RBAC right, as attributes of a SelfSubjectAccessReview. An empty namespace or name stands for all."""

    group: str
    resource: str
    subresource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        resource_path = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {resource_path}{self.group and '.'}{self.group}"


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
"""Rights that the ClusterRoles grant and every JobSet needs. A JobSet that needs more reports a missing right."""

FILES: dict[LookUp, str] = {"ConfigMaps": "config-maps.yaml", "Secrets": "secrets.yaml"}
"""The file in manifests/references that grants the right for each kind that admission looks up."""

ASK_AGAIN = 10.0
"""Seconds between two checks while a right is missing."""


async def watch_rights(
    client: Client, health: Health, lease: LeaseConfig | None, look_ups: Collection[LookUp] = ()
) -> None:
    """Report missing rights to `health` until none is missing. A right that cannot be checked counts as granted.

    `lease`: the lease of the leader; None without leader election. `look_ups`: kinds that admission looks up.
    """
    last_warning, warn_again_at = "", 0.0
    while fault := await _rights_fault(client, lease, look_ups):
        now = asyncio.get_running_loop().time()
        if fault != last_warning or now >= warn_again_at:
            log.warning("not ready: %s", fault)
            last_warning, warn_again_at = fault, now + LOG_EVERY
        health.set_readiness("rights", fails(fault))
        await asyncio.sleep(ASK_AGAIN)
    health.set_readiness("rights", passes)


def lease_rights(lease: LeaseConfig) -> tuple[Right, ...]:
    """The rights that the Role for leader election grants. RBAC cannot restrict a right to create to a name."""
    leases, namespace = (LEASES.group, LEASES.plural, ""), lease.namespace
    return (
        Right(*leases, "get", namespace, lease.name),
        Right(*leases, "create", namespace),
        Right(*leases, "patch", namespace, lease.name),
    )


def look_ups_of(options: Options) -> Collection[LookUp]:
    """The kinds that admission looks up by `childDryRun.lookUp`."""
    dry_run = options.settings.child_dry_run
    return dry_run.look_up if dry_run.enable and options.webhooks else ()


def look_up_right(look_up: LookUp) -> Right:
    """The right that the ClusterRole of a look-up grants."""
    resource = LOOK_UPS[look_up]
    return Right(resource.group, resource.plural, "", "get")


async def _rights_fault(client: Client, lease: LeaseConfig | None, look_ups: Collection[LookUp]) -> str:
    """The missing rights with their fixes, in one line; "" if no right is missing."""
    texts = []
    if missing := await _missing_rights(client, NEEDED):
        texts.append(f"the manager may not {missing}: apply its ClusterRoles again: {APPLY_ROLES}")
    if lease is not None and (missing := await _missing_rights(client, lease_rights(lease))):
        texts.append(
            f"the manager may not {missing} in namespace {lease.namespace}, so it cannot lead: apply its Role"
            f" jobset-leader-election-role and the RoleBinding there again: {APPLY_ROLES}"
        )
    texts += [
        f"the manager may not {missing}: take {look_up} out of childDryRun.lookUp, or grant the right:"
        f" kubectl apply --server-side --force-conflicts -f manifests/references/{FILES[look_up]}"
        for look_up in look_ups
        if (missing := await _missing_rights(client, (look_up_right(look_up),)))
    ]
    return "; ".join(texts)


async def _missing_rights(client: Client, rights: tuple[Right, ...]) -> str:
    are_granted = await asyncio.gather(*(_is_allowed(client, right) for right in rights))
    return ", ".join(str(right) for right, granted in zip(rights, are_granted, strict=True) if not granted)


async def _is_allowed(client: Client, right: Right) -> bool:
    attributes = {key: value for key, value in right._asdict().items() if value}
    try:
        return await has_right(client, attributes)
    except KubeError as error:
        log.info("whether the manager may %s is not known: %s", right, error)
        return True
