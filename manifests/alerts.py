"""Alerts for Prometheus: a PrometheusRule for the Prometheus Operator (docs/observability.md).

It is a base of its own, because a cluster without the operator has no such kind. Other controllers use some of the
metric names, too: every expression selects the series scraped from the Service of our metrics.
"""

from dataclasses import dataclass

from manifests.naming import METRICS_SERVICE, Object, obj

_OURS = f'job="{METRICS_SERVICE}"'
"""A ServiceMonitor without `jobLabel` gives its series the Service's name as `job`."""

NO_LEADER = "JobSetNoLeader"
"""The alert that makes no sense without leader election."""

_PAGE = "See docs/observability.md."


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. `expression` is PromQL, `lasts` the duration after which a result of it fires, as in Prometheus."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str


ALERTS = (
    Alert(
        NO_LEADER,
        f"absent(leader_election_master_status{{{_OURS}}} == 1)",
        "5m",
        "critical",
        "No replica of the JobSet manager leads, or none is scraped: JobSets are not reconciled.",
    ),
    Alert(
        "JobSetQueueStuck",
        f"sum by (name) (workqueue_depth{{{_OURS}}}) > 0 "
        f"and sum by (name) (rate(workqueue_work_duration_seconds_count{{{_OURS}}}[5m])) == 0",
        "10m",
        "critical",
        "Keys wait in the queue {{ $labels.name }} of the JobSet manager, and no worker finishes one.",
    ),
    Alert(
        "JobSetReconcilePanics",
        f"sum by (controller) (increase(controller_runtime_reconcile_panics_total{{{_OURS}}}[15m])) > 0",
        "0m",
        "warning",
        "Reconciles of {{ $labels.controller }} end with an unexpected exception. The log has the traceback.",
    ),
    Alert(
        "JobSetReconcileErrors",
        f"sum by (controller) (rate(controller_runtime_reconcile_errors_total{{{_OURS}}}[10m])) "
        f"/ sum by (controller) (rate(controller_runtime_reconcile_total{{{_OURS}}}[10m])) > 0.5",
        "15m",
        "warning",
        "More than half of the reconciles of {{ $labels.controller }} fail.",
    ),
    Alert(
        "JobSetAdmissionFaults",
        f'sum by (webhook) (rate(controller_runtime_webhook_requests_total{{{_OURS}, code=~"5.."}}[5m])) > 0',
        "10m",
        "warning",
        "The webhook {{ $labels.webhook }} of JobSet keeps answering with codes of 500 and more.",
    ),
    Alert(
        "JobSetCertificateExpires",
        f"min by (name) (jobset_certificate_expiry_seconds{{{_OURS}}}) - time() < 14 * 86400",
        "1h",
        "critical",
        "The certificate {{ $labels.name }} of the JobSet manager expires in less than 14 days.",
    ),
    Alert(
        "JobSetCertificateNotRenewed",
        f'min by (name) (jobset_certificate_expiry_seconds{{{_OURS}, name=~"webhook|webhook-ca"}}) - time() '
        f'< 75 * 86400 and on () count(jobset_certificate_expiry_seconds{{{_OURS}, name="webhook-ca"}}) > 0',
        "1h",
        "warning",
        "The JobSet manager should have renewed its own certificate {{ $labels.name }} 15 days ago.",
    ),
    Alert(
        "JobSetCertificateErrors",
        f"sum(rate(certwatcher_read_certificate_errors_total{{{_OURS}}}[10m])) > 0",
        "15m",
        "warning",
        "The JobSet manager cannot read, renew or publish a certificate. The log has the reason.",
    ),
    Alert(
        "JobSetWebhooksOff",
        f"min by (configuration) (jobset_webhooks_registered{{{_OURS}}}) == 0",
        "5m",
        "warning",
        "The API server calls no webhook by {{ $labels.configuration }}: JobSets are not checked. See jobset webhooks.",
    ),
)


def prometheus_rule() -> Object:
    """The PrometheusRule of monitoring.coreos.com/v1 with all alerts, in one group."""
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expression,
            "for": alert.lasts,
            "labels": {"severity": alert.severity},
            "annotations": {"summary": alert.summary, "description": _PAGE},
        }
        for alert in ALERTS
    ]
    spec = {"groups": [{"name": "jobset", "rules": rules}]}
    return obj("monitoring.coreos.com/v1", "PrometheusRule", "jobset-alerts", spec=spec)
