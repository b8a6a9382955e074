"""Runs the manager in one event loop, from its start to its stop.

Start: probes -> API server and CRD -> certificates -> webhooks -> caches synced -> lease -> controllers. Stop:
readiness fails and no new reconciles begin; a moment later no new admission requests are accepted; running requests
end, events are written, the lease is released (`Supervisor.stop`).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial

from api.keys import MANAGER_SELECTOR
from app.health import passes
from app.manager.api_server import await_jobsets
from app.manager.caches import fill_caches, start_placement_watches
from app.manager.certificates import start_certificates
from app.manager.crd import warn_of_old_crd
from app.manager.endpoints import start_endpoints
from app.manager.leadership import lead, lease_of
from app.manager.options import Deps, Options, Shared, StartError
from app.manager.policies import record_decisions
from app.manager.rights import look_ups_of, watch_rights
from app.manager.supervisor import supervise
from app.manager.unready import note_unready
from app.manager.workers import await_workers, bind_webhooks, watch_workers
from app.metrics import Metrics
from app.version import user_agent
from app.workers import WorkerError
from certs.tls import CertificateError
from httpserver.address import BindError
from kube.client import Client
from kube.config import Credentials, explain_error, load, pod_namespace
from kube.errors import KubeError, leaves
from kube.peers import is_reachable, watch_peers
from kube.transport import HttpTransport


async def run(options: Options, stop: asyncio.Event, shared: Shared | None = None) -> None:
    """Run the manager until `stop` is set or a part fails. Raises `StartError` with what went wrong."""
    try:
        async with _connect(options, shared.credentials if shared else None) as (client, metrics):
            await supervise(lambda supervisor: stages(Deps(options, client, metrics, supervisor), shared), stop)
    except (KubeError, BindError, CertificateError) as error:
        raise StartError(str(error)) from error
    except BaseExceptionGroup as group:
        expected, unexpected = group.split((KubeError, BindError, CertificateError, WorkerError, StartError))
        if unexpected or not expected:
            raise
        raise StartError("; ".join(str(error) for error in leaves(expected))) from group


async def stages(deps: Deps, shared: Shared | None = None) -> None:
    """Run the stages in the order of the start. Returns when the controllers have ended.

    `shared`: what the processes of the manager share; None if this process is the only one.
    """
    health = start_endpoints(deps, shared.workers if shared else ())
    is_worker = shared is not None and shared.records is not None
    lease = lease_of(deps.options) if deps.options.controllers else None
    if lease is not None:
        deps.supervisor.start(note_unready(deps.client, health, lease), "note at the lease")
    try:
        await await_jobsets(deps.client, is_worker=is_worker)
    except KubeError as error:
        raise StartError(explain_error(error, deps.options.kubeconfig)) from error
    health.set_readiness("crd", passes)
    if not is_worker:
        deps.supervisor.start(warn_of_old_crd(deps.client), "old CRD")
    if deps.options.controllers:
        options = deps.options
        deps.supervisor.start(watch_rights(deps.client, health, lease, look_ups_of(options)), "rights")
        if namespace := pod_namespace():
            probe = partial(is_reachable, port=options.settings.webhook.port)
            deps.supervisor.start(watch_peers(deps.client, namespace, MANAGER_SELECTOR, probe), "replicas")
    placement = start_placement_watches(deps)
    if deps.options.webhooks:
        shared = shared or Shared(deps.supervisor.keep(bind_webhooks(deps.options.settings)))
        if shared.records is None:
            record_decisions(deps)
        watch_workers(deps, shared.workers)
        tls, source = await start_certificates(deps, health)
        if shared.workers:
            await await_workers(deps, health, shared)
        else:
            from app.manager.admission import start_webhooks  # noqa: PLC0415 (20 MiB that only webhooks need)

            await start_webhooks(deps, health, tls, source, placement, shared)
    if not deps.options.controllers:
        await asyncio.Event().wait()
    from app.manager.controllers import run_controllers  # noqa: PLC0415 (workers do not reconcile)

    watches = await fill_caches(deps, health, placement)
    await lead(deps, lambda client: run_controllers(deps, client, watches, placement))


@contextlib.asynccontextmanager
async def _connect(options: Options, credentials: Credentials | None) -> AsyncIterator[tuple[Client, Metrics]]:
    """A client with its metrics. Without `credentials` it is for the cluster of the kubeconfig."""
    metrics = Metrics()
    limits = options.settings.client_connection
    transport = HttpTransport(
        credentials or await load(options.kubeconfig or None),
        user_agent=user_agent(),
        qps=limits.qps,
        burst=limits.burst,
        metrics=metrics.requests,
    )
    try:
        yield Client(transport), metrics
    finally:
        await transport.close()
