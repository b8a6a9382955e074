"""All metrics of the process, under the names that dashboards of the Go JobSet use (docs/reference/metrics.md).

Each `Metrics` has its own registry, so that several managers fit into one process and tests do not see each other.
Other packages know only the small protocols that the hooks implement. `app.metrics_server` serves the metrics.
"""

from collections.abc import Iterable
from functools import cache, partial
from typing import Any, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from app.outcome_metrics import OutcomeHooks
from app.policy_metrics import PolicyHooks
from certs.source import Observer
from kube.controller_metrics import ControllerMetrics
from kube.workqueue import LOW_PRIORITY, QueueMetrics, WorkQueue

# Else each counter and histogram gets a second series with its creation time, which the Go program does not have.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library left it untyped

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5),
    *(1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
"""Seconds."""

QUEUE_BUCKETS = tuple(10.0**exponent for exponent in range(-8, 4))
"""Seconds: powers of ten from 10 ns to 1,000 s."""

ATTEMPT_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600)
"""Seconds: from a small set on warm nodes to an hour of waiting for machines."""

CALL_BUCKETS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
"""Requests of one reconcile. Creating a JobSet of 10,000 Jobs takes about the largest number."""

RECONCILE_RESULTS = ("success", "error", "requeue", "requeue_after")
QUEUE_LABELS = ("name", "controller")


class QueueHooks(QueueMetrics):
    """The workqueue_* metrics of one queue. For the gauges, `bind` the queue once it exists."""

    def __init__(self, name: str, metrics: "_QueueFamilies") -> None:
        self.name = name
        self.bound: WorkQueue[Any] | None = None
        self._adds = metrics.adds.labels(name, name)
        self._retries = metrics.retries.labels(name, name)
        self._wait_seconds = metrics.wait_seconds.labels(name, name)
        self._work_seconds = metrics.work_seconds.labels(name, name)

    def bind(self, queue: WorkQueue[Any]) -> None:
        """Read depth and running times from this queue. Scrapes must run in the queue's event loop."""
        self.bound = queue

    def on_add(self) -> None:
        self._adds.inc()

    def on_take(self, waited: float) -> None:
        self._wait_seconds.observe(waited)

    def on_done(self, worked: float) -> None:
        self._work_seconds.observe(worked)

    def on_retry(self) -> None:
        self._retries.inc()


