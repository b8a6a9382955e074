"""Starts the parts of the manager in order, keeps them running, and stops them in order.

Start: probes -> certificates -> webhooks -> caches synced -> lease -> controllers. Stop: no new reconciles and no new
admission requests, those that run end, events are written, the lease is given back. A part that dies takes the process
with it: a manager that runs by halves is worse than one that is started again.
"""

import asyncio
import contextlib
import gc
import json
import logging
import re
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from api.exclusive import TermForm
from api.features import FeatureGates
from app.engine import engine
from app.health import Health, certificates_check, webhook_check
from app.heap import keep_large_blocks_apart
from app.metrics import Metrics
from app.metrics_server import metrics_server
from app.settings import Settings
from app.version import user_agent
from app.workers import Records, Worker, WorkerError, forked
from certs.files import FileCertificates
from certs.source import CertificateSource, Live
from certs.tls import CertificateError, server_context
from controllers.jobset.controller import NAME, JobSetReconciler
from controllers.jobset.controller import Options as ReconcilerOptions
from controllers.jobset.endings import Endings
from controllers.jobset.watches import Watches
from controllers.placement import controller as placement
from controllers.placement.domains import Domains
from controllers.placement.memory import JobRequest
from controllers.placement.watches import PlacementWatches
from controllers.resources import JOBSETS
from httpserver.address import BindError, bind, parse_bind_address
from httpserver.server import Server
from kube.client import Client
from kube.config import load, pod_namespace
from kube.controller import Controller, Request
from kube.errors import KubeError
from kube.events import EventRecorder
from kube.leader import LeaderElector, LeaseConfig, identity
from kube.transport import HttpTransport
from kube.workqueue import WorkQueue
from webhooks.jobset.cluster import ClusterChecks
from webhooks.jobset.handlers import jobset_handlers
from webhooks.pod.handlers import pod_handlers
from webhooks.router import create_app

log = logging.getLogger(__name__)

WORKERS = 8
"""JobSets reconciled side by side; a reconcile mostly waits for the API server."""

SYNC_TIMEOUT = 120.0
"""Seconds until the caches have to be filled."""

STOP_TIMEOUT = 5.0
"""Seconds for reconciles and admission requests that run to end. With the events (1 s) and the release of the lease
(3 s) the whole stop stays below the 10 s after which the pod is killed."""

FOLLOWER_WAIT = 0.25
"""Seconds that the admission of a follower waits for its leader to be scheduled."""

LABEL_KEYS_SINCE = (1, 33)
"""Kubernetes version in which matchLabelKeys and mismatchLabelKeys of pod affinity are GA."""

FLUSH_TIMEOUT = 1.0
"""Seconds to write the events that still wait."""

DEFAULT_NAMESPACE = "jobset-system"


class StartError(Exception):
    """The manager cannot start or go on; the text is one line for the person who started it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to run: settings after flags were applied, and which half of the program."""

    settings: Settings
    gates: FeatureGates
    kubeconfig: str = ""
    controllers: bool = True
    webhooks: bool = True


@dataclass(frozen=True, slots=True)
class Shared:
    """What this process has in common with others that serve admission on one port."""

    listener: socket.socket
    workers: Sequence[Worker] = ()
    records: Records | None = None
    """Where a worker counts what it answers."""


def main(options: Options) -> None:
    """Run until SIGTERM or SIGINT, on uvloop where it is installed."""
    keep_large_blocks_apart()
    workers = options.settings.webhook.workers - 1 if options.webhooks else 0
    if not workers:
        _loop(_run_until_signal(options))
        return
    try:
        listener = _bound(options.settings)
    except BindError as error:
        raise StartError(str(error)) from error
    with forked(workers, lambda channel: _loop(_work(options, listener, channel))) as others:
        _loop(_run_until_signal(options, Shared(listener, others)))


