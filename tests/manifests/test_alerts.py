"""Alerts use metrics and labels that the manager has, and only its own series."""

import re
from pathlib import Path

import pytest

from manifests.alerts import ALERTS
from manifests.naming import METRICS_SERVICE
from tests.support.promql import labels_of, selectors

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
