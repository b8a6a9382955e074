"""`jobset validate --server` against a real API server: what only that knows, as the person who asks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.cluster.cluster import Cluster
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import kubectl, request, wait_for
from tests.support.commands import run_command
from tests.support.objects.jobsets import jobset, rjob


def validate(kubeconfig: Path, body: dict[str, Any], *args: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, report, standard error."""
    command = ["validate", "-f", "-", "--server", "-o", "json", f"--kubeconfig={kubeconfig}", *args]
    done = run_command(*command, text=json.dumps(body))
    return done.returncode, json.loads(done.stdout), done.stderr


def paths(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(finding["severity"], finding["path"]) for finding in report["findings"]]


def store(cluster: Cluster, namespace: str, body: dict[str, Any]) -> None:
    status, answer = request(cluster, "POST", JOBSETS.format(namespace), body)
    assert status == 201, answer


def test_a_good_one_passes_and_nothing_is_created(jobset_server: Cluster, namespace: str):
    code, report, _ = validate(jobset_server.kubeconfig, jobset(namespace=namespace))
    assert (code, report["findings"], report["jobsets"]) == (0, [], 1)
    for collection in (JOBSETS, "/apis/batch/v1/namespaces/{}/jobs"):
        assert request(jobset_server, "GET", collection.format(namespace))[1]["items"] == []


def test_a_stored_one_is_judged_by_the_rules_of_updates(jobset_server: Cluster, namespace: str):
    ports = {"containers": [{"name": "main", "image": "busybox", "ports": [{"containerPort": 80}]}]}
    body = jobset(rjob(pod=ports), namespace=namespace)
    store(jobset_server, namespace, body)
    assert validate(jobset_server.kubeconfig, body)[0] == 0, "applying it once more changes nothing"
    body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    code, report, _ = validate(jobset_server.kubeconfig, body)
    assert code == 1
    notes = [finding for finding in report["findings"] if finding["severity"] == "note"]
    errors = [finding for finding in report["findings"] if finding["severity"] != "note"]
    assert {note["rule"] for note in notes} == {"references-not-looked-up", "immutable-replace"}
    assert f"kubectl delete jobset train -n {namespace} && kubectl apply -f FILE" in str(notes)
    assert {f["severity"] for f in errors} == {"error"}
    assert all(f["path"].startswith("spec.replicatedJobs") for f in errors)
    assert "immutable" in errors[0]["message"]


def test_a_namespace_that_is_missing(jobset_server: Cluster):
    code, report, _ = validate(jobset_server.kubeconfig, jobset(namespace="nowhere"))
    assert (code, paths(report)) == (1, [("error", "metadata.namespace")])
    assert "the cluster has no namespace nowhere" in report["findings"][0]["message"]


def test_the_namespace_asked_for_fills_in(jobset_server: Cluster, namespace: str):
    body = jobset(rjob(pod={"restartPolicy": "Always"}))
    del body["metadata"]["namespace"]
    store(jobset_server, namespace, jobset(rjob(replicas=2), namespace=namespace))
    code, report, _ = validate(jobset_server.kubeconfig, body, "-n", namespace)
    assert code == 1
    assert any("immutable" in finding["message"] for finding in report["findings"])


def test_without_rights_what_was_not_checked_is_a_note_and_no_fault(jobset_server: Cluster, namespace: str):
    kubeconfig = jobset_server.kubeconfig_for("nobody-in-particular")
    body = jobset(rjob(pod={"restartPolicy": "Always"}), namespace=namespace)
    assert validate(kubeconfig, body)[0] == 0
    code, report, _ = validate(kubeconfig, body, "--strict")
    assert code == 2, report["findings"]
    assert "not everything was checked" in report["problems"][0]
    assert {finding["severity"] for finding in report["findings"]} == {"note"}
    assert report["notes"] == len(report["findings"]) >= 2
    texts = [finding["message"] for finding in report["findings"]]
    assert any("whether this JobSet exists already is not known" in text for text in texts)
    assert any("you may not create them here" in text for text in texts)
    assert any("policies and webhooks of others" in text for text in texts)


@pytest.fixture
def policy(jobset_server: Cluster, namespace: str) -> Iterator[None]:
    """A platform team's rule about JobSets of this namespace."""
    meta = {"name": f"teams-{namespace}"}
    kind = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "operations": ["*"], "resources": ["jobsets"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "here", "expression": f"request.namespace == '{namespace}'"}],
        "validations": [
            {"expression": "has(object.metadata.labels) && 'team' in object.metadata.labels", "message": "name a team"}
        ],
    }
    binding = {"policyName": meta["name"], "validationActions": ["Deny"]}
    for name, body in (("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", binding)):
        text = json.dumps({"apiVersion": kind, "kind": name, "metadata": meta, "spec": body})
        kubectl(jobset_server, "apply", "-f", "-", stdin=text)
    body = jobset(namespace=namespace)
    wait_for(
        lambda: request(jobset_server, "POST", JOBSETS.format(namespace) + "?dryRun=All", body)[0] == 422,
        what="the policy",
    )
    yield
    for name in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
        kubectl(jobset_server, "delete", name, meta["name"])


@pytest.mark.usefixtures("policy")
def test_a_policy_of_the_platform_team_is_reported(jobset_server: Cluster, namespace: str):
    body = jobset(namespace=namespace)
    code, report, _ = validate(jobset_server.kubeconfig, body)
    assert (code, paths(report)) == (1, [("error", "metadata.name")])
    assert "the cluster refuses it: " in report["findings"][0]["message"]
    assert "name a team" in report["findings"][0]["message"]
    body["metadata"]["labels"] = {"team": "ml"}
    assert validate(jobset_server.kubeconfig, body)[0] == 0
    store(jobset_server, namespace, body)
    assert validate(jobset_server.kubeconfig, body)[0] == 0, "a change is tried too, and this one is none"
    body["metadata"]["labels"] = {"stage": "test"}
    assert validate(jobset_server.kubeconfig, body)[0] == 0, "labels of others stay when it is applied"
