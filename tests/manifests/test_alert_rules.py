"""Prometheus itself evaluates the alerts: each fires when it should, and does not when it should not.

The series of a case begin at 0 s, with one sample a minute, in promtool's notation: `0x5` is 0 and then 0 five times
more, `0+2x5` rises by 2 five times, `_x5` is none at all.
"""

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from manifests import objects
from manifests.naming import METRICS_SERVICE
from tests.support.panels import queries
from tests.support.programs import locate_program
from tests.support.programs.promtool import PROMTOOL

(RULE,) = objects("prometheus/alerts.yaml")
"""The committed PrometheusRule, whose spec the operator gives to Prometheus."""
ALERTS = {rule["alert"]: rule for rule in RULE["spec"]["groups"][0]["rules"]}
DAY = 86400
LEADER = "leader_election_master_status"
DEPTH, WORKED = "workqueue_depth", "workqueue_work_duration_seconds_count"
RECONCILES, ERRORS = "controller_runtime_reconcile_total", "controller_runtime_reconcile_errors_total"
PANICS = "controller_runtime_reconcile_panics_total"
WEBHOOKS = "jobset_webhooks_registered"
REQUESTS = "controller_runtime_webhook_requests_total"
EXPIRY, CERTIFICATE_ERRORS = "jobset_certificate_expiry_seconds", "certwatcher_read_certificate_errors_total"


def of(metric: str, job: str = METRICS_SERVICE, **labels: str) -> str:
    """A series of the manager."""
    return metric + "{" + ", ".join(f'{key}="{value}"' for key, value in ({"job": job} | labels).items()) + "}"


@dataclass(frozen=True)
class Case:
    """Series with their values; and for some times the labels of the alerts that fire then, but for the severity."""

    alert: str
    story: str
    series: dict[str, str]
    fires: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    silent: tuple[str, ...] = ()


