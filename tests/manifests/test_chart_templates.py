"""How a template is written, and that defaults, schema and table of the values agree."""

import re

import jsonschema_rs
import pytest
import yaml

from app.settings import Settings
from manifests.chart.configuration import SECTIONS
from manifests.chart.files import generated
from manifests.chart.templates import If, Insert, Raw, render
from manifests.chart.values import VALUES, defaults, schema, table
from tests.support.helm import GO_USER


@pytest.mark.parametrize(
    "text",
    ["plain", "two words", "yes", "null", "1", "1.5", "a: b", "#", "", " x", "x ", "- x", "a\nb", "é", "16Mi", "'", '"', "NaN"],
)  # fmt: skip
def test_texts_stay_what_they_are(text):
    assert yaml.safe_load(render([{"key": text, "list": [text]}])) == {"key": text, "list": [text]}


@pytest.mark.parametrize("value", [{}, [], None, True, 0, 1.5, [[1], {"a": [{}]}], {"a": {"b": [{"c": [1, 2]}, "d"]}}])
def test_values_stay_what_they_are(value):
    assert yaml.safe_load(render([{"key": value}])) == {"key": value}


def test_what_helm_decides_stands_at_the_indentation_of_its_place():
    made = {
        "spec": {
            "one": Raw("{{ .Values.one }}"),
            "block": Insert("toYaml .Values.block"),
            If(".Values.on"): {"more": ["x", If(".Values.two", ({"name": "z"},)), Insert("toYaml .Values.list")]},
            Insert('include "labels" .'): None,
        }
    }
    assert render([If(".Values.all", (made,))]) == (
        "{{- if .Values.all }}\n"
        "---\n"
        "spec:\n"
        "  one: {{ .Values.one }}\n"
        "  block:\n"
        "    {{- toYaml .Values.block | nindent 4 }}\n"
        "  {{- if .Values.on }}\n"
        "  more:\n"
        "  - x\n"
        "  {{- if .Values.two }}\n"
        "  - name: z\n"
        "  {{- end }}\n"
        "  {{- toYaml .Values.list | nindent 2 }}\n"
        "  {{- end }}\n"
        '  {{- include "labels" . | nindent 2 }}\n'
        "{{- end }}\n"
    )


@pytest.mark.parametrize("node", [{"a": "{{ x }}"}, {"list": [{If("x"): {"a": 1}}]}])
def test_what_helm_would_misread_is_refused(node):
    with pytest.raises(ValueError, match=r"template|plain key"):
        render([node])


def test_the_defaults_fit_the_schema_and_unknown_names_do_not():
    validator = jsonschema_rs.validator_for(schema())
    assert validator.is_valid(defaults())
    assert validator.is_valid({"global": {"for": "a parent chart"}})
    for values in ({"controllers": {}}, {"controller": {"replica": 1}}, {"controller": {"replicas": "2"}}):
        assert not validator.is_valid(values)


@pytest.mark.parametrize(
    ("values", "valid"),
    [
        ({"featureGates": {"JobSetPolicies": True, "AllAlpha": False}}, True),
        ({"featureGates": {"JobSetPolicie": True}}, False),
        ({"featureGates": {"JobSetPolicies": "true"}}, False),
        ({"managerConfiguration": {"policies": {"auditInterval": "5m"}}}, True),
        ({"managerConfiguration": {"policies": {"auditIntervall": "5m"}}}, False),
        ({"managerConfiguration": {"policy": {}}}, False),
        ({"managerConfiguration": {"featureGates": {"Nothing": True}}}, False),
        ({"tls": {"minVersion": "VersionTLS13"}}, True),
        ({"tls": {"minversion": "VersionTLS13"}}, False),
    ],
)
def test_misspelt_names_are_refused(values, valid):
    """Helm checks the user's values laid over the defaults."""
    assert jsonschema_rs.validator_for(schema()).is_valid(laid_over(defaults(), values)) is valid


def laid_over(below, above):
    """As Helm merges values."""
    both = {key: laid_over(below[key], above[key]) for key in below.keys() & above if isinstance(below[key], dict)}
    return {**below, **above, **both}


def test_the_schema_knows_each_field_of_the_managers_configuration():
    found = Settings.model_json_schema(by_alias=True)
    fields = {
        name: tuple(sorted(found["$defs"][field["$ref"].rpartition("/")[2]]["properties"]))
        for name, field in found["properties"].items()
        if "$ref" in field
    }
    assert fields == SECTIONS
    assert set(found["properties"]) - set(fields) == {"apiVersion", "kind", "featureGates"}


def test_each_value_has_a_row():
    rows = table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [value.path for value in VALUES]
    assert {row.count("|") for row in rows} == {4}


def paths(tree, prefix=""):
    """Of every mapping and of what is in it: `controller`, `controller.env`."""
    for key, each in tree.items():
        yield f"{prefix}{key}"
        if isinstance(each, dict):
            yield from paths(each, f"{prefix}{key}.")


def test_a_user_of_the_go_projects_chart_keeps_his_values():
    """Every value of that chart is in his file, but one of the two that exclude each other. Helm renders it in `integration`."""
    jsonschema_rs.validator_for(schema()).validate(GO_USER)
    theirs = {value.path for value in VALUES if not value.ours}
    assert theirs - set(paths(GO_USER)) == {"controller.podDisruptionBudget.maxUnavailable"}
    assert not {value.path for value in VALUES if value.ours} & set(paths(GO_USER))


@pytest.fixture(scope="module")
def read():
    """The values that templates read."""
    made = generated()
    return {
        name.rstrip(".")
        for file in made
        if file.startswith("templates/")
        for name in re.findall(r"\.Values\.([\w.]+)", made[file])
    }


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.path)
def test_a_template_reads_each_value_or_the_mapping_it_is_in(value, read):
    names = value.path.split(".")
    known = {".".join(names[:count]) for count in range(1, len(names) + 1)}
    assert known & read
