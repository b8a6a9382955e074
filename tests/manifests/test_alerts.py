"""Alerts use metrics and labels that the manager has, and only its own series."""

import re
from pathlib import Path

import pytest

from manifests.alerts import ALERTS
from manifests.naming import METRICS_SERVICE
from manifests.state_metrics import PREFIX, state_metrics
from tests.support.promql import SERIES, labels_of, selectors

PAGE = (Path(__file__).parents[2] / "docs/observability.md").read_text()


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_metrics_and_labels_exist(alert):
    shown = set(re.findall(r"\$labels\.(\w+)", alert.summary))
    assert shown <= labels_of(alert.expression), "aggregation keeps no such label"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_only_series_of_the_manager_are_selected(alert):
    found = selectors(alert.expression)
    assert found
    assert {conditions.get("job") for _, conditions in found} == {f'job="{METRICS_SERVICE}"'}


def test_every_alert_is_on_the_page():
    assert re.findall(r"^\| `(JobSet\w+)` \|", PAGE, re.MULTILINE) == [alert.name for alert in ALERTS]


@pytest.mark.parametrize("query", re.findall(r"^```promql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
def test_queries_on_the_page_ask_for_series_that_exist(query):
    (resource,) = state_metrics()["spec"]["resources"]
    known = {*SERIES, *(f"{PREFIX}_{metric['name']}" for metric in resource["metrics"])}
    asked = {name for name, _ in selectors(query) if name}
    assert asked or "__name__" in query
    assert asked <= known


def test_the_page_names_all_metrics_that_name_namespaces():
    section = PAGE.partition("## Metrics of a team")[2].partition("## Dashboard")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(jobset_\w+)`", row)}
    assert named == {name for name, labels in SERIES.items() if "namespace" in labels}
