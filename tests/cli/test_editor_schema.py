"""`jobset schema`: editors accept what is admitted, and mark typing errors."""

import json
from typing import Any

import jsonschema_rs
import pytest
import yaml

from manifests.definition import crd
from manifests.editor_schema import editor_schema
from tests.support.objects.jobsets import jobset
from tests.support.objects.policies import exception, manifest
from tests.support.pages.files import ROOT

JSON = dict[str, Any]


@pytest.fixture(scope="module")
def schema() -> JSON:
    return editor_schema(crd())


def test_the_command_prints_it(command, schema: JSON):
    code, out, err = command("schema")
    assert (code, err) == (0, "")
    assert json.loads(out) == schema


def test_policies_and_exceptions_have_one_too(command):
    checks = {
        kind: jsonschema_rs.Draft7Validator(json.loads(command("schema", "--kind", kind)[1]))
        for kind in ("JobSetPolicy", "JobSetPolicyException")
    }
    seen = 0
    for path in sorted((ROOT / "examples/policies").glob("*.yaml")):
        body = next(yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader))
        seen += body["kind"] == "JobSetPolicy"
        assert checks["JobSetPolicy"].is_valid(body), path.name
        assert not checks["JobSetPolicyException"].is_valid(body)
    assert seen > 20
    granted = exception()
    assert checks["JobSetPolicyException"].is_valid(granted)
    granted["spec"]["rules"] = ["maxJob"]
    assert not checks["JobSetPolicyException"].is_valid(granted)
    assert not checks["JobSetPolicy"].is_valid(manifest(maxJobs={"maximum": 3}))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("spec", "sucessPolicy"), {}),
        (("spec", "replicatedJobs", 0, "replicas"), "two"),
        (("spec", "replicatedJobs", 0, "template", "spec", "backOffLimit"), 3),
        (("spec", "failurePolicy"), {"restartStrategy": "Recreated"}),
        (("kind",), "Jobset"),
        (("apiVersion",), "jobset.x-k8s.io/v1"),
    ],
)
def test_it_marks_mistakes(schema: JSON, place: tuple[Any, ...], value: object):
    check = jsonschema_rs.Draft7Validator(schema)
    body = jobset()
    assert check.is_valid(body)
    inner: Any = body
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    assert not check.is_valid(body)


def test_it_says_what_fields_mean(schema: JSON):
    fields = schema["properties"]["spec"]["properties"]
    assert [name for name, field in fields.items() if not field.get("description")] == []