class _QueueFamilies(Collector):
    """The workqueue_* metrics of all queues. As a collector, it computes the gauges."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, labelnames=QUEUE_LABELS, registry=registry)
        histogram = partial(Histogram, labelnames=QUEUE_LABELS, registry=registry, buckets=QUEUE_BUCKETS)
        self.adds = counter("workqueue_adds_total", "Total number of adds handled by workqueue")
        self.retries = counter("workqueue_retries_total", "Total number of retries handled by workqueue")
        self.wait_seconds = histogram(
            "workqueue_queue_duration_seconds", "How long in seconds an item stays in workqueue before being requested"
        )
        self.work_seconds = histogram(
            "workqueue_work_duration_seconds", "How long in seconds processing an item from workqueue takes"
        )
        self.queues: dict[str, QueueHooks] = {}
        registry.register(self)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """The gauges without values, for a registry that asks outside an event loop, where queues cannot be read."""
        return self._families()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        depth, unfinished, longest = families = self._families()
        for hooks in self.queues.values():
            queue = hooks.bound
            if queue is None:
                continue
            labels = [hooks.name, hooks.name]
            # Both priorities are always reported, also at 0, since an alert needs a series that does not disappear.
            for priority, keys in ({0: 0, LOW_PRIORITY: 0} | queue.depth()).items():
                depth.add_metric([*labels, str(priority)], keys)
            unfinished.add_metric(labels, queue.unfinished_seconds())
            longest.add_metric(labels, queue.longest_running_seconds())
        return families

    @staticmethod
    def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily]:
        gauge = partial(GaugeMetricFamily, labels=QUEUE_LABELS)
        return (
            gauge("workqueue_depth", "Current depth of workqueue by priority", labels=[*QUEUE_LABELS, "priority"]),
            gauge(
                "workqueue_unfinished_work_seconds",
                "Seconds of work in progress that work_duration has not observed yet; large values mean stuck workers",
            ),
            gauge(
                "workqueue_longest_running_processor_seconds",
                "Seconds that the longest running worker has been at its item",
            ),
        )


class ControllerHooks(ControllerMetrics):
    """The controller_runtime_* metrics of one controller. All its series exist from the start, at 0."""

    def __init__(self, name: str, families: "_ControllerFamilies") -> None:
        self._results = {result: families.results.labels(name, result) for result in RECONCILE_RESULTS}
        self._seconds = families.seconds.labels(name)
        self._errors = families.errors.labels(name)
        self._terminal_errors = families.terminal_errors.labels(name)
        self._panics = families.panics.labels(name)
        self._active_workers = families.active_workers.labels(name)
        self._requests = families.requests.labels(name)

    def on_reconcile(self, result: str, seconds: float) -> None:
        self._results[result].inc()
        self._seconds.observe(seconds)

    def on_requests(self, requests: int) -> None:
        self._requests.observe(requests)

    def on_failure(self) -> None:
        self._errors.inc()

    def on_terminal_failure(self) -> None:
        self._terminal_errors.inc()

    def on_panic(self) -> None:
        self._panics.inc()

    def active(self, workers: int) -> None:
        self._active_workers.set(workers)


class _ControllerFamilies:
    """The controller_runtime_* metrics of reconcilers, and the requests that each reconcile sends."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, labelnames=("controller",), registry=registry)
        self.results = counter(
            "controller_runtime_reconcile_total",
            "Total number of reconciliations per controller",
            labelnames=("controller", "result"),
        )
        self.errors = counter(
            "controller_runtime_reconcile_errors_total", "Total number of reconciliation errors per controller"
        )
        self.terminal_errors = counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Total number of terminal reconciliation errors per controller",
        )
        self.panics = counter(
            "controller_runtime_reconcile_panics_total", "Total number of unexpected errors per controller"
        )
        gauge = partial(Gauge, labelnames=("controller",), registry=registry)
        self.workers = gauge(
            "controller_runtime_max_concurrent_reconciles", "Maximum number of concurrent reconciles per controller"
        )
        self.active_workers = gauge(
            "controller_runtime_active_workers", "Number of currently used workers per controller"
        )
        histogram = partial(Histogram, labelnames=("controller",), registry=registry)
        self.seconds = histogram(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation per controller",
            buckets=RECONCILE_BUCKETS,
        )
        self.requests = histogram(
            "jobset_reconcile_api_calls",
            "Number of API requests of one reconciliation, repeated ones included",
            buckets=CALL_BUCKETS,
        )


class RequestHooks:
    """Implements `kube.transport.RequestMetrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host",
            ("code", "method", "host"),
            registry=registry,
        )

    def on_request(self, code: str, method: str, host: str) -> None:
        self._requests.labels(code, method, host).inc()


class WebhookHooks(PolicyHooks):
    """Implements `app.workers.ReportedMetrics`. `path` and `rule` must come from our code, never from the client."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Current number of admission requests being served",
            ("webhook",),
            registry=registry,
        )
        answers = Counter(
            "controller_runtime_webhook_requests_total",
            "Total number of admission requests by answer code",
            ("webhook", "code"),
            registry=registry,
        )
        latency = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "Latency of processing admission requests",
            ("webhook",),
            registry=registry,
        )
        self._refusals = Counter(
            "jobset_admission_refusals_total",
            "Total number of objects that admission refused, by broken rule",
            ("webhook", "rule"),
            registry=registry,
        )
        # Cached, since looking up a child metric by its labels costs more than counting.
        self._in_flight = cache(in_flight.labels)
        self._answers = cache(answers.labels)
        self._latency = cache(latency.labels)

    def on_start(self, path: str) -> None:
        self._in_flight(path).inc()

    def on_refusal(self, path: str, rule: str) -> None:
        self._refusals.labels(path, rule).inc()

    def on_finish(self, path: str, code: int, seconds: float) -> None:
        self._in_flight(path).dec()
        self._answers(path, code).inc()
        self._latency(path).observe(seconds)


