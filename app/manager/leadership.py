"""The stage of the lease: one replica runs the controllers."""

from collections.abc import Awaitable, Callable

from app.manager.options import Deps, own_namespace
from kube.client import Client
from kube.leader import LeaderElector, LeaseConfig, identity


async def lead(deps: Deps, work: Callable[[Client], Awaitable[None]]) -> None:
    """Do `work` while holding the lease, or at once where there is no election. Raises `LeadershipLostError`.

    The client that it gets writes only while this process may lead.
    """
    election = deps.options.settings.leader_election
    if not election.leader_elect:
        await work(deps.client)
        return
    lease = LeaseConfig(
        namespace=election.resource_namespace or own_namespace(),
        name=election.resource_name,
        lease_duration=election.lease_duration,
        renew_deadline=election.renew_deadline,
        retry_period=election.retry_period,
    )
    deps.metrics.leader(election.resource_name, False)
    elector = LeaderElector(
        deps.client,
        lease,
        identity=identity(),
        on_change=lambda leading: deps.metrics.leader(election.resource_name, leading),
    )
    await elector.lead(lambda: work(deps.client.guarded(elector.require_lease)))
