"""The models of the Python client: the CRD's fields, what they read, and what they write."""

import ast
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from dev.hack import client_models
from jobset_client import JobSet, ReplicatedJob
from jobset_client.base import Model, ObjectMeta
from jobset_client.models import JobSetSpec
from manifests.definition import crd
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.pages.files import ROOT

JSON = dict[str, Any]
FILES = [*sorted((ROOT / "tests/manifests/good").glob("*.yaml")), *sorted((ROOT / "examples").rglob("*.yaml"))]


def test_the_models_are_those_of_the_crd():
    assert client_models.FILE.read_text(encoding="utf-8") == client_models.models_module(), (
        "run `make generate` and commit"
    )


def fields(schema: JSON, path: str = "") -> Iterator[tuple[str, str]]:
    """Path and description of every field of the CRD, but of what is in templates."""
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}".removeprefix(".")
        yield here, field.get("description", "")
        if name not in {"template", "templates", "metadata"}:
            yield from fields(field.get("items", field), here)


def test_every_field_of_the_crd_is_an_attribute():
    """Found by writing each field alone: what is not an attribute would be kept as an unknown field."""
    schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    seen = 0
    for path, _ in fields(schema):
        model: Any = JobSet
        for name in path.split("."):
            known = {field.serialization_alias: field for field in model.model_fields.values()}
            assert name in known, path
            model = inner(known[name].annotation)
        seen += 1
    assert seen > 100


def inner(annotation: Any) -> Any:
    """The model in `X | None` or `list[X]`."""
    for part in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(part, type) and issubclass(part, Model):
            return part
    return annotation


def test_every_attribute_says_what_it_is():
    tree = ast.parse(client_models.FILE.read_text(encoding="utf-8"))
    silent = [
        f"{made.name}.{field.target.id}"
        for made in tree.body
        if isinstance(made, ast.ClassDef)
        for field, text in zip(made.body, [*made.body[1:], None], strict=True)
        if isinstance(field, ast.AnnAssign)
        and not (isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant))
    ]
    assert silent == ["JobSet.metadata"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_manifest_is_written_as_it_was_read(path):
    for body in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        if isinstance(body, dict) and body.get("kind") == "JobSet" and path.name != "mistakes.yaml":
            assert JobSet.from_dict(body).to_dict() == without_nulls(body)


def without_nulls(body: JSON) -> JSON:
    return {key: without_nulls(one) if isinstance(one, dict) else one for key, one in body.items() if one is not None}


def test_null_absent_and_empty_are_read():
    js = JobSet.from_dict(
        {"metadata": {"name": "a", "labels": None}, "spec": {"suspend": None, "replicatedJobs": None}}
    )
    assert (js.spec.suspend, js.spec.replicated_jobs, js.metadata.labels) == (None, [], {})
    assert js.status.conditions == []
    assert js.to_dict()["spec"] == {}
    assert JobSet.from_dict({}).to_dict() == {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    emptied = JobSet.from_dict({"spec": {"failurePolicy": {}, "replicatedJobs": []}}).to_dict()
    assert emptied["spec"] == {"failurePolicy": {}, "replicatedJobs": []}


def test_unknown_fields_are_kept_where_that_is_asked_for():
    body = stored(jobset(rjob(later={"a": [1, None]}), newer=None, newest={"x": 1}))
    body["status"] = {"conditions": [{"type": "New", "status": "Maybe", "more": 1}], "later": {}}
    body["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    read = JobSet.from_dict(body, keep_unknown=True)
    assert read.to_dict() == body
    assert JobSet.from_yaml(read.to_yaml(), keep_unknown=True) == read


def test_what_is_changed_is_written():
    js = JobSet.from_dict(jobset())
    js.spec.suspend = True
    js.metadata.labels["team"] = "a"
    js.spec.replicated_jobs.append(ReplicatedJob(name="more", template={}, replicas=0))
    js.spec.coordinator = None
    written = js.to_dict()
    assert written["metadata"]["labels"] == {"team": "a"}
    assert written["spec"]["suspend"] is True
    assert written["spec"]["replicatedJobs"][1] == {"name": "more", "template": {}, "replicas": 0}
    assert "coordinator" not in written["spec"]


def test_attributes_and_names_of_the_api_both_set_a_field():
    by_name = JobSetSpec.model_validate({"network": {"enableDNSHostnames": False}, "ttlSecondsAfterFinished": 3})
    by_attribute = JobSetSpec(network={"enable_dns_hostnames": False}, ttl_seconds_after_finished=3)
    assert by_name.to_dict() == by_attribute.to_dict()
    assert by_name.network is not None
    assert by_name.network.enable_dns_hostnames is False


def test_yaml_there_and_back():
    js = JobSet.from_dict(jobset())
    assert JobSet.from_yaml(js.to_yaml()) == js
    assert js.to_yaml().startswith("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n")


def test_times_stay_text():
    js = JobSet.from_yaml("metadata: {creationTimestamp: 2026-01-02T03:04:05Z, annotations: {day: 2026-01-02}}")
    assert (js.metadata.creation_timestamp, js.metadata.annotations["day"]) == ("2026-01-02T03:04:05Z", "2026-01-02")


class V1PodSpec:
    """Made as the models of the Kubernetes packages are."""

    attribute_map = {"restart_policy": "restartPolicy", "host_network": "hostNetwork"}
    restart_policy = "Never"
    host_network = None


def test_templates_may_hold_objects_of_the_kubernetes_packages():
    rjob = ReplicatedJob(name="a", template={"spec": {"template": {"spec": V1PodSpec()}}})
    assert rjob.template == {"spec": {"template": {"spec": {"restartPolicy": "Never"}}}}


def test_an_unset_name_is_not_written():
    assert ObjectMeta(generate_name="train-").to_dict() == {"generateName": "train-"}
