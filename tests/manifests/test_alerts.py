"""Alerts use metrics and labels that the manager has, and only its own series."""

import re
from pathlib import Path

import pytest

from manifests.alerts import ALERTS
from manifests.naming import METRICS_SERVICE

ROOT = Path(__file__).parents[2]
METRICS = (ROOT / "docs/reference/metrics.md").read_text()  # tests/app/test_metrics.py compares it with the registry
PAGE = (ROOT / "docs/observability.md").read_text()
ROWS = re.findall(r"^\| `([a-z_]+)` \| (\w+) \|([^|]*)\|", METRICS, re.MULTILINE)
SERIES = {name: set(re.findall(r"`(\w+)`", labels)) for name, kind, labels in ROWS if kind != "histogram"} | {
    name + suffix: set(re.findall(r"`(\w+)`", labels))
    for name, kind, labels in ROWS
    if kind == "histogram"
    for suffix in ("_count", "_sum")
}
OF_PROMQL = {"absent", "and", "by", "count", "increase", "job", "min", "on", "rate", "sum", "time", "m"}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_metrics_and_labels_exist(alert):
    words = set(re.findall(r"[a-z_]+", re.sub(r'"[^"]*"', "", alert.expression)))
    used = words & SERIES.keys()
    assert used
    assert words - used - OF_PROMQL <= set.intersection(*(SERIES[name] for name in used))
    shown = set(re.findall(r"\$labels\.(\w+)", alert.summary))
    assert shown <= set(re.findall(r"by \((\w+)\)", alert.expression)), "aggregation keeps no such label"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_only_series_of_the_manager_are_selected(alert):
    metrics = [word for word in re.findall(r"\w+", alert.expression) if word in SERIES]
    assert alert.expression.count(f'{{job="{METRICS_SERVICE}"') == len(metrics)


def test_every_alert_is_on_the_page():
    assert re.findall(r"^\| `(JobSet\w+)` \|", PAGE, re.MULTILINE) == [alert.name for alert in ALERTS]
