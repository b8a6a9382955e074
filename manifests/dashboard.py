"""A dashboard for Grafana (docs/observability.md), as the JSON that its import and the sidecars of its charts take.

The datasource and the Service of the metrics are variables of the dashboard, so the same file fits every release.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from manifests.naming import Object

UID = "jobset"
_OURS = 'job="$job"'
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 24
"""In units of Grafana's grid: three panels beside each other."""


@dataclass(frozen=True, slots=True)
class Query:
    """A line, or with labels in `legend` (`{{name}}`) several. `expression` is PromQL with Grafana's variables."""

    legend: str
    expression: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart over time. `unit` is Grafana's id of one, `about` says how to read it."""

    title: str
    unit: str
    about: str
    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a headline."""

    title: str
    panels: tuple[Panel, ...]


def _rate(metric: str, *labels: str, window: str = "$__rate_interval") -> str:
    """Per second, summed over replicas and over all labels but these."""
    kept = f" by ({', '.join(labels)})" if labels else ""
    return f"sum{kept} (rate({metric}{{{_OURS}}}[{window}]))"


def _quantiles(metric: str, *labels: str, window: str = "$__rate_interval") -> tuple[Query, ...]:
    """The median and the 95th percentile of a histogram."""
    name = "".join(f"{{{{{label}}}}} " for label in labels)
    buckets = _rate(f"{metric}_bucket", "le", *labels, window=window)
    return tuple(
        Query(f"{name}{text}", f"histogram_quantile({quantile}, {buckets})")
        for text, quantile in (("median", 0.5), ("95 %", 0.95))
    )


def _last_hour(metric: str, *labels: str) -> str:
    """How much a counter rose in the last hour, whose series begin with their first event and end with their replica.

    `increase` does not see the first event: a series that began in that hour counts with its last value.
    """
    kept = f" by ({', '.join(labels)})" if labels else ""
    series = f"{metric}{{{_OURS}}}"
    return f"sum{kept} ((last_over_time({series}[1h]) unless {series} offset 1h) or increase({series}[1h]))"


_JOBSETS = Row(
    "JobSets",
    (
        Panel(
            "Restarts",
            "short",
            "Restarts in the last hour after which all Jobs were ready again.",
            (Query("restarts", f"sum(increase(jobset_restart_seconds_count{{{_OURS}}}[1h]))"),),
        ),
        Panel(
            "Duration of restarts",
            "s",
            "Restarts of the last hour: from the decision until all Jobs were ready again.",
            _quantiles("jobset_restart_seconds", window="1h"),
        ),
        Panel(
            "Time to ready",
            "s",
            "JobSets of the last hour: from creation or resume until all Jobs were ready.",
            _quantiles("jobset_ready_seconds", window="1h"),
        ),
        Panel(
            "Time to all Jobs",
            "s",
            "JobSets of the last hour: from creation or resume until all Jobs existed. The rest is pods that start.",
            _quantiles("jobset_jobs_created_seconds", window="1h"),
        ),
        Panel(
            "Ended in the last hour",
            "short",
            "JobSets that ended, also if they are deleted since.",
            (
                Query("completed", _last_hour("jobset_completed_total")),
                Query("failed", _last_hour("jobset_failed_total")),
                Query("of these by their deadline", _last_hour("jobset_active_deadline_exceeded_total")),
            ),
        ),
        Panel(
            "Start timeouts",
            "short",
            "Attempts of the last hour that ended because a pod did not run in time.",
            (Query("start timeouts", _last_hour("jobset_start_timeouts_total")),),
        ),
    ),
)

_QUEUE = Row(
    "Queue and reconciles",
    (
        Panel(
            "Keys that wait",
            "short",
            "JobSets (jobset) and exclusive Jobs (placement) that wait for a worker.",
            (Query("{{name}}", f"sum by (name) (workqueue_depth{{{_OURS}}})"),),
        ),
        Panel(
            "Wait in the queue", "s", "How long keys were due.", _quantiles("workqueue_queue_duration_seconds", "name")
        ),
        Panel(
            "Duration of reconciles",
            "s",
            "How long one reconcile took.",
            _quantiles("controller_runtime_reconcile_time_seconds", "controller"),
        ),
        Panel(
            "Reconciles",
            "ops",
            "By result. Many errors that stay are a problem, single ones are conflicts.",
            (
                Query("{{controller}} {{result}}", _rate("controller_runtime_reconcile_total", "controller", "result")),
                Query("{{controller}} unexpected", _rate("controller_runtime_reconcile_panics_total", "controller")),
            ),
        ),
        Panel(
            "Busy workers",
            "percentunit",
            "Share of the workers that run a reconcile.",
            (
                Query(
                    "{{controller}}",
                    f"sum by (controller) (controller_runtime_active_workers{{{_OURS}}}) "
                    f"/ sum by (controller) (controller_runtime_max_concurrent_reconciles{{{_OURS}}})",
                ),
            ),
        ),
        Panel(
            "Longest reconcile that runs",
            "s",
            "After 300 s a reconcile is cancelled and tried again.",
            (Query("{{name}}", f"max by (name) (workqueue_longest_running_processor_seconds{{{_OURS}}})"),),
        ),
    ),
)

_CALLS = Row(
    "API calls",
    (
        Panel(
            "Requests to the API server",
            "reqps",
            "By method, of all replicas, watches included.",
            (Query("{{method}}", _rate("rest_client_requests_total", "method")),),
        ),
        Panel(
            "Requests that failed",
            "reqps",
            "By code. Conflicts (409) and objects that are gone (404) are normal; `<error>` is no answer at all.",
            (
                Query(
                    "{{code}}",
                    f'sum by (code) (rate(rest_client_requests_total{{{_OURS}, code!~"[123].."}}[$__rate_interval]))',
                ),
            ),
        ),
        Panel(
            "Requests of one reconcile",
            "short",
            "A reconcile in which nothing changes sends none.",
            (
                Query(
                    "{{controller}} mean",
                    f"{_rate('jobset_reconcile_api_calls_sum', 'controller')} "
                    f"/ {_rate('jobset_reconcile_api_calls_count', 'controller')}",
                ),
            ),
        ),
    ),
)

_ADMISSION = Row(
    "Admission",
    (
        Panel(
            "Admission requests",
            "reqps",
            "By webhook and code of the answer.",
            (Query("{{webhook}} {{code}}", _rate("controller_runtime_webhook_requests_total", "webhook", "code")),),
        ),
        Panel(
            "Admission latency",
            "s",
            "Time to answer.",
            _quantiles("controller_runtime_webhook_latency_seconds", "webhook"),
        ),
        Panel(
            "Refusals by rule",
            "short",
            "JobSets refused in the last hour, by the rules that they broke: docs/errors.md explains each.",
            (Query("{{rule}}", f"{_last_hour('jobset_admission_refusals_total', 'rule')} > 0"),),
        ),
    ),
)

_REPLICAS = Row(
    "Replicas",
    (
        Panel(
            "Leader",
            "short",
            "1 for the replica that holds the lease: exactly one should.",
            (Query("{{pod}}", f"max by (pod) (leader_election_master_status{{{_OURS}}})"),),
        ),
        Panel(
            "Certificates",
            "d",
            "Days until the certificates in use expire.",
            (Query("{{name}}", f"(min by (name) (jobset_certificate_expiry_seconds{{{_OURS}}}) - time()) / 86400"),),
        ),
        Panel(
            "Certificate errors",
            "short",
            "In the last hour: certificates that could not be read, renewed or published.",
            (Query("errors", f"sum(increase(certwatcher_read_certificate_errors_total{{{_OURS}}}[1h]))"),),
        ),
        Panel(
            "Processors",
            "short",
            "Processors that each replica uses, without its processes of admission.",
            (Query("{{pod}}", _rate("process_cpu_seconds_total", "pod")),),
        ),
        Panel(
            "Memory",
            "bytes",
            "Memory in use by each replica, without its processes of admission.",
            (Query("{{pod}}", f"sum by (pod) (process_resident_memory_bytes{{{_OURS}}})"),),
        ),
    ),
)

ROWS = (_JOBSETS, _QUEUE, _CALLS, _ADMISSION, _REPLICAS)


def queries() -> Iterable[tuple[Panel, Query]]:
    """Every query, and the panel that it is in."""
    return ((panel, query) for row in ROWS for panel in row.panels for query in panel.queries)


def _panel(panel: Panel, place: Object) -> Object:
    targets = [
        {"refId": chr(ord("A") + i), "datasource": _DATASOURCE, "expr": each.expression, "legendFormat": each.legend}
        for i, each in enumerate(panel.queries)
    ]
    defaults = {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 10, "showPoints": "auto"}}
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": targets,
    }


def _panels() -> list[Object]:
    made: list[Object] = []
    top = 0
    for row in ROWS:
        made.append(
            {"type": "row", "title": row.title, "gridPos": {"x": 0, "y": top, "w": _COLUMNS, "h": 1}, "panels": []}
        )
        top += 1
        in_line = _COLUMNS // _WIDTH
        for i, panel in enumerate(row.panels):
            place = {"x": i % in_line * _WIDTH, "y": top + i // in_line * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
            made.append(_panel(panel, place))
        top += -(-len(row.panels) // in_line) * _HEIGHT
    return [{"id": i, **each} for i, each in enumerate(made, 1)]


def _variables() -> list[Object]:
    source: Any = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    # Only the manager has this metric. A release of another name has a Service of another name, which is the job.
    job: Any = {"name": "job", "label": "Job", "type": "query", "datasource": _DATASOURCE, "refresh": 2}
    return [source, {**job, "query": "label_values(jobset_reconcile_api_calls_count, job)"}]


def dashboard() -> Object:
    """The dashboard in Grafana's JSON model."""
    return {
        "uid": UID,
        "title": "JobSet",
        "tags": ["jobset", "kubernetes"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "",
        "templating": {"list": _variables()},
        "annotations": {"list": []},
        "panels": _panels(),
    }
