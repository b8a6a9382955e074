"""Looks up which kinds of scheduling groups the API server serves, and watches those.

The API is off by default and may be turned on while the manager runs, so the look-up is repeated. Must not decide
anything about groups.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from api import keys
from api.features import FeatureGates
from api.gang_api import GATE, PROBE, PROBE_NAMESPACE, Served, keeps_topology
from api.gang_status import StoredGroup, StoredWorkload
from api.jobset import JobSet
from controllers.gang.execute import Stores
from controllers.indexes import BY_OWNER, controller_uid, key_of_children
from controllers.planning.observed import KnownGroups
from kube.client import Client
from kube.controller import Request
from kube.errors import KubeError
from kube.informer import Informer
from kube.model.meta import Identity
from kube.resources import COMPOSITE_POD_GROUPS, POD_GROUPS, WORKLOADS
from kube.workqueue import WorkQueue

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Seconds until the next look-up: while a kind is `missing`, and when the API is `complete`."""

    missing: float = 15.0
    complete: float = 300.0


PAUSES = Pauses()


class GroupWatches:
    """The groups that exist, and the kinds that are served. Without the feature gate no request is sent."""

    def __init__(self, client: Client, gates: FeatureGates, *, required: bool = True, pauses: Pauses = PAUSES) -> None:
        self._pauses = pauses
        self._client = client
        self._required = required
        by_owner = {BY_OWNER: controller_uid}
        ours = keys.JOBSET_NAME
        self._workloads = Informer(client, WORKLOADS, StoredWorkload, indexes=by_owner, label_selector=ours)
        self._composites = Informer(client, COMPOSITE_POD_GROUPS, StoredGroup, indexes=by_owner, label_selector=ours)
        self._pod_groups = Informer(client, POD_GROUPS, StoredGroup, indexes=by_owner, label_selector=ours)
        self._handlers: list[Callable[[], None]] = []
        self.served = Served(enabled=gates[GATE])
        """What the API server serves of `scheduling.k8s.io`.

        Remembered: for 15 s, or 5 minutes if it serves all. Gangs wait up to that long.
        """

    def stores(self) -> Stores:
        """What writes fill."""
        return Stores(self._workloads.store, self._composites.store, self._pod_groups.store)

    def known_groups(self, js: JobSet, error: tuple[str, str] | None) -> KnownGroups | None:
        """The groups of a set; None if it has none and wants none. `error`: see `KnownGroups`."""
        children = key_of_children(js)
        workloads = tuple(self._workloads.store.by_index(BY_OWNER, children))
        composites = tuple(self._composites.store.by_index(BY_OWNER, children))
        pod_groups = tuple(self._pod_groups.store.by_index(BY_OWNER, children))
        if js.spec.scheduling is None and not (workloads or composites or pod_groups):
            return None
        return KnownGroups(self.served, self._required, error, workloads, composites, pod_groups)

    def feed(self, queue: WorkQueue[Request], owners: Callable[[Identity], Iterable[Request]]) -> None:
        """From now on, put the JobSet of every change into the queue."""
        informers: list[Informer[Any]] = [self._workloads, self._composites, self._pod_groups]
        for informer in informers:
            informer.enqueue(queue, lambda group: owners(group.metadata))

    def on_change(self, handler: Callable[[], None]) -> None:
        """Call the handler when the API server serves other kinds than before."""
        self._handlers.append(handler)

    async def run(self) -> None:
        """Watch until cancelled."""
        if not self.served.enabled:
            return
        async with asyncio.TaskGroup() as group:
            started: set[str] = set()
            while True:
                found = await self._look()
                for informer in self._served_informers(found):
                    if informer.target.resource.plural not in started:
                        started.add(informer.target.resource.plural)
                        group.create_task(informer.run(), name=f"watch-{informer.target.resource}")
                complete = await self._settle(found) and found.groups and found.composites
                await asyncio.sleep(self._pauses.complete if complete else self._pauses.missing)

    def _served_informers(self, found: Served) -> list[Informer[Any]]:
        groups: list[Informer[Any]] = [self._workloads, self._pod_groups] if found.groups else []
        return [*groups, self._composites] if found.composites else groups

    async def _settle(self, found: Served) -> bool:
        """Set `served` once the caches are synced; False if they are not yet."""
        try:
            for informer in self._served_informers(found):
                await informer.wait_synced(self._pauses.missing)
        except KubeError as error:
            log.warning("groups cannot be listed yet: %s", error)
            return False
        if found != self.served:
            log.info("scheduling groups of the API server: %s", found)
            self.served = found
            for handler in self._handlers:
                handler()
        return True

    async def _look(self) -> Served:
        """What the API server serves; after an error, what it served before."""
        try:
            groups = {WORKLOADS.plural, POD_GROUPS.plural} <= await self._client.served_resources(
                POD_GROUPS.api_version
            )
            composites = COMPOSITE_POD_GROUPS.plural in await self._client.served_resources(
                COMPOSITE_POD_GROUPS.api_version
            )
            topology = composites or (groups and await self._keeps_topology())
        except (KubeError, TimeoutError) as error:
            log.warning("what is served of %s is not known: %s", POD_GROUPS.group, error)
            return self.served
        return replace(self.served, groups=groups, composites=groups and composites, topology=topology)

    async def _keeps_topology(self) -> bool:
        tried = await self._client.create(POD_GROUPS, PROBE, namespace=PROBE_NAMESPACE, dry_run=True)
        return keeps_topology(tried)
