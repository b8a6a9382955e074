"""Finds out which kinds of scheduling groups the API server serves, and watches these kinds.

Scheduling groups are the kinds Workload, PodGroup and CompositePodGroup of scheduling.k8s.io, by which kube-scheduler
places pods. They are off by default and may be turned on while the manager runs, so the look-up is repeated.
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
from api.gangs import COMPOSITE, POD_GROUP, WORKLOAD
from api.jobset import JobSet
from controllers.indexes import BY_OWNER, controller_uid, key_of_children
from controllers.planning.observed import KnownGroups
from kube.client import Client
from kube.controller import Request
from kube.decode import convert
from kube.errors import KubeError
from kube.informer import Informer
from kube.model.meta import JSON, Identity
from kube.resources import COMPOSITE_POD_GROUPS, POD_GROUPS, WORKLOADS
from kube.workqueue import WorkQueue

log = logging.getLogger(__name__)

RESOURCES = {WORKLOAD: WORKLOADS, POD_GROUP: POD_GROUPS, COMPOSITE: COMPOSITE_POD_GROUPS}
"""The resource of each kind."""
RECORDS: dict[str, Any] = {WORKLOAD: StoredWorkload, POD_GROUP: StoredGroup, COMPOSITE: StoredGroup}
"""The type into which the objects of each kind are decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Seconds until the next look-up while a kind is `missing`, and when all kinds are served (`complete`)."""

    missing: float = 15.0
    complete: float = 300.0


PAUSES = Pauses()


class GroupWatches:
    """Watches the groups that exist, and looks up the served kinds. Without the feature gate no request is sent.

    `required`: whether Jobs wait if the API server lacks a kind that they need (see `KnownGroups`).
    """

    def __init__(self, client: Client, gates: FeatureGates, *, required: bool = True, pauses: Pauses = PAUSES) -> None:
        self._pauses = pauses
        self._client = client
        self._required = required
        self.by_kind: dict[str, Informer[Any]] = {
            kind: Informer(
                client, resource, RECORDS[kind], indexes={BY_OWNER: controller_uid}, label_selector=keys.JOBSET_NAME
            )
            for kind, resource in RESOURCES.items()
        }
        self._change_handlers: list[Callable[[], None]] = []
        self.served = Served(enabled=gates[GATE])
        """The kinds of `scheduling.k8s.io` that the API server serves.

        Remembered: for 15 s, or 5 minutes if all kinds are served. Gangs wait up to that long."""

    def overlay(self, kind: str, stored: JSON) -> None:
        """Put an object that the API server has returned into the cache."""
        self.by_kind[kind].store.overlay(convert(RECORDS[kind], stored))

    def known_groups(self, js: JobSet, error: tuple[str, str] | None) -> KnownGroups | None:
        """The groups of a set; None if the set has none and wants none. `error`: see `KnownGroups`."""
        children = key_of_children(js)
        groups = {kind: tuple(informer.store.by_index(BY_OWNER, children)) for kind, informer in self.by_kind.items()}
        if js.spec.scheduling is None and not any(groups.values()):
            return None
        return KnownGroups(self.served, self._required, error, groups[WORKLOAD], groups[COMPOSITE], groups[POD_GROUP])

    def feed(self, queue: WorkQueue[Request], owners: Callable[[Identity], Iterable[Request]]) -> None:
        """From now on, put the JobSet of every changed group into the queue."""
        for informer in self.by_kind.values():
            informer.enqueue(queue, lambda group: owners(group.metadata))

    def on_change(self, handler: Callable[[], None]) -> None:
        """From now on, call the handler when the served kinds have changed."""
        self._change_handlers.append(handler)

    async def run(self) -> None:
        """Watch until cancelled."""
        if not self.served.enabled:
            return
        async with asyncio.TaskGroup() as group:
            watched_plurals: set[str] = set()
            while True:
                served = await self._look_up()
                for informer in self._served_informers(served):
                    if informer.target.resource.plural not in watched_plurals:
                        watched_plurals.add(informer.target.resource.plural)
                        group.create_task(informer.run(), name=f"watch-{informer.target.resource}")
                is_complete = await self._set_served(served) and served.groups and served.composites
                await asyncio.sleep(self._pauses.complete if is_complete else self._pauses.missing)

    def _served_informers(self, served: Served) -> list[Informer[Any]]:
        """The informers of the kinds that are served."""
        is_served = {WORKLOAD: served.groups, POD_GROUP: served.groups, COMPOSITE: served.composites}
        return [informer for kind, informer in self.by_kind.items() if is_served[kind]]

    async def _set_served(self, served: Served) -> bool:
        """Set `self.served` once the caches of these kinds are synced. Returns whether the caches are synced."""
        try:
            for informer in self._served_informers(served):
                await informer.wait_synced(self._pauses.missing)
        except KubeError as error:
            log.warning("groups cannot be listed yet: %s", error)
            return False
        if served != self.served:
            log.info("scheduling groups of the API server: %s", served)
            self.served = served
            for handler in self._change_handlers:
                handler()
        return True

    async def _look_up(self) -> Served:
        """The kinds that the API server serves; after an error the kinds that it served before."""
        try:
            groups = {WORKLOADS.plural, POD_GROUPS.plural} <= await self._client.served_resources(
                POD_GROUPS.api_version
            )
            composites = COMPOSITE_POD_GROUPS.plural in await self._client.served_resources(
                COMPOSITE_POD_GROUPS.api_version
            )
            topology = composites or (groups and await self._keeps_topology())
            version = None if groups else await self._client.server_version()
        except (KubeError, TimeoutError) as error:
            log.warning("what is served of %s is not known: %s", POD_GROUPS.group, error)
            return self.served
        composites = groups and composites
        return replace(self.served, groups=groups, composites=composites, topology=topology, version=version)

    async def _keeps_topology(self) -> bool:
        """Whether the API server stores the topology constraints of a PodGroup; found out by a dry run."""
        dry_run_result = await self._client.create(POD_GROUPS, PROBE, namespace=PROBE_NAMESPACE, dry_run=True)
        return keeps_topology(dry_run_result)
