"""The stage of admission: the webhook server, in this process or in processes of its own that serve on one port."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from fastapi import FastAPI

from api.exclusive import TermForm, is_exclusive
from api.spares import GATE as SPARES
from app.engine import engine, policy_schemas
from app.health import Health
from app.heap import freeze, return_pages_after_bursts
from app.manager.options import Deps, Shared
from app.manager.workers import check_webhooks
from app.settings import LOOK_UPS
from app.workers import ReportedMetrics
from certs.source import CertificateSource
from controllers.placement.domains import Domains
from controllers.placement.watches import PlacementWatches
from httpserver.server import Server
from kube.model.versions import LABEL_KEYS, parse_version
from kube.resources import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS
from kube.transport import RequestLimits
from manifests.naming import POLICY_MUTATING_CONFIGURATION, POLICY_VALIDATING_CONFIGURATION
from policy.kinds import GATE
from webhooks.jobset.cluster.checks import ClusterChecks
from webhooks.jobset.handlers import VALIDATE_PATH, jobset_handlers
from webhooks.jobset.subject import SetLimits
from webhooks.metrics import WebhookMetrics
from webhooks.pod.handlers import pod_handlers
from webhooks.pod.promises import Promises
from webhooks.review import AdmissionRequest, Handler, HandlerAnswer
from webhooks.router import create_app

if TYPE_CHECKING:
    from webhooks.jobset.policies import PolicyChecks

log = logging.getLogger(__name__)

FOLLOWER_WAIT = 0.25
"""Seconds that the review of a pod waits until the leader pod, whose topology domain the pod needs, has a node."""

SYNC_TIMEOUT = 120.0
"""Seconds within which the stored JobSetPolicies have to be read."""


async def start_webhooks(
    deps: Deps,
    health: Health,
    tls: ssl.SSLContext,
    source: CertificateSource,
    placement: PlacementWatches,
    shared: Shared,
) -> None:
    """Start the webhook server in this process. Returns once it answers. `source` keeps the certificate of `tls`."""
    metrics = shared.records or deps.metrics.webhooks
    app = await _webhook_app(deps, placement, metrics, await _policy_checks(deps, metrics, source))
    server = Server(app, shared.listener, tls)
    deps.supervisor.start(server.run(), "webhooks", stop=server.stop, delayed=True)
    deps.supervisor.on_stop(server.wind_down)
    await server.started.wait()
    health.set_readiness("webhook", check_webhooks(deps, shared))
    freeze()
    deps.supervisor.start(return_pages_after_bursts(lambda: server.requests), "free pages")
    log.info("webhooks serve on port %d", server.port)


async def _policy_checks(deps: Deps, metrics: ReportedMetrics, source: CertificateSource) -> "PolicyChecks | None":
    """The checks of JobSets against JobSetPolicies, once these are read; None without the feature gate.

    Raises `kube.informer.SyncTimeoutError` if the policies are not read after `SYNC_TIMEOUT`. Without them, admission
    would admit JobSets that they deny.
    """
    gates = deps.options.gates
    if not gates[GATE]:
        return None
    from webhooks.jobset.policies import PolicyChecks  # noqa: PLC0415 (all rules, which are of no use without the gate)
    from webhooks.policy.watches import PolicyWatches  # noqa: PLC0415 (the same)

    tasks = [
        partial(source.maintain_bundle, MUTATING_WEBHOOK_CONFIGURATIONS, POLICY_MUTATING_CONFIGURATION),
        partial(source.maintain_bundle, VALIDATING_WEBHOOK_CONFIGURATIONS, POLICY_VALIDATING_CONFIGURATION),
    ]
    watches = PolicyWatches(deps.client, companions=tasks)
    deps.supervisor.start(watches.run(), "policy-watches")
    await watches.wait_settled(SYNC_TIMEOUT)
    return PolicyChecks(watches, metrics, gates, deps.options.settings.policies.queue_controllers)


async def _webhook_app(
    deps: Deps, placement: PlacementWatches, metrics: WebhookMetrics, policies: "PolicyChecks | None"
) -> FastAPI:
    settings = deps.options.settings
    dry_run, rate_limits = settings.child_dry_run, settings.client_connection
    looked_up_kinds = [LOOK_UPS[each] for each in dry_run.look_up]
    # This client has its own limits, so that reviews and reconciles in this process do not wait for each other.
    client = deps.client.with_limits(RequestLimits(rate_limits.qps, rate_limits.burst))
    cluster = ClusterChecks(client, dry_run=dry_run.enable, timeout=dry_run.budget, looked_up_kinds=looked_up_kinds)
    terms = await term_form(settings.exclusive_placement.terms, lambda: deps.client.raw("/version"))
    # Until leader pods are listed, other pods of their Jobs get a scheduling gate instead of waiting for the caches.
    promises = Promises(client) if deps.options.gates[SPARES] else None
    pods = pod_handlers(Domains(placement, FOLLOWER_WAIT), lambda: terms, promises)
    limits = SetLimits(settings.limits.jobs_per_set, settings.limits.pods_per_set)
    checks = engine(deps.options.gates, limits)
    handlers = {**jobset_handlers(checks, cluster, policies), **pods}
    if policies is not None:
        from webhooks.policy.handlers import policy_handlers  # noqa: PLC0415 (as above)

        handlers |= policy_handlers(policy_schemas(), policies.source, deps.options.gates)
    watching_handlers = {path: with_placement_watch(handler, placement) for path, handler in handlers.items()}
    return create_app(watching_handlers, metrics=metrics, validating_paths={VALIDATE_PATH})


def with_placement_watch(handler: Handler, placement: PlacementWatches) -> Handler:
    """The handler, which also starts the watches for exclusive placement at the first review that needs them.

    So leader pods and nodes are listed while the Jobs are created and their leader pods are scheduled.
    """
    loop = asyncio.get_running_loop()

    def handle(request: AdmissionRequest) -> HandlerAnswer:
        if not placement.has_begun and request.object is not None and is_exclusive(request.object):
            loop.call_soon_threadsafe(placement.begin)  # costly reviews are decided in threads
        return handler(request)

    return handle


async def term_form(setting: str, version: Callable[[], Awaitable[bytes]]) -> TermForm:
    """The form of the affinity terms of leader pods. `setting`: `exclusivePlacement.terms`.

    For `Auto`, it depends on the API server's version. If that cannot be read, it is the form that all servers know.
    """
    if setting != "Auto":
        return TermForm(setting)
    server_version = parse_version(await version())
    return TermForm.EXPRESSIONS if server_version is None or server_version < LABEL_KEYS.since else TermForm.LABEL_KEYS
