"""How a template is written, and that defaults, schema and table of the values agree."""

import jsonschema_rs
import pytest
import yaml

from manifests.chart.templates import If, Insert, Raw, render
from manifests.chart.values import VALUES, defaults, schema, table


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


def test_each_value_has_a_row():
    rows = table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [value.path for value in VALUES]
    assert {row.count("|") for row in rows} == {4}
