"""What `jobset render` prints beforehand is what the controller creates afterwards."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from api import keys
from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import kubectl, request, wait_for
from tests.support.commands import run_command

EXAMPLE = Path(__file__).parents[2] / "examples" / "training.yaml"
COLLECTIONS = {
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Service": "/api/v1/namespaces/{}/services",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
}
MOUNTING = {
    "containers": [
        {
            "name": "main",
            "image": "busybox",
            "ports": [{"containerPort": 80}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
    ]
}
CLAIM = {
    "metadata": {"name": "data", "labels": {"a": "b"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
EVERYTHING = manifest(
    group("driver", pod=MOUNTING),
    group("workers", 3, 2, groupName="g", pod=MOUNTING, annotations={"note": "on\nseveral lines"}),
    name="everything",
    suspend=True,
    coordinator={"replicatedJob": "driver"},
    network={"subdomain": "net", "publishNotReadyAddresses": False},
    failurePolicy={"maxRestarts": 2},
    volumeClaimPolicies=[{"templates": [CLAIM]}],
)
EVERYTHING["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}


def rendered(body: dict[str, Any], namespace: str) -> str:
    done = run_command("render", "-f", "-", "-n", namespace, "-o", "json", text=json.dumps(body))
    assert done.returncode == 0, done.stderr
    return done.stdout


def without_server_fields(body: dict[str, Any]) -> dict[str, Any]:
    """The object as its creator sent it, with the API server's defaults, which do not show who created it."""
    meta = body["metadata"]
    kept = {key: meta[key] for key in ("namespace", "annotations", "ownerReferences") if key in meta}
    kept["labels"] = {key: value for key, value in meta.get("labels", {}).items() if not _of_job_controller(key)}
    spec = {k: v for k, v in body["spec"].items() if k not in {"selector", "clusterIPs"} or body["kind"] == "Service"}
    if body["kind"] == "Job":
        template = spec["template"]
        # The cluster's priority classes decide about this one, and `render` asks no cluster.
        known = {k: v for k, v in template["metadata"]["labels"].items() if k != keys.PRIORITY}
        labels = {k: v for k, v in known.items() if not _of_job_controller(k)}
        spec["template"] = {
            **template,
            "metadata": {**template["metadata"], "labels": labels, "creationTimestamp": None},
        }
    return {"metadata": kept, "spec": spec}


def _of_job_controller(key: str) -> bool:
    return key.removeprefix("batch.kubernetes.io/") in {"controller-uid", "job-name"}


@pytest.mark.parametrize(
    "body", [yaml.load(EXAMPLE.read_text(), yaml.CSafeLoader), EVERYTHING], ids=["training", "everything"]
)
def test_rendered_children_are_those_that_are_created(sets, body):
    name = body["metadata"]["name"]
    sets.apply(body)
    uid = sets.get(name)["metadata"]["uid"]
    with_uid = {**body, "metadata": {**body["metadata"], "uid": uid}}
    expected = json.loads(rendered(with_uid, sets.namespace))["items"]
    jobs = sum(child["kind"] == "Job" for child in expected)
    wait_for(lambda: len(sets.jobs(name)) == jobs, what=f"{jobs} Jobs")
    assert [child["kind"] for child in expected].count("Service") == 1
    for child in expected:
        collection = COLLECTIONS[child["kind"]].format(sets.namespace)
        status, created = request(sets.cluster, "GET", f"{collection}/{child['metadata']['name']}")
        assert status == 200, f"{child['kind']} {child['metadata']['name']} was not created"
        assert "ownerReferences" in child["metadata"]
        # A dry run under another name gives ours with all defaults of the API server.
        child["metadata"]["name"] += "-again"
        status, ours = request(sets.cluster, "POST", f"{collection}?dryRun=All", child)
        assert status == 201, ours
        assert without_server_fields({**ours, "kind": child["kind"]}) == without_server_fields(
            {**created, "kind": child["kind"]}
        )
    found = request(sets.cluster, "GET", COLLECTIONS["Job"].format(sets.namespace))[1]["items"]
    ours_by_name = {child["metadata"]["name"].removesuffix("-again") for child in expected if child["kind"] == "Job"}
    assert {job["metadata"]["name"] for job in found} == ours_by_name, "nothing else was created"


def test_the_manifest_of_a_set_that_runs_differs_in_nothing(sets):
    body = manifest(group("workers", 2, 2), name="same")
    sets.apply(body)
    wait_for(lambda: len(sets.jobs("same")) == 2, what="2 Jobs")
    kubectl(sets.cluster, "diff", "-f", "-", stdin=rendered(body, sets.namespace))
