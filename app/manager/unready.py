"""Writes into an annotation of the manager's lease why this manager is not ready.

A user who sees only the lease would otherwise not know that the manager runs: it takes the lease only after its caches
are filled. A manager without a right to write takes the lease, but cannot do its work.
"""

import asyncio
import contextlib
import socket
from datetime import datetime
from typing import Final

import msgspec

from api.keys import NOT_READY
from app.health import Health
from kube import clock
from kube.client import Client
from kube.errors import AlreadyExists, KubeError, NotFound
from kube.leader import LeaseConfig
from kube.model.field import shorten
from kube.model.meta import seconds_between
from kube.resources import LEASES

CHECK_PERIOD: Final = 10.0
"""Seconds between two checks of readiness. Most managers are ready before the first check."""
REWRITE_SECONDS: Final = 30.0
"""Seconds after which the same reasons are written again, with a new time."""
HELD_LEASE_DURATIONS: Final = 2
"""After a renewal, the lease counts as held for this many lease durations. No manager annotates another's lease."""
MAX_CHARACTERS: Final = 500
"""Largest number of characters of the reasons."""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    renew_time: str | None = None


class _Lease(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


async def note_unready(client: Client, health: Health, lease: LeaseConfig) -> None:
    """Keep the annotation of the lease up to date until this manager is ready, then remove it.

    The next leader removes it, too. A failed write is retried at the next check.
    """
    note = _Note(client, lease)
    await asyncio.sleep(CHECK_PERIOD)
    while faults := await health.unready():
        with contextlib.suppress(KubeError, TimeoutError):
            await note.write(shorten("; ".join(dict.fromkeys(faults.values())), MAX_CHARACTERS))
        await asyncio.sleep(CHECK_PERIOD)
    with contextlib.suppress(KubeError, TimeoutError):
        await note.remove()


class _Note:
    """The annotation that this manager has written."""

    def __init__(self, client: Client, lease: LeaseConfig) -> None:
        self._client = client
        self._lease = lease
        self._written_reason = ""
        self._expires_at = 0.0

    async def write(self, reason: str) -> None:
        """Write the reasons, if they are new or were written `REWRITE_SECONDS` seconds ago."""
        now, moment = asyncio.get_running_loop().time(), clock.now()
        if (reason == self._written_reason and now < self._expires_at) or await self._another_leads(moment):
            return
        await self._annotate(f"{clock.rfc3339(moment)} {socket.gethostname()}: {reason}")
        self._written_reason, self._expires_at = reason, now + REWRITE_SECONDS

    async def remove(self) -> None:
        """Remove the annotation, if this manager has written it."""
        if self._written_reason:
            await self._annotate(None)

    async def _another_leads(self, now: datetime) -> bool:
        try:
            stored_lease = await self._client.get(
                LEASES, self._lease.name, type=_Lease, namespace=self._lease.namespace
            )
        except NotFound:
            return False
        holder, renew_time = stored_lease.spec.holder_identity or "", stored_lease.spec.renew_time
        if not holder or not renew_time or holder.partition("_")[0] == socket.gethostname():
            return False
        return seconds_between(renew_time, clock.rfc3339(now)) < HELD_LEASE_DURATIONS * self._lease.lease_duration

    async def _annotate(self, text: str | None) -> None:
        name, namespace = self._lease.name, self._lease.namespace
        metadata = {"annotations": {NOT_READY: text}}
        try:
            await self._client.patch(LEASES, name, {"metadata": metadata}, type=_Lease, namespace=namespace)
        except NotFound:
            if text is None:
                return
            body = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": name, **metadata}}
            with contextlib.suppress(AlreadyExists):
                await self._client.create(LEASES, body, type=_Lease, namespace=namespace)