CASES = [
    Case(
        "JobSetNoLeader",
        "the leader loses the lease, and nobody takes it",
        {of(LEADER, pod="a"): "1x10 0x30", of(LEADER, pod="b"): "0x41"},
        {"16m": [{}]},
        silent=("10m", "15m"),
    ),
    Case("JobSetNoLeader", "nothing is scraped", {}, {"6m": [{}]}, silent=("4m",)),
    Case(
        "JobSetNoLeader",
        "another controller leads",
        {of(LEADER, job="other", pod="a"): "1x40"},
        {"6m": [{}]},
    ),
    Case(
        "JobSetNoLeader",
        "a replica takes over",
        {of(LEADER, pod="a"): "1x10 0x30", of(LEADER, pod="b"): "0x12 1x30"},
        silent=("11m", "20m", "40m"),
    ),
    Case(
        "JobSetQueueStuck",
        "one queue of two stands still",
        {
            of(DEPTH, name="jobset", controller="jobset", priority="0"): "0x5 7x35",
            of(WORKED, name="jobset", controller="jobset"): "0+5x5 25x35",
            of(DEPTH, name="placement", controller="placement", priority="0"): "7x40",
            of(WORKED, name="placement", controller="placement"): "0+5x40",
        },
        {"22m": [{"name": "jobset"}]},
        silent=("18m",),
    ),
    Case(
        "JobSetQueueStuck",
        "nothing waits",
        {of(DEPTH, name="jobset", priority="0"): "0x40", of(WORKED, name="jobset"): "9x40"},
        silent=("20m", "40m"),
    ),
    Case(
        "JobSetQueueStuck",
        "a pause that ends",
        {of(DEPTH, name="jobset", priority="0"): "7x40", of(WORKED, name="jobset"): "0+5x10 50x10 50+5x20"},
        silent=("16m", "24m", "30m"),
    ),
    Case(
        "JobSetReconcilePanics",
        "one, which is forgotten after a quarter of an hour",
        {of(PANICS, controller="jobset"): "0x5 1x40", of(PANICS, controller="placement"): "0x45"},
        {"7m": [{"controller": "jobset"}], "19m": [{"controller": "jobset"}]},
        silent=("5m", "22m"),
    ),
    Case(
        "JobSetReconcilePanics",
        "an old one, and the manager starts again",
        {of(PANICS, controller="jobset"): "3x20 0x20"},
        silent=("20m", "22m", "30m"),
    ),
    Case(
        "JobSetReconcileErrors",
        "six of ten fail in one controller",
        {
            of(ERRORS, controller="jobset"): "0+6x40",
            of(RECONCILES, controller="jobset", result="error"): "0+6x40",
            of(RECONCILES, controller="jobset", result="success"): "0+4x40",
            of(ERRORS, controller="placement"): "0+4x40",
            of(RECONCILES, controller="placement", result="error"): "0+4x40",
            of(RECONCILES, controller="placement", result="success"): "0+6x40",
        },
        {"17m": [{"controller": "jobset"}]},
        silent=("15m",),
    ),
    Case(
        "JobSetReconcileErrors",
        "all fail for five minutes; later there is nothing to do",
        {
            of(ERRORS, controller="jobset"): "0x5 0+9x5 45x40",
            of(RECONCILES, controller="jobset", result="error"): "0x5 0+9x5 45x40",
            of(RECONCILES, controller="jobset", result="success"): "0x55",
        },
        silent=("11m", "19m", "30m", "50m"),
    ),
    Case(
        "JobSetAdmissionFaults",
        "one webhook keeps failing",
        {
            of(REQUESTS, webhook="/mutate", code="500"): "0+1x40",
            of(REQUESTS, webhook="/mutate", code="200"): "0+9x40",
            of(REQUESTS, webhook="/validate", code="500"): "0x40",
        },
        {"12m": [{"webhook": "/mutate"}]},
        silent=("10m",),
    ),
    Case(
        "JobSetAdmissionFaults",
        "refusals, and a single fault",
        {
            of(REQUESTS, webhook="/validate", code="422"): "0+9x40",
            of(REQUESTS, webhook="/validate", code="400"): "0+9x40",
            of(REQUESTS, webhook="/validate", code="500"): "0x5 1x35",
        },
        silent=("7m", "12m", "17m", "40m"),
    ),
    Case(
        "JobSetCertificateExpires",
        "one of two certificates is not renewed, in one of two replicas",
        {
            of(EXPIRY, name="webhook", pod="a"): f"{13 * DAY}x90",
            of(EXPIRY, name="webhook", pod="b"): f"{300 * DAY}x90",
            of(EXPIRY, name="metrics", pod="a"): f"{300 * DAY}x90",
        },
        {"61m": [{"name": "webhook"}]},
        silent=("59m",),
    ),
    Case(
        "JobSetCertificateExpires",
        "there are 15 days left, or it is renewed in time",
        {of(EXPIRY, name="metrics"): f"{15 * DAY}x150", of(EXPIRY, name="webhook"): f"{13 * DAY}x50 {300 * DAY}x100"},
        silent=("55m", "61m", "150m"),
    ),
    Case(
        "JobSetCertificateNotRenewed",
        "the manager's own certificate is in its last 75 days",
        {
            of(EXPIRY, name="webhook", pod="a"): f"{74 * DAY}x90",
            of(EXPIRY, name="webhook", pod="b"): f"{300 * DAY}x90",
            of(EXPIRY, name="webhook-ca", pod="a"): f"{3000 * DAY}x90",
        },
        {"61m": [{"name": "webhook"}]},
        silent=("59m",),
    ),
    Case(
        "JobSetCertificateNotRenewed",
        "its CA is",
        {of(EXPIRY, name="webhook"): f"{89 * DAY}x90", of(EXPIRY, name="webhook-ca"): f"{74 * DAY}x90"},
        {"61m": [{"name": "webhook-ca"}]},
    ),
    Case(
        "JobSetCertificateNotRenewed",
        "somebody else makes certificates, for 60 days",
        {of(EXPIRY, name="webhook"): f"{60 * DAY}x90", of(EXPIRY, name="metrics"): f"{60 * DAY}x90"},
        silent=("61m", "90m"),
    ),
    Case(
        "JobSetCertificateNotRenewed",
        "the manager's own are renewed a day late; those of the metrics are not its own",
        {
            of(EXPIRY, name="webhook"): f"{89 * DAY}x50 {365 * DAY}x100",
            of(EXPIRY, name="webhook-ca"): f"{3000 * DAY}x150",
            of(EXPIRY, name="metrics"): f"{60 * DAY}x150",
        },
        silent=("50m", "61m", "150m"),
    ),
    Case(
        "JobSetCertificateErrors",
        "the Secret cannot be written",
        {of(CERTIFICATE_ERRORS, pod="a"): "0+1x40", of(CERTIFICATE_ERRORS, pod="b"): "0x40"},
        {"17m": [{}]},
        silent=("15m",),
    ),
    Case(
        "JobSetCertificateErrors",
        "one file was read while it was written",
        {of(CERTIFICATE_ERRORS, pod="a"): "0x5 1x40"},
        silent=("7m", "16m", "30m"),
    ),
    Case(
        "JobSetWebhooksOff",
        "an administrator has switched them off, and on again",
        {of(WEBHOOKS, configuration="v", pod=pod): "2x2 0x20 2x20" for pod in "ab"}
        | {of(WEBHOOKS, configuration="m", pod="a"): "3x40"},
        {"9m": [{"configuration": "v"}]},
        silent=("2m", "7m", "25m"),
    ),
    Case(
        "JobSetWebhooksOff",
        "an installation was applied again, in two steps",
        {of(WEBHOOKS, configuration="v", pod="a"): "2x5 0x2 2x20"},
        silent=("7m", "12m"),
    ),
]


