"""The dashboard asks for metrics and labels that the manager has, and its panels have places of their own."""

import json
import re
from itertools import pairwise

import pytest

from tests.support.panels import FILE, queries
from tests.support.promql import SERIES, labels_of, selectors

MADE = json.loads(FILE.read_text())
CHARTS = [panel for panel in MADE["panels"] if panel["type"] != "row"]
QUERIES = [query for _, query in queries()]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.expression)
def test_metrics_and_labels_exist(query):
    """What a legend does not name would be several lines of one name."""
    assert set(re.findall(r"{{(\w+)}}", query.legend)) == labels_of(query.expression)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.expression)
def test_only_series_of_the_manager_are_selected(query):
    assert {conditions.get("job") for _, conditions in selectors(query.expression)} == {'job="$job"'}


def test_variables_are_defined_before_they_are_used():
    """The job is the Service of the release: found by a metric that only the manager has."""
    source, job = MADE["templating"]["list"]
    assert (source["name"], source["type"]) == ("datasource", "datasource")
    assert re.fullmatch(r"label_values\((\w+), job\)", job["query"])[1] in SERIES
    assert job["query"].startswith("label_values(jobset_")
    asked = set(re.findall(r"\$\{?(\w+)", FILE.read_text()))
    assert asked == {"datasource", "job", "__rate_interval"}


def test_every_panel_is_described_and_numbers_its_queries():
    assert all(panel["description"] for panel in CHARTS)
    for panel in CHARTS:
        letters = [target["refId"] for target in panel["targets"]]
        assert sorted(set(letters)) == letters


def test_panels_do_not_overlap():
    assert len({panel["id"] for panel in MADE["panels"]}) == len(MADE["panels"])
    taken = [
        (x, y)
        for panel in MADE["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24
    assert all(a["gridPos"]["y"] <= b["gridPos"]["y"] for a, b in pairwise(MADE["panels"]))
