"""Alerts use metrics and labels that the manager has, and only its own series."""

import re
from pathlib import Path

import pytest

from manifests import objects
from manifests.naming import METRICS_SERVICE
from tests.support.promql import SERIES, labels_of, selectors

RULES = objects("prometheus/alerts.yaml")[0]["spec"]["groups"][0]["rules"]
PAGE = (Path(__file__).parents[2] / "docs/observability.md").read_text()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_labels_exist_and_only_series_of_the_manager_are_selected(rule):
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert shown <= labels_of(rule["expr"]), "aggregation keeps no such label"
    found = selectors(rule["expr"])
    assert found
    assert {conditions.get("job") for _, conditions in found} == {f'job="{METRICS_SERVICE}"'}


def test_every_alert_has_a_link_to_its_section_of_the_page():
    named = [f"docs/observability.md#{name.lower()}" for name in re.findall(r"^### (JobSet\w+)$", PAGE, re.MULTILINE)]
    assert [rule["annotations"]["runbook_url"] for rule in RULES] == named
    severities = re.findall(r"^### JobSet\w+\n\n(\w+): ", PAGE, re.MULTILINE)
    assert [rule["labels"]["severity"].capitalize() for rule in RULES] == severities


@pytest.mark.parametrize("query", re.findall(r"^```promql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
def test_queries_on_the_page_ask_for_series_that_exist(query):
    (resource,) = objects("kube-state-metrics/config.yaml")[0]["spec"]["resources"]
    known = {*SERIES, *(f"{resource['metricNamePrefix']}_{metric['name']}" for metric in resource["metrics"])}
    asked = {name for name, _ in selectors(query) if name}
    assert asked or "__name__" in query
    assert asked <= known


def test_the_page_names_all_metrics_that_name_namespaces():
    section = PAGE.partition("## Metrics of a team")[2].partition("## Dashboard")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(jobset_\w+)`", row)}
    assert named == {name for name, labels in SERIES.items() if "namespace" in labels}
