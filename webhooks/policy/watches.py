"""Watches JobSetPolicies, and namespaces as far as policies read them, while the API server serves policies.

The CRD of policies may be installed and removed while the manager runs, so the look-up is repeated. Without it nothing
is watched. Must not decide anything about JobSets.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from api.jobset_policy.judged import Namespace
from api.jobset_policy.namespaces import KnownNamespace, NamespaceMetadata, annotation_keys, keeping
from api.jobset_policy.types import API_VERSION, GROUP, KIND, PLURAL, VERSION, JobSetPolicy
from kube.client import Client
from kube.errors import KubeError
from kube.informer import Informer, SyncTimeoutError
from kube.resources import NAMESPACES, Resource

log = logging.getLogger(__name__)

JOBSET_POLICIES = Resource(GROUP, VERSION, KIND, PLURAL, namespaced=False)
READ_TIMEOUT = 2.0
"""Seconds for a namespace that is not in the cache."""

READS = 16
"""Such namespaces that are read at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Seconds until the next look-up: while no answer came yet, without the CRD of policies, and with it.

    `log_every`: the least time between two reports that policies cannot be listed.
    """

    unanswered: float = 1.0
    absent: float = 15.0
    present: float = 300.0
    log_every: float = 60.0


PAUSES = Pauses()
Beside = Callable[[], Coroutine[Any, Any, None]]


class PolicyWatches:
    """The policies in force, and the namespaces. One for each process that serves admission.

    `beside`: what else runs, until it is cancelled, while the API server serves policies.
    """

    def __init__(self, client: Client, *, beside: Sequence[Beside] = (), pauses: Pauses = PAUSES) -> None:
        self._client = client
        self._beside = beside
        self._pauses = pauses
        self._settled = asyncio.Event()
        self._problem = "no answer yet"
        self._reads = asyncio.Semaphore(READS)
        self._namespaces: Informer[KnownNamespace] | None = None
        self._asked: frozenset[str] = frozenset()
        self.in_force: tuple[JobSetPolicy, ...] = ()
        """By name."""

    async def wait_settled(self, timeout: float) -> None:
        """Wait until the policies are known, or it is known that the API server serves none.

        Raises `SyncTimeoutError` after `timeout` seconds: without them admission would let pass what they deny.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._settled.wait()
        except TimeoutError:
            raise SyncTimeoutError(f"{JOBSET_POLICIES}: not known after {timeout:g} s: {self._problem}") from None

    async def namespace(self, name: str) -> Namespace:
        """A namespace as policies read it: from the cache, or from the API server if it is too new for that.

        Raises `KubeError` or `TimeoutError`.
        """
        asked = self._asked
        known = self._namespaces and self._namespaces.store.get("", name)
        if known and known.asked >= asked:
            return known.read
        async with asyncio.timeout(READ_TIMEOUT), self._reads:
            sent = await self._client.get(NAMESPACES, name, type=NamespaceMetadata, timeout=READ_TIMEOUT)
        return keeping(lambda: asked)(sent).read

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            served = await self._served()
            if served:
                await self._watch()
            elif served is None:
                await asyncio.sleep(self._pauses.unanswered)
            else:
                self._settled.set()
                await asyncio.sleep(self._pauses.absent)

    async def _served(self) -> bool | None:
        """Whether the API server serves policies; None if there is no answer."""
        try:
            return PLURAL in await self._client.served(API_VERSION)
        except (KubeError, TimeoutError) as error:
            self._problem = str(error)
            log.warning("whether %s are served is not known: %s", JOBSET_POLICIES, error)
            return None

    async def _watch(self) -> None:
        """Watch until the API server does not serve policies any more."""
        policies: Informer[JobSetPolicy] = Informer(self._client, JOBSET_POLICIES, JobSetPolicy)
        self._namespaces = Informer(
            self._client,
            NAMESPACES,
            NamespaceMetadata,  # type: ignore[arg-type]  # what is decoded; the transform gives what is kept
            transform=keeping(lambda: self._asked),
            metadata_only=True,
        )
        policies.on_event(lambda *_: self._take(policies))
        async with asyncio.TaskGroup() as group:
            parts = [policies.run(), self._namespaces.run(), *(each() for each in self._beside)]
            tasks = [group.create_task(part) for part in parts]
            await self._sync(policies)
            while await self._served() is not False:  # noqa: ASYNC110 -- discovery cannot be watched
                await asyncio.sleep(self._pauses.present)
            for task in tasks:
                task.cancel()
        log.info("%s are not served any more", JOBSET_POLICIES)
        self._namespaces, self._asked, self.in_force = None, frozenset(), ()

    async def _sync(self, policies: Informer[JobSetPolicy]) -> None:
        """Wait for the first list."""
        while not policies.synced:
            try:
                await policies.wait_synced(self._pauses.log_every)
            except SyncTimeoutError as error:
                self._problem = str(error)
                log.warning("no policy is in force: %s", error)
                if await self._served() is False:
                    return
        self._take(policies)
        self._settled.set()
        log.info("policies are in force: %d", len(self.in_force))

    def _take(self, policies: Informer[JobSetPolicy]) -> None:
        """What the informer has is in force. Namespaces are listed again for annotations that nobody asked for yet."""
        if not policies.synced:
            return
        self.in_force = tuple(sorted(policies.store.list(), key=lambda policy: policy.metadata.name))
        asked = annotation_keys(self.in_force)
        more = not asked <= self._asked
        self._asked = asked
        if more and self._namespaces is not None:
            self._namespaces.relist()