def test_each_alert_has_cases_of_both_kinds():
    assert {case.alert for case in CASES if case.fires} == ALERTS.keys()
    assert {case.alert for case in CASES if not case.fires} == ALERTS.keys()
    assert all(case.fires or case.silent for case in CASES)


def promtool(*args: str, folder: Path) -> None:
    """Run it; its words are those of a failed test."""
    done = subprocess.run(  # noqa: S603 - built by us
        [locate_program(PROMTOOL), *args], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def as_test(case: Case) -> dict[str, object]:
    """The case as promtool reads it."""
    rule = ALERTS[case.alert]
    asked: dict[str, list[dict[str, str]]] = {**case.fires, **{when: [] for when in case.silent}}
    return {
        "name": case.story,
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
        "alert_rule_test": [
            {
                "eval_time": when,
                "alertname": case.alert,
                "exp_alerts": [
                    {"exp_labels": rule["labels"] | labels, "exp_annotations": filled(rule["annotations"], labels)}
                    for labels in alerts
                ],
            }
            for when, alerts in asked.items()
        ],
    }


def filled(annotations: dict[str, str], labels: dict[str, str]) -> dict[str, str]:
    """The texts with the values of the labels that they show."""
    text = json.dumps(annotations)
    for key, value in labels.items():
        text = text.replace(f"{{{{ $labels.{key} }}}}", value)
    return json.loads(text)


def evaluated(tests: list[dict[str, object]], folder: Path) -> None:
    """Let promtool run tests of the alerts."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(RULE["spec"]))
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (folder / "tests.yaml").write_text(json.dumps(document))
    promtool("test", "rules", "tests.yaml", folder=folder)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("alert", ALERTS)
def test_it_fires_when_it_should_and_only_then(alert, tmp_path):
    """The first run on a machine builds promtool."""
    evaluated([as_test(case) for case in CASES if case.alert == alert], tmp_path)


def made_of(expression: str) -> str:
    """With what Grafana fills in."""
    return expression.replace("$__rate_interval", "5m").replace("$job", METRICS_SERVICE)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_prometheus_takes_every_query_of_the_dashboard(tmp_path):
    made = [{"record": f"query_{i}", "expr": made_of(query.expression)} for i, (_, query) in enumerate(queries())]
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": made}]}))
    promtool("check", "rules", "rules.yaml", folder=tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_dashboard_counts_the_first_event_of_a_series(tmp_path):
    """What happened once shows for an hour, also if its replica is gone; what happened long ago does not."""
    (expression,) = (made_of(query.expression) for panel, query in queries() if panel.title == "Refusals by rule")
    metric = "jobset_admission_refusals_total"
    series = {
        of(metric, rule="new"): "_x70 2x60",
        of(metric, rule="old"): "5x130",
        of(metric, rule="gone"): "_x70 3x9 stale",
    }
    asked = [
        {"expr": expression, "eval_time": when, "exp_samples": seen}
        for when, seen in (
            ("100m", [{"labels": '{rule="new"}', "value": 2}, {"labels": '{rule="gone"}', "value": 3}]),
            ("131m", []),
        )
    ]
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    evaluated([{"interval": "1m", "input_series": inputs, "promql_expr_test": asked}], tmp_path)
