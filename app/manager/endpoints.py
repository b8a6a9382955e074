"""The first stage: starts the servers of probes and metrics before all other stages."""

from collections.abc import Sequence

from app.debug.pages import Debug
from app.health import (
    CACHES_NOT_STARTED,
    CERTIFICATES_NOT_READY,
    CRD_NOT_FOUND,
    RIGHTS_NOT_KNOWN,
    WEBHOOK_NOT_STARTED,
    Health,
    fails,
    passes,
)
from app.manager.options import Deps
from app.metrics_server import Guard, MetricsApp, metrics_server
from app.workers import Worker
from httpserver.address import parse_bind_address
from kube.reviews import Reviewer

STOPPING = "the manager is stopping"


def start_endpoints(deps: Deps, workers: Sequence[Worker] = ()) -> Health:
    """Serve probes and metrics, each if the settings ask for it. Later stages set in `Health` what is ready.

    The debug pages on the port of the metrics show this process and the `workers`.
    """
    settings, supervisor = deps.options.settings, deps.supervisor
    health = Health(
        liveness_path=settings.health.liveness_endpoint_name,
        readiness_path=settings.health.readiness_endpoint_name,
    )
    health.set_readiness("shutdown", passes)
    health.set_readiness("crd", fails(CRD_NOT_FOUND))
    supervisor.on_stop(lambda: health.set_readiness("shutdown", fails(STOPPING)))
    if deps.options.webhooks:
        health.set_readiness("certificates", fails(CERTIFICATES_NOT_READY))
        health.set_readiness("webhook", fails(WEBHOOK_NOT_STARTED))
    if deps.options.controllers:
        health.set_readiness("rights", fails(RIGHTS_NOT_KNOWN))
        health.set_readiness("caches", fails(CACHES_NOT_STARTED))
    address = parse_bind_address(settings.health.health_probe_bind_address)
    if address is not None:
        supervisor.start(health.server(address).run(), "health")
    address = parse_bind_address(settings.metrics.bind_address)
    if address is not None:
        app = MetricsApp(deps.metrics, Guard(Reviewer(deps.client)), Debug(workers))
        server = metrics_server(app, address, cert_dir=settings.metrics.cert_dir, tls=settings.tls)
        health.set_readiness("metrics", server.unready)
        supervisor.start(server.run(), "metrics")
    return health
