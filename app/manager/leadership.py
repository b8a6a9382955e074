"""Leader election of the manager: only the replica that holds the lease runs the controllers."""

from collections.abc import Awaitable, Callable

from api.keys import NOT_READY
from app.manager.options import Deps, Options, own_namespace
from kube.client import Client
from kube.leader import LeaderElector, LeaseConfig, identity


async def lead(deps: Deps, work: Callable[[Client], Awaitable[None]]) -> None:
    """Wait for the lease, then do `work` while this process holds it. Raises `LeadershipLostError`.

    The client that `work` gets writes only while the lease is held. Without leader election, `work` begins at once.
    """
    lease = lease_of(deps.options)
    if lease is None:
        await work(deps.client)
        return
    deps.metrics.leader(lease.name, False)
    elector = LeaderElector(
        deps.client,
        lease,
        identity=identity(),
        on_change=lambda leading: deps.metrics.leader(lease.name, leading),
    )
    await elector.lead(lambda: work(deps.client.with_guard(elector.require_lease)))


def lease_of(options: Options) -> LeaseConfig | None:
    """The lease that the settings describe; None without leader election."""
    election = options.settings.leader_election
    if not election.leader_elect:
        return None
    return LeaseConfig(
        namespace=election.resource_namespace or own_namespace(),
        name=election.resource_name,
        lease_duration=election.lease_duration,
        renew_deadline=election.renew_deadline,
        retry_period=election.retry_period,
        cleared_annotations=(NOT_READY,),
    )
