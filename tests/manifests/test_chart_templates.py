"""How a template is written, and that defaults, schema and table of the values agree."""

import re

import jsonschema_rs
import pytest
import yaml

from app.settings import Settings
from manifests.chart import templates
from manifests.chart.configuration import SECTIONS
from manifests.chart.templates import template_files
from manifests.chart.values import VALUES, defaults, schema, values_table
from manifests.naming import DEPLOYMENT, IMAGE, NAMESPACE
from manifests.objects import objects
from manifests.workload import MANAGER
from tests.support.cluster.helm import CHART, GO_USER


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return template_files()


def test_nothing_is_named_or_labelled_as_by_kustomize(made):
    text = "".join(made.values())
    assert [name for name in (NAMESPACE, DEPLOYMENT, "managed-by: kustomize", IMAGE) if name in text] == []


def test_each_condition_ends(made):
    for text in made.values():
        starts = re.findall(r"\{\{- (?:if|with|define) ", text)
        assert len(starts) == len(re.findall(r"\{\{- end ", text))


def test_what_prometheus_fills_in_is_not_left_to_helm(made):
    assert '{{ "{{" }} $labels.' in made["alerts.yaml"]
    assert "{{ $labels" not in made["alerts.yaml"]


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Deployment", "replicas"),
        ("Deployment", "template.spec.containers.0.image"),
        ("PodDisruptionBudget", "maxUnavailable"),
        ("NetworkPolicy", "ingress.0.ports"),
    ],
)
def test_a_value_that_has_no_place_any_more_is_an_error(monkeypatch, kind, path):
    """Else users would set it in vain."""
    changed = objects(MANAGER)
    node = next(each for each in changed if each["kind"] == kind)["spec"]
    *parents, last = path.split(".")
    for key in parents:
        node = node[int(key) if isinstance(node, list) else key]
    node[last] = {"changed": "x"}
    monkeypatch.setattr(templates, "objects", lambda *paths: changed if paths == (MANAGER,) else objects(*paths))
    with pytest.raises(ValueError, match="occurs 0 times"):
        templates.manager()


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
        ({"commonLabels": {"team": "ml"}}, True),
        ({"commonLabels": {"app.kubernetes.io/instance": "ml"}}, False),
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


def test_each_value_has_a_comment_that_says_what_it_is():
    lines = (CHART / "values.yaml").read_text().splitlines()
    assert yaml.safe_load("\n".join(lines)) == defaults()
    for value in VALUES:
        key = f"{'  ' * value.path.count('.')}{value.path.rpartition('.')[2]}:"
        above = [lines[at - 1].lstrip("# ") for at, line in enumerate(lines) if line.startswith(key)]
        assert f"{value.description[0].upper()}{value.description[1:]}" in above, value.path


def test_each_value_has_a_row():
    rows = values_table().splitlines()[2:]
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
    theirs = {value.path for value in VALUES if not value.absent_in_go}
    assert theirs - set(paths(GO_USER)) == {"controller.podDisruptionBudget.maxUnavailable"}
    assert not {value.path for value in VALUES if value.absent_in_go} & set(paths(GO_USER))


@pytest.fixture(scope="module")
def read():
    """The values that templates read."""
    texts = [path.read_text() for path in (CHART / "templates").iterdir()]
    return {name.rstrip(".") for text in texts for name in re.findall(r"\.Values\.([\w.]+)", text)}


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.path)
def test_a_template_reads_each_value_or_the_mapping_it_is_in(value, read):
    names = value.path.split(".")
    known = {".".join(names[:count]) for count in range(1, len(names) + 1)}
    assert known & read
