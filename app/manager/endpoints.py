"""The first stage: starts the servers of probes and metrics before all other stages."""

from collections.abc import Sequence

from app.debug.pages import Debug
from app.health import Health, fails, passes
from app.manager.options import Deps
from app.metrics_server import Guard, MetricsApp, metrics_server
from app.workers import Worker
from httpserver.address import parse_bind_address
from kube.reviews import Reviewer


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
    health.set_readiness("crd", fails("the CRD of JobSets has not been found yet"))
    supervisor.on_stop(lambda: health.set_readiness("shutdown", fails("the manager is stopping")))
    if deps.options.webhooks:
        health.set_readiness("certificates", fails("certificates are not ready"))
        health.set_readiness("webhook", fails("webhook server has not been started yet"))
    if deps.options.controllers:
        health.set_readiness("rights", fails("the manager's rights are not known yet"))
        health.set_readiness("caches", fails("the caches are not filled yet"))
    if address := parse_bind_address(settings.health.health_probe_bind_address):
        supervisor.start(health.server(address).run(), "health")
    if address := parse_bind_address(settings.metrics.bind_address):
        app = MetricsApp(deps.metrics, Guard(Reviewer(deps.client)), Debug(workers))
        server = metrics_server(app, address, cert_dir=settings.metrics.cert_dir, tls=settings.tls)
        health.set_readiness("metrics", server.unready)
        supervisor.start(server.run(), "metrics")
    return health