class MilestoneHooks:
    """Implements `controllers.jobset.milestones.Milestones`: how long JobSets took, without a label of the JobSet."""

    def __init__(self, registry: CollectorRegistry) -> None:
        histogram = partial(Histogram, registry=registry, buckets=ATTEMPT_BUCKETS)
        self._created = histogram(
            "jobset_jobs_created_seconds", "Seconds from creation or resume of a JobSet until all its Jobs existed"
        )
        self._ready = histogram(
            "jobset_ready_seconds", "Seconds from creation or resume of a JobSet until all its Jobs were ready or done"
        )
        self._restarted = histogram(
            "jobset_restart_seconds", "Seconds from the decision to restart a JobSet until all Jobs were ready again"
        )

    def on_created(self, seconds: float) -> None:
        self._created.observe(seconds)

    def on_ready(self, seconds: float) -> None:
        self._ready.observe(seconds)

    def on_restarted(self, seconds: float) -> None:
        self._restarted.observe(seconds)


class CertificateHooks(Observer):
    """The metrics of the certificate of one server."""

    def __init__(self, name: str, families: "_CertificateFamilies") -> None:
        self._name = name
        self._expiry = families.expiry.labels(name)
        self._families = families

    def on_load(self, not_after: float) -> None:
        """A certificate was put to use; `not_after` is Unix time in seconds."""
        self._families.reads.inc()
        self._expiry.set(not_after)

    def on_failure(self) -> None:
        """A certificate could not be read. The certificate in use stays."""
        self._families.reads.inc()
        self._families.errors.inc()

    def on_authority(self, not_after: float) -> None:
        """The end of validity of the CA that the manager signs with, Unix time in seconds."""
        self._families.expiry.labels(f"{self._name}-ca").set(not_after)

    def on_registration(self, configuration: str, webhooks: int) -> None:
        """The number of webhooks in a webhook configuration."""
        self._families.webhooks.labels(configuration).set(webhooks)


class _CertificateFamilies:
    """The metrics of all certificates."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.expiry = gauge(
            "jobset_certificate_expiry_seconds", "Unix time at which a certificate in use ends", ("name",)
        )
        self.webhooks = gauge(
            "jobset_webhooks_registered",
            "Webhooks that a webhook configuration lists: by none, the API server calls none",
            ("configuration",),
        )
        self.reads = counter("certwatcher_read_certificate_total", "Total number of certificate reads")
        self.errors = counter("certwatcher_read_certificate_errors_total", "Total number of certificate read errors")


class Metrics:
    """The registry of one manager, and the hooks that count into it."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._queues = _QueueFamilies(self._registry)
        self._controllers = _ControllerFamilies(self._registry)
        self._leader = Gauge(
            "leader_election_master_status",
            "Whether this process is master of the lease: 1 means it is, 0 that it stands by",
            ("name",),
            registry=self._registry,
        )
        self.requests = RequestHooks(self._registry)
        self.webhooks = WebhookHooks(self._registry)
        self.outcomes = OutcomeHooks(self._registry)
        self.milestones = MilestoneHooks(self._registry)
        self._certificates = _CertificateFamilies(self._registry)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)

    def queue(self, name: str) -> QueueHooks:
        """Hooks for the queue of the controller `name`. Pass them to the `WorkQueue`, then `bind` the queue."""
        return self._queues.queues.setdefault(name, QueueHooks(name, self._queues))

    def controller(self, name: str, workers: int) -> ControllerHooks:
        """Hooks for the controller `name` with this number of workers."""
        self._controllers.workers.labels(name).set(workers)
        return ControllerHooks(name, self._controllers)

    def certificate(self, name: str) -> CertificateHooks:
        """Hooks for the certificate of a server: webhook or metrics."""
        return CertificateHooks(name, self._certificates)

    def leader(self, name: str, leading: bool) -> None:
        """Set whether this process holds the lease `name`."""
        self._leader.labels(name).set(leading)

    def render(self) -> tuple[bytes, str]:
        """A scrape: body and content type (Prometheus text format 0.0.4). Call it in the event loop of the queues."""
        return generate_latest(self._registry), CONTENT_TYPE