def _loop(part: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(part)


def _bound(settings: Settings) -> socket.socket:
    return bind((settings.webhook.host, settings.webhook.port), "webhooks")


async def _work(options: Options, listener: socket.socket, channel: socket.socket) -> None:
    """A worker: webhooks and nothing else, until the manager closes its end of the channel."""
    settings = options.settings.override("metrics", bind_address="0").override("health", health_probe_bind_address="0")
    reader, writer = await asyncio.open_connection(sock=channel)
    stop, records = asyncio.Event(), Records()

    async def hear() -> None:
        await reader.read()
        stop.set()

    async with asyncio.TaskGroup() as group:
        beside = [group.create_task(hear()), group.create_task(records.send(writer))]
        alone = replace(options, settings=settings, controllers=False)
        await run(alone, stop, Shared(listener, records=records))
        for task in beside:
            task.cancel()
    with contextlib.suppress(ConnectionError):
        writer.write(records.report())
        writer.close()
        await writer.wait_closed()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """An event loop of uvloop where that extra is installed, else the standard one."""
    try:
        import uvloop  # noqa: PLC0415 (may be absent)
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _run_until_signal(options: Options, shared: Shared | None = None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run(options, stop, shared)


async def run(options: Options, stop: asyncio.Event, shared: Shared | None = None) -> None:
    """Run until `stop` is set (clean stop) or a part fails. Raises `StartError` with what went wrong."""
    try:
        async with _connected(options) as (client, metrics):
            await _Manager(options, client, metrics, shared).run(stop)
    except (KubeError, BindError, CertificateError) as error:
        raise StartError(str(error)) from error
    except BaseExceptionGroup as group:
        expected, unexpected = group.split((KubeError, BindError, CertificateError, WorkerError, StartError))
        if unexpected or not expected:
            raise
        raise StartError("; ".join(str(error) for error in _leaves(expected))) from group


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    out: list[BaseException] = []
    for error in group.exceptions:
        out.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return out


@contextlib.asynccontextmanager
async def _connected(options: Options) -> AsyncIterator[tuple[Client, Metrics]]:
    """A client for the cluster of the kubeconfig."""
    metrics = Metrics()
    limits = options.settings.client_connection
    transport = HttpTransport(
        await load(options.kubeconfig or None),
        user_agent=user_agent(),
        qps=limits.qps,
        burst=limits.burst,
        metrics=metrics.requests,
    )
    try:
        yield Client(transport), metrics
    finally:
        await transport.close()


def freeze_heap() -> None:
    """Take what is there to stay out of garbage collection, which would stop every request for tens of milliseconds.

    Frozen objects are still freed as soon as nothing refers to them.
    """
    gc.collect()
    gc.freeze()


def term_form(asked: str, version: bytes) -> TermForm:
    """How leaders' terms are written: as asked for, or by the answer of the API server to /version."""
    if asked != "Auto":
        return TermForm(asked)
    numbers = json.loads(version)
    # Some providers write "33+".
    known = tuple(int(re.sub(r"\D.*", "", str(numbers.get(part, ""))) or 0) for part in ("major", "minor"))
    return TermForm.LABEL_KEYS if known >= LABEL_KEYS_SINCE else TermForm.EXPRESSIONS


def own_namespace() -> str:
    """The pod's namespace; outside a cluster the one that manifests install into."""
    return pod_namespace() or DEFAULT_NAMESPACE


@dataclass(slots=True)
class _Manager:
    """One life of the manager."""

    options: Options
    client: Client
    metrics: Metrics
    shared: Shared | None = None
    queues: list[WorkQueue[Any]] = field(default_factory=list)
    placement: PlacementWatches = field(init=False)
    server: Server | None = None
    serving: asyncio.Task[None] | None = None
    workers: list[asyncio.Task[None]] = field(default_factory=list)
    certificates: CertificateSource | None = None
    recorder: EventRecorder | None = None
    stopping: bool = False
    background: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.placement = PlacementWatches(self.client)

    async def run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            life = group.create_task(self._live(group), name="life")
            stopping = group.create_task(_wait(stop), name="stop")
            await asyncio.wait({life, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            await self._end(life)
            for task in self.background:
                task.cancel()

    def _spawn(self, group: asyncio.TaskGroup, part: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a part in the background for as long as the manager lives."""
        task = group.create_task(part, name=name)
        self.background.append(task)
        return task

    async def _live(self, group: asyncio.TaskGroup) -> None:
        """The start order; then lead until the queue is shut down."""
        await self._check_crd()
        self._start_endpoints(group)
        self._spawn(group, self.placement.run(), "placement-watches")
        if self.options.webhooks:
            await self._start_webhooks(group)
        if self.options.controllers:
            await self._control(group)
        else:
            await asyncio.Event().wait()

    async def _check_crd(self) -> None:
        """Say what to do when JobSet is not installed, instead of watching in vain."""
        path = f"/apis/{JOBSETS.api_version}"
        missing = f"the cluster does not serve {JOBSETS.plural} ({path}): apply manifests/install.yaml first"
        if JOBSETS.plural not in await self.client.served(JOBSETS.api_version):
            raise StartError(missing)

    def _start_endpoints(self, group: asyncio.TaskGroup) -> None:
        """Probes and metrics."""
        settings = self.options.settings
        health = Health(
            liveness_path=settings.health.liveness_endpoint_name,
            readiness_path=settings.health.readiness_endpoint_name,
        )
        health.add_readiness("shutdown", self._shutdown_check)
        if self.options.webhooks:
            health.add_readiness("certificates", certificates_check(self._certificates_ready))
            health.add_readiness("webhook", webhook_check(self._webhook_address))
        address = parse_bind_address(settings.health.health_probe_bind_address)
        if address is not None:
            self._spawn(group, health.server(address).run(), "health")
        address = parse_bind_address(settings.metrics.bind_address)
        if address is not None:
            server = metrics_server(
                self.metrics, self.client, address, cert_dir=settings.metrics.cert_dir, tls=settings.tls
            )
            self._spawn(group, server.run(), "metrics")

    async def _shutdown_check(self) -> str | None:
        return "the manager is stopping" if self.stopping else None

    def _certificates_ready(self) -> bool:
        return self.certificates is not None and self.certificates.ready.is_set()

    def _webhook_address(self) -> tuple[str, int] | None:
        if self.server is None or not self.server.started.is_set():
            return None
        return self.options.settings.webhook.host, self.server.port

    async def _start_webhooks(self, group: asyncio.TaskGroup) -> None:
        """Serve admission as soon as there is a certificate that the API server trusts."""
        settings = self.options.settings
        shared = self.shared or Shared(_bound(settings))
        for worker in shared.workers:
            self.workers.append(self._spawn(group, worker.watch(self.metrics.webhooks), f"worker-{worker.pid}"))
        context = server_context(settings.tls.min_version, settings.tls.cipher_suites)
        live = Live(context, self.metrics.certificate("webhook"))
        certificates: CertificateSource
        if settings.internal_cert_management.enable:
            from certs.manager import CertManager, CertOptions, service_hosts  # noqa: PLC0415 (9 MiB of cryptography)

            internal = settings.internal_cert_management
            extra = [settings.webhook.host] if settings.webhook.host else []
            hosts = service_hosts(internal.webhook_service_name, own_namespace(), *extra)
            certificates = CertManager(
                self.client, live, CertOptions(own_namespace(), internal.webhook_secret_name, hosts)
            )
        else:
            certificates = FileCertificates(Path(settings.webhook.cert_dir), live)
        self.certificates = certificates
        self._spawn(group, certificates.run(), "certificates")
        await certificates.ready.wait()
        dry_run = settings.child_dry_run
        cluster = ClusterChecks(self.client, dry_run=dry_run.enable, budget=dry_run.budget)
        form = term_form(settings.exclusive_placement.terms, await self.client.raw("/version"))
        # What followers get before the leaders are listed is the gate: no pod has to wait for the caches.
        pods = pod_handlers(Domains(self.placement, FOLLOWER_WAIT), lambda: form)
        handlers = {**jobset_handlers(engine(self.options.gates), cluster), **pods}
        app = create_app(handlers, metrics=shared.records or self.metrics.webhooks)
        self.server = app.server(shared.listener, context)
        self.serving = self._spawn(group, self.server.run(), "webhooks")
        await self.server.started.wait()
        freeze_heap()
        log.info("webhooks serve on port %d", self.server.port)

    async def _control(self, group: asyncio.TaskGroup) -> None:
        """Fill the caches, wait for the lease, reconcile."""
        required = self.options.settings.scheduling.when_unavailable == "Hold"
        watches = Watches(self.client, self.options.gates, groups_required=required)
        self._spawn(group, watches.run(), "watches")
        await watches.wait_synced(SYNC_TIMEOUT)
        await self.placement.wait_synced(SYNC_TIMEOUT)
        freeze_heap()
        log.info("caches are synced: %d JobSets, %d Jobs", len(watches.jobsets.store), len(watches.jobs.store))
        election = self.options.settings.leader_election
        if not election.leader_elect:
            await self._reconcile(group, watches)
            return
        lease = LeaseConfig(
            namespace=election.resource_namespace or own_namespace(),
            name=election.resource_name,
            lease_duration=election.lease_duration,
            renew_deadline=election.renew_deadline,
            retry_period=election.retry_period,
        )
        self.metrics.leader(election.resource_name, False)
        elector = LeaderElector(
            self.client,
            lease,
            identity=identity(),
            on_change=lambda leading: self.metrics.leader(election.resource_name, leading),
        )
        await elector.lead(lambda: self._reconcile(group, watches))

    async def _reconcile(self, group: asyncio.TaskGroup, watches: Watches) -> None:
        """The reconcile loop; returns after the queue was shut down and running reconciles have ended."""
        self.recorder = EventRecorder(
            self.client, reporting_controller=NAME, reporting_instance=f"{NAME}-{socket.gethostname()}"
        )
        self._spawn(group, self.recorder.run(), "events")
        queue: WorkQueue[Request] = self._queue(NAME)
        reconciler = JobSetReconciler(
            self.client,
            watches.caches(),
            self.options.gates,
            self.recorder,
            self.metrics.milestones,
            ReconcilerOptions(create_suspended=self.options.settings.suspend.create_jobs == "Always"),
        )
        controller = Controller(
            NAME,
            queue,
            reconciler.reconcile,
            workers=WORKERS,
            metrics=self.metrics.controller(NAME, WORKERS),
        )
        watches.jobsets.on_event(Endings(self.metrics.outcomes, reconciler.memories).heard)
        reconciler.watch_departures(watches.jobs)
        watches.feed(queue)
        reconciler.leftover_pods.feed(queue)
        self._spawn(group, reconciler.leftover_pods.run(), "old-pods")
        log.info("reconciling with %d workers", WORKERS)
        async with asyncio.TaskGroup() as running:
            running.create_task(controller.run(), name=NAME)
            running.create_task(self._place(watches, self.recorder), name=placement.NAME)

    def _queue(self, name: str) -> WorkQueue[Any]:
        """The queue of a controller: measured, and shut down with the manager."""
        hooks = self.metrics.queue(name)
        queue: WorkQueue[Any] = WorkQueue(metrics=hooks)
        self.queues.append(queue)
        hooks.bind(queue)
        return queue

    async def _place(self, watches: Watches, recorder: EventRecorder) -> None:
        """Keep followers with their leaders; returns as `_reconcile` does."""
        queue: WorkQueue[JobRequest] = self._queue(placement.NAME)
        reconciler = placement.PlacementReconciler(self.client, self.placement, watches.jobs, recorder)
        controller = Controller(
            placement.NAME,
            queue,
            reconciler.reconcile,
            workers=placement.WORKERS,
            metrics=self.metrics.controller(placement.NAME, placement.WORKERS),
        )
        reconciler.feed(queue)
        await controller.run()

    async def _end(self, life: asyncio.Task[None]) -> None:
        """Let what runs end, within the time there is; then write what waits."""
        log.info("stopping")
        self.stopping = True
        draining: set[asyncio.Task[None]] = set(self.workers)
        for worker in self.shared.workers if self.shared else ():
            worker.stop()
        if self.server is not None and self.serving is not None:
            self.server.stop()
            draining.add(self.serving)
        for queue in self.queues:
            queue.shutdown()
            draining.add(life)
        if draining:
            await asyncio.wait(draining, timeout=STOP_TIMEOUT)
        life.cancel()
        if self.recorder is not None:
            await self.recorder.flush(FLUSH_TIMEOUT)


async def _wait(stop: asyncio.Event) -> None:
    await stop.wait()
