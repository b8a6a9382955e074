"""Leader election by a Lease: at most one process leads, also when the network loses, delays or repeats requests.

Why it is safe:
- A leader counts its time from *before* it sent the renewal that succeeded and stops at `renew_deadline`. All other
  processes count `lease_duration` from *after* they read the Lease. The leader has the difference to stop its work.
- Only the local monotonic clock decides; times in the Lease are for people.
- Every write is conditional on the resourceVersion that was read, so a late or repeated request cannot take effect.
  After a write of unknown outcome the Lease is read again.
- Losing the Lease is fatal. The work is cancelled, `LeadershipLostError` is raised, and the process must end. When the
  work ends for any reason, renewal ends, too.
"""

import asyncio
import contextlib
import logging
import math
import random
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from kube import clock
from kube.client import Client
from kube.errors import ApiError, Conflict, Forbidden, KubeError, NotFound
from kube.interruptions import LOG_EVERY
from kube.resources import LEASES

log = logging.getLogger(__name__)

RELEASE_TIMEOUT = 3.0
"""Seconds that a clean stop may take to release the lease. Else the next leader waits for the lease to expire."""


class LeadershipLostError(KubeError):
    """Another process may lead now, so this process has to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseConfig:
    """The lease and its timing in seconds, which has the defaults of every Kubernetes controller."""

    namespace: str
    name: str
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    cleared_annotations: tuple[str, ...] = ()
    """Annotations that a new leader removes from the lease."""

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period * 1.2 > 0:
            raise ValueError(
                f"lease {self}: lease_duration ({self.lease_duration:g} s) must exceed renew_deadline "
                f"({self.renew_deadline:g} s), and that 1.2 times retry_period ({self.retry_period:g} s)"
            )

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    acquire_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()


def identity() -> str:
    """A name for this process, unique even if it is restarted on the same host within a lease."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """Takes part in an election; call `lead` once. `on_change` gets True when leading starts, False when it may end."""

    def __init__(
        self,
        client: Client,
        config: LeaseConfig,
        *,
        identity: str,
        on_change: Callable[[bool], None] | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._client = client.without_limits()
        self._config = config
        self._identity = identity
        self._on_change = on_change or (lambda _: None)
        self._jitter = jitter
        self._lease: _Lease | None = None
        self._seen_version = ""
        self._observed_at = 0.0
        self._renewed_at = float("-inf")
        self._leading = False
        self._warned: type[Exception] | None = None
        self._warn_again_at = 0.0

    @property
    def is_leader(self) -> bool:
        """Whether this process may act as the leader right now."""
        return self._leading and self._now() < self._renewed_at + self._config.renew_deadline

    def require_lease(self) -> None:
        """Raise `LeadershipLostError` unless this process leads.

        It guards writes: a process that was paused may have lost the lease.
        """
        if not self.is_leader:
            raise LeadershipLostError(f"lease {self._config} was not renewed in time: nothing is written")

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, run `work` while holding the lease, release it when `work` ends or the call is cancelled.

        Raises `LeadershipLostError` if the lease could not be kept, else the error of `work`. When the lease is lost,
        `work` is cancelled. If it has not ended when another process may start to lead, `lead` raises without waiting
        longer, and the caller must end the process.
        """
        await self._acquire()
        log.info("%s leads (lease %s)", self._identity, self._config)
        self._set_leading(True)
        task = asyncio.ensure_future(work())
        renewal = asyncio.ensure_future(self._renew_until_lost())
        try:
            await asyncio.wait({task, renewal}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._stop(task, renewal)
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                log.exception("the leading work failed while it was being stopped", exc_info=error)
            raise
        await self._stop(task, renewal)
        if not renewal.cancelled():
            renewal.result()
        await task

    async def _stop(self, task: "asyncio.Future[None]", renewal: "asyncio.Future[None]") -> None:
        """Stop the work while the lease is still being renewed, then stop renewing, then release the lease."""
        try:
            if renewal.done():
                self._set_leading(False)
            task.cancel()
            await asyncio.wait({task, renewal}, return_when=asyncio.FIRST_COMPLETED)
            if renewal.done():
                self._set_leading(False)
                await asyncio.wait({task}, timeout=self._config.lease_duration - self._config.renew_deadline)
        finally:
            renewal.cancel()
            await asyncio.wait({renewal})
            may_release = task.done() and self.is_leader
            self._set_leading(False)
        if not task.done():
            log.error("the leading work does not stop; the process must end now")
        if may_release:
            await self._release()

    def _set_leading(self, leading: bool) -> None:
        if leading != self._leading:
            self._leading = leading
            self._on_change(leading)

    async def _acquire(self) -> None:
        """Wait until this process holds the lease. Each other holder is logged once."""
        logged_holder = ""
        while True:
            if await self._try_to_renew(self._config.renew_deadline):
                return
            holder = (self._lease.spec.holder_identity if self._lease else "") or logged_holder
            if holder not in {logged_holder, self._identity}:
                logged_holder = holder
                log.info("%s holds the lease %s: %s waits until it is free", holder, self._config, self._identity)
            await asyncio.sleep(self._pause())

    async def _renew_until_lost(self) -> None:
        """Renew the lease until `LeadershipLostError`: the deadline has passed, or another process holds the lease.

        One attempt may take half the deadline, so that a single hanging request does not lose the lease.
        """
        pause = self._pause()
        while True:
            await asyncio.sleep(min(pause, max(0.0, self._seconds_left())))
            if self._seconds_left() <= 0:
                raise LeadershipLostError(
                    f"lease {self._config} was not renewed for {self._config.renew_deadline:g} s; "
                    "ending, since another replica may lead"
                )
            if await self._try_to_renew(min(self._seconds_left(), self._config.renew_deadline / 2)):
                pause = self._pause()
                continue
            holder = self._lease.spec.holder_identity if self._lease else None
            if self._lease is not None and holder != self._identity:
                problem = f"was taken by {holder}" if holder else "was released by another client"
                raise LeadershipLostError(f"lease {self._config} {problem}")
            pause = self._config.retry_period / 4

    async def _try_to_renew(self, seconds: float) -> bool:
        """Try once to take or renew the lease within that many seconds. True: it has certainly succeeded."""
        started = self._now()
        try:
            async with asyncio.timeout(seconds):
                if not await self._take_lease():
                    return False
        except (KubeError, TimeoutError) as error:
            if not _changed_meanwhile(error):
                self._warn(error)
            self._lease = None
            return False
        self._renewed_at, self._warned = started, None
        return True

    def _warn(self, error: KubeError | TimeoutError) -> None:
        """Log a failure and its remedy. Another failure of the same kind is logged after a minute."""
        now = self._now()
        if type(error) is self._warned and now < self._warn_again_at:
            return
        self._warned, self._warn_again_at = type(error), now + LOG_EVERY
        message = f"{str(error) or 'no answer in time'}{self._advice(error)}"
        log.warning("lease %s: without it nothing is reconciled: %s", self._config, message)

    def _advice(self, error: KubeError | TimeoutError) -> str:
        if isinstance(error, NotFound):
            return f"; namespace {self._config.namespace} has to exist: create it, or name another one for the lease"
        if isinstance(error, Forbidden) and not error.namespace_ends:
            return (
                f"; the manager needs the rights to get, create and patch leases in namespace {self._config.namespace}:"
                " apply its Role for leader election there again"
            )
        return ""

    async def _take_lease(self) -> bool:
        """Write the lease if it is free or held by this process. Returns whether it was written.

        The lease is read first, unless this process wrote it last.
        """
        lease = self._lease
        if lease is None or lease.spec.holder_identity != self._identity:
            lease = await self._read()
        if lease is None:
            body = {
                "apiVersion": LEASES.api_version,
                "kind": "Lease",
                "metadata": {"name": self._config.name, "namespace": self._config.namespace},
                "spec": self._new_spec(None),
            }
            self._observe(await self._client.create(LEASES, body, type=_Lease, namespace=self._config.namespace))
            return True
        if not self._is_free(lease):
            return False
        metadata: dict[str, object] = {"resourceVersion": lease.metadata.resource_version}
        if self._config.cleared_annotations and lease.spec.holder_identity != self._identity:
            metadata["annotations"] = dict.fromkeys(self._config.cleared_annotations)
        patch: dict[str, object] = {"metadata": metadata, "spec": self._new_spec(lease)}
        self._observe(await self._patch(patch))
        return True

    async def _read(self) -> _Lease | None:
        try:
            lease = await self._client.get(LEASES, self._config.name, type=_Lease, namespace=self._config.namespace)
        except NotFound:
            return None
        self._observe(lease)
        return lease

    async def _patch(self, patch: dict[str, object]) -> _Lease:
        return await self._client.patch(LEASES, self._config.name, patch, type=_Lease, namespace=self._config.namespace)

    def _observe(self, lease: _Lease) -> None:
        """Note when a version of the lease was first read: its duration counts from then, not by the writer's clock."""
        version = lease.metadata.resource_version
        if version != self._seen_version:
            self._seen_version, self._observed_at = version, self._now()
        self._lease = lease

    def _is_free(self, lease: _Lease) -> bool:
        holder = lease.spec.holder_identity
        if not holder or holder == self._identity:
            return True
        duration = lease.spec.lease_duration_seconds or self._config.lease_duration
        return self._now() >= self._observed_at + duration

    def _new_spec(self, lease: _Lease | None) -> dict[str, object]:
        moment = clock.micro_time(clock.now())
        renewing = lease is not None and lease.spec.holder_identity == self._identity
        transitions = (lease.spec.lease_transitions or 0) if lease else 0
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, math.ceil(self._config.lease_duration)),
            "acquireTime": lease.spec.acquire_time if lease and renewing else moment,
            "renewTime": moment,
            "leaseTransitions": transitions if renewing or lease is None else transitions + 1,
        }

    async def _release(self) -> None:
        """Clear the holder, so that the next leader does not have to wait. If this fails, the lease expires.

        The lease is read first, and again on a conflict, since an interrupted renewal may have been applied.
        """
        with contextlib.suppress(KubeError, TimeoutError):
            async with asyncio.timeout(RELEASE_TIMEOUT):
                while not await self._try_release():
                    continue

    async def _try_release(self) -> bool:
        lease = await self._read()
        if lease is None or lease.spec.holder_identity != self._identity:
            return True
        patch = {
            "metadata": {"resourceVersion": lease.metadata.resource_version},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": clock.micro_time(clock.now())},
        }
        try:
            await self._patch(patch)
        except Conflict:
            return False
        log.info("lease %s released", self._config)
        return True

    def _pause(self) -> float:
        return self._config.retry_period * (1 + 0.2 * self._jitter())

    def _seconds_left(self) -> float:
        return self._renewed_at + self._config.renew_deadline - self._now()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _changed_meanwhile(error: KubeError | TimeoutError) -> bool:
    """Whether another client has written, created or deleted the lease since it was read."""
    is_creation = isinstance(error, ApiError) and error.call.verb == "create"
    return isinstance(error, Conflict) or (isinstance(error, NotFound) and not is_creation)
