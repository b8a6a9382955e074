"""What kube-state-metrics is told to read exists in the CRD and is a number, or can be read as one."""

import re
from pathlib import Path

import pytest

from api.keys import GROUP, KIND, VERSION
from manifests import objects
from manifests.definition import crd

(CONFIG,) = objects("kube-state-metrics/config.yaml")
(RESOURCE,) = CONFIG["spec"]["resources"]
METRICS, PREFIX = RESOURCE["metrics"], RESOURCE["metricNamePrefix"]
PAGE = (Path(__file__).parents[2] / "docs/observability.md").read_text()

TEXT = {"type": "string"}
METADATA = {"name": TEXT, "namespace": TEXT, "creationTimestamp": TEXT | {"format": "date-time"}}
"""Fields of each object, which no CRD describes."""


def schema_at(schema, path):
    """What the schema says of a path; of a list, what it says of an item. KeyError if there is no such field."""
    for name in path:
        schema = METADATA[name] if schema.get("properties") == METADATA else schema["properties"][name]
        schema = schema.get("items", schema)
    return schema


@pytest.fixture(scope="module")
def whole():
    """The schema of the version that kube-state-metrics reads."""
    (version,) = (each for each in crd()["spec"]["versions"] if each["name"] == RESOURCE["groupVersionKind"]["version"])
    schema = version["schema"]["openAPIV3Schema"]
    return schema | {"properties": schema["properties"] | {"metadata": {"properties": METADATA}}}


def read_as_number(schema):
    """Whether kube-state-metrics makes a number of each value: also of True, False and Unknown, and of a time."""
    return (
        schema["type"] in {"integer", "boolean"}
        or schema.get("format") == "date-time"
        or set(schema.get("enum", ["?"])) <= {"True", "False", "Unknown"}
    )


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric["name"])
def test_paths_are_in_the_schema(metric, whole):
    each = metric["each"]
    body = each[each["type"][0].lower() + each["type"][1:]]
    node = schema_at(whole, body["path"])
    for path in body.get("labelsFromPath", {}).values():
        assert schema_at(node, path)["type"] == "string"
    if each["type"] == "Gauge":
        assert read_as_number(schema_at(node, body.get("valueFrom", [])))
    else:
        assert (node["type"], body["list"]) == ("string", ["Completed", "Failed"])


def test_each_object_has_its_own_series(whole):
    """By namespace and name; and a list gives one series for each item."""
    assert RESOURCE["groupVersionKind"] == {"group": GROUP, "version": VERSION, "kind": KIND}
    assert set(RESOURCE["labelsFromPath"]) == {"namespace", "jobset"}
    for path in RESOURCE["labelsFromPath"].values():
        assert schema_at(whole, path) == TEXT
    for metric in METRICS:
        (body,) = (value for key, value in metric["each"].items() if key != "type")
        node = whole
        for name in body["path"]:
            node = node["properties"][name]
        assert (node["type"] == "array") == ("labelsFromPath" in body)
        # Before the list is there, kube-state-metrics would report 0 without the labels of an item.
        assert not ("labelsFromPath" in body and body.get("nilIsZero"))


def test_every_metric_is_on_the_page():
    assert re.findall(rf"^\| `({PREFIX}_\w+)` \|", PAGE, re.MULTILINE) == [
        f"{PREFIX}_{each['name']}" for each in METRICS
    ]
