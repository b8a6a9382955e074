"""The stage of caches. Every replica fills its caches, so that a new leader starts with full caches."""

import logging

from app.health import Health, passes
from app.heap import freeze
from app.manager.api_server import NOT_SERVED
from app.manager.options import Deps
from controllers.jobset.watches import Watches
from controllers.placement.watches import PlacementWatches

log = logging.getLogger(__name__)

SYNC_TIMEOUT = 120.0
"""Seconds for filling the caches of the JobSet controller, and as many again for the caches of exclusive placement."""


def start_placement_watches(deps: Deps) -> PlacementWatches:
    """Caches that admission of pods and the placement controller read. They are filled once a Job needs them."""
    watches = PlacementWatches(deps.client)
    deps.supervisor.start(watches.run(), "placement-watches")
    return watches


async def fill_caches(deps: Deps, health: Health, placement: PlacementWatches) -> Watches:
    """Wait for all caches of the JobSet controller and return them.

    Readiness fails until the caches are filled, and names the missing ones. Later it fails while the API server does
    not serve JobSets. Raises `kube.informer.SyncTimeoutError`, which names the caches that are missing after
    `SYNC_TIMEOUT`.
    """
    settings = deps.options.settings
    watches = Watches(
        deps.client,
        deps.options.gates,
        groups_required=settings.scheduling.when_unavailable == "Hold",
        failed_node_taints=settings.node_failure.taints,
    )

    async def unfilled_caches() -> str | None:
        return "; ".join(dict.fromkeys([*watches.unsynced_reasons, *placement.unsynced_reasons])) or None

    async def missing_crd() -> str | None:
        return NOT_SERVED if watches.jobsets.not_served else None

    placement.begin_with(watches.jobs)
    health.set_readiness("caches", unfilled_caches)
    health.set_readiness("crd", missing_crd)
    deps.supervisor.start(watches.run(), "watches")
    await watches.wait_synced(SYNC_TIMEOUT)
    await placement.wait_synced(SYNC_TIMEOUT)  # after the Jobs, which decide whether its caches are needed
    health.set_readiness("caches", passes)
    freeze()
    log.info("caches are synced: %d JobSets, %d Jobs", len(watches.jobsets.store), len(watches.jobs.store))
    return watches
