"""The CRD on a real API server: how it is published, and which values it defaults, keeps and prunes."""

import copy
import json
from pathlib import Path

import pytest
import yaml

from manifests import crd, embedded
from tests.support.cluster.crd_calls import JOBSETS, STRICT, replicated, spec
from tests.support.cluster.requests import kubectl, request, wait_for
from webhooks.jobset.update.forgotten import NEWER_FIELDS

TRAINING = Path(__file__).parents[2] / "manifests" / "data" / "training.yaml"


def test_established_without_complaint(server):
    definition = request(
        server, "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io"
    )[1]
    conditions = {c["type"]: c["status"] for c in definition["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}  # no NonStructuralSchema, no Terminating


def test_nothing_of_the_definition_is_lost(server):
    definition = request(
        server, "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io"
    )[1]
    assert definition["spec"]["versions"] == crd()["spec"]["versions"]


def test_defaults_of_the_schema(jobset):
    given = spec(failurePolicy={}, volumeClaimPolicies=[{"retentionPolicy": {}}])
    given["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["ports"] = [
        {"containerPort": 80}
    ]
    stored = jobset.stored(given)["spec"]
    assert stored["replicatedJobs"][0]["replicas"] == 1
    assert stored["replicatedJobs"][0]["groupName"] == "default"
    assert stored["failurePolicy"] == {"restartStrategy": "Recreate"}
    assert stored["volumeClaimPolicies"] == [{"retentionPolicy": {"whenDeleted": "Delete"}}]
    container = stored["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert container == {"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}


@pytest.mark.parametrize("empty", [{}, {"replicatedJobs": []}])
def test_a_jobset_without_replicated_jobs_is_accepted(jobset, empty):
    assert jobset.stored(empty)["spec"] == empty


def test_replicas_zero_is_accepted_and_kept(jobset):
    assert jobset.stored({"replicatedJobs": [replicated(replicas=0)]})["spec"]["replicatedJobs"][0]["replicas"] == 0


def test_unknown_fields_are_refused_when_strict_and_pruned_otherwise(jobset):
    given = spec(surprise=1)
    given["replicatedJobs"][0]["template"]["metadata"] = {"labels": {"a": "b"}, "generateName": "x-", "uid": "u"}
    given["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["surprise"] = True
    status, answer = jobset.send(given)
    assert status == 400
    for path in ("spec.surprise", "template.metadata.generateName", "template.spec.template.spec.surprise"):
        assert f'{path}"' in answer["message"]
    stored = jobset.stored(given, query="fieldValidation=Ignore")["spec"]
    assert stored["replicatedJobs"][0]["template"]["metadata"] == {"labels": {"a": "b"}}
    assert "surprise" not in json.dumps(stored)


def test_a_value_that_only_a_newer_kubernetes_knows_reaches_the_store(jobset):
    given = spec()
    given["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["dnsPolicy"] = "FromTheFuture"
    stored = jobset.stored(given)["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert stored["dnsPolicy"] == "FromTheFuture"


def test_a_real_manifest_comes_back_as_it_went_in(jobset):
    given = yaml.safe_load(TRAINING.read_text())["spec"]
    assert jobset.stored(given)["spec"] == given


def test_the_same_templates_are_taken_by_the_job_api(server):
    for entry in yaml.safe_load(TRAINING.read_text())["spec"]["replicatedJobs"]:
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": entry["name"]},
            "spec": entry["template"]["spec"],
        }
        status, answer = request(server, "POST", f"/apis/batch/v1/namespaces/default/jobs?dryRun=All&{STRICT}", job)
        assert status == 201, answer["message"]


class Everything:
    """One value for every field of a type of the server's own OpenAPI, so that a missing one is found out."""

    def __init__(self, server):
        self.schemas = {}
        for path in ("/openapi/v3/api/v1", "/openapi/v3/apis/batch/v1"):
            self.schemas |= request(server, "GET", path)[1]["components"]["schemas"]

    def of(self, name):
        if name.endswith("meta.v1.ObjectMeta"):
            return {
                "name": "n",
                "namespace": "",
                "labels": {"k": "v"},
                "annotations": {"k": "v"},
                "finalizers": ["f/f"],
            }
        if name.endswith(("Quantity", "IntOrString")):
            return "1"
        return self.value(self.schemas[name])

    def value(self, schema):
        if (refs := [schema, *schema.get("allOf", [])]) and (
            ref := next((r["$ref"] for r in refs if "$ref" in r), None)
        ):
            return self.of(ref.rsplit("/", 1)[1])
        if schema["type"] == "object":
            values = {k: self.value(v) for k, v in schema.get("properties", {}).items()}
            return values | (
                {"k": self.value(schema["additionalProperties"])} if "additionalProperties" in schema else {}
            )
        if schema["type"] == "array":
            return [self.value(schema["items"])]
        if schema.get("format") == "date-time":
            return "2026-01-01T00:00:00Z"
        return {"string": schema.get("enum", ["s"])[0], "integer": 1, "number": 1, "boolean": True}[schema["type"]]


def test_every_field_that_the_server_knows_survives(server, jobset):
    everything = Everything(server)
    given = {
        "replicatedJobs": [
            {
                "name": "w",
                "groupName": "g",
                "replicas": 1,
                "template": everything.of(embedded.ROOT_TYPES["JobTemplateSpec"]),
            }
        ],
        "volumeClaimPolicies": [{"templates": [everything.of(embedded.ROOT_TYPES["PersistentVolumeClaim"])]}],
    }
    assert len(json.dumps(given)) > 15_000
    assert jobset.stored(copy.deepcopy(given))["spec"] == given


@pytest.mark.newest
def test_the_committed_types_are_those_of_this_server(server):
    live = embedded.trim(Everything(server).schemas)
    assert json.loads(embedded.DEFINITIONS_FILE.read_text())["definitions"] == live


def lacking(newer, older, holder="template"):
    """Member that holds it and name of each outermost field that the older schema has not."""
    for name, member in newer.get("properties", {}).items():
        if name in older.get("properties", {}):
            yield from lacking(member, older["properties"][name], name)
        else:
            yield holder, name
    if "items" in newer:
        yield from lacking(newer["items"], older["items"], holder)


def test_the_fields_that_an_older_client_forgets_are_those_that_its_kubernetes_lacks(server):
    """On Kubernetes 1.33 all of them; on a newer one some."""
    theirs = embedded.embedded_schema("JobTemplateSpec", embedded.trim(Everything(server).schemas))
    found = {*lacking(embedded.embedded_schema("JobTemplateSpec"), theirs)}
    newer = {(holder, name) for holder, names in NEWER_FIELDS.items() for name in names}
    assert found <= newer
    if request(server, "GET", "/version")[1]["minor"] == "33":
        names = {name for _, name in newer}
        assert found == {(holder, name) for holder, name in newer if holder not in names}, (
            "those that no other one holds"
        )


def test_explain(server):
    """The server publishes a new CRD's documentation a moment after it serves the CRD."""

    def explained(path, text):
        return wait_for(lambda: text in kubectl(server, "explain", f"jobset.spec.{path}", check=False), what=text)

    explained("failurePolicy.maxRestarts", "Restarts of the set that count, before it is Failed.")
    explained("replicatedJobs.template.spec.template.spec.containers.ports", "protocol")


def test_server_side_apply_again_changes_nothing(server):
    name = "training"
    for _ in range(3):
        kubectl(server, "apply", "--server-side", "-f", str(TRAINING), namespace="default")
    stored = request(server, "GET", f"{JOBSETS}/{name}")[1]
    assert stored["metadata"]["generation"] == 1
    request(server, "DELETE", f"{JOBSETS}/{name}")
