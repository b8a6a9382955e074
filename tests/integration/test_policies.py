"""JobSetPolicies on a real API server: in force within a second, and the verdict of `jobset policy eval` to the letter."""

import json
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from app.engine import exception_schema
from authoring.policies import policy_faults
from dev import local
from dev.cluster import audit
from dev.cluster.assets import Sources
from dev.cluster.cluster import Cluster, running
from dev.cluster.spec import ClusterSpec
from tests.support.cluster import requests as clusters
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.manager import USER
from tests.support.cluster.requests import request, wait_for
from tests.support.commands import run_command
from tests.support.objects.jobsets import jobset, rjob
from tests.support.objects.policies import exception, manifest, setting
from tests.support.objects.reviews import review
from webhooks.jobset.handlers import VALIDATE_PATH

POLICIES = "/apis/policy.jobset.x-k8s.io/v1alpha1/jobsetpolicies"
EXCEPTIONS = "/apis/policy.jobset.x-k8s.io/v1alpha1/namespaces/{}/jobsetpolicyexceptions"
NAMESPACE = "team-a"
LABELS = {"example.com/tenant": "true", "example.com/pods": "3"}
OURS = {"namespaceSelector": {"matchLabels": {"example.com/tenant": "true"}}}
LIMITS = manifest("limits", ("Deny", "Audit"), OURS, maxTotals={"pods": {"fromNamespaceLabel": "example.com/pods"}})
QUEUES = manifest("queues", ("Deny",), OURS, requiredQueue={})
TIMES = manifest("times", ("Warn",), OURS, ttl={"required": True})


@pytest.fixture(scope="module")
def port() -> int:
    return local.free_port()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, binaries: Path, port: int) -> Iterator[Cluster]:
    """With the CRD and rights of policies, and a manager that has the gate on."""
    folder = tmp_path_factory.mktemp("policies")
    with running(
        ClusterSpec(name="policies", profile="api"), sources=Sources(assets=binaries), state_root=folder
    ) as cluster:
        local.install(cluster, webhook_port=port)
        local.install_policies(cluster, webhook_port=port)
        body = {"metadata": {"name": NAMESPACE, "labels": LABELS}}
        assert request(cluster, "POST", "/api/v1/namespaces", body)[0] == 201
        manager = local.start(cluster, folder, webhook_port=port, sections={"featureGates": {"JobSetPolicies": True}})
        try:
            yield cluster
        finally:
            local.stop(manager)


def store(cluster: Cluster, *policies: dict[str, Any]) -> None:
    """Create policies, once the API server can ask the manager about them."""
    for body in policies:
        wait_for(lambda body=body: request(cluster, "POST", POLICIES, body)[0] == 201, what="the policy")


@pytest.fixture
def stored(cluster: Cluster) -> Iterator[None]:
    """The policies, in force."""
    store(cluster, LIMITS, QUEUES, TIMES)
    yield
    for body in (LIMITS, QUEUES, TIMES):
        request(cluster, "DELETE", f"{POLICIES}/{body['metadata']['name']}")


def answered(cluster: Cluster, body: dict[str, Any], code: int) -> Any:
    """The answer to a create, which has to have this code within a second."""

    def tried() -> list[Any]:
        status, answer = request(cluster, "POST", f"{JOBSETS.format(NAMESPACE)}?dryRun=All", body)
        return [answer] if status == code else []

    return wait_for(tried, timeout=1, what=f"an answer with code {code}")[0]


def offline(folder: Path, body: dict[str, Any]) -> list[dict[str, Any]]:
    """What `jobset policy eval` finds."""
    (folder / "set.yaml").write_text(yaml.safe_dump(body))
    (folder / "policies.yaml").write_text(yaml.safe_dump_all([LIMITS, QUEUES, TIMES]))
    labels = [part for key, value in LABELS.items() for part in ("--namespace-label", f"{key}={value}")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("KUBECONFIG", "/nowhere")
        done = run_command("policy", "eval", "-f", "set.yaml", "-p", "policies.yaml", "-o", "json", *labels)
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


@pytest.mark.usefixtures("stored")
def test_a_refusal_is_to_the_letter_what_the_command_says_without_a_cluster(cluster: Cluster, tmp_path: Path):
    large = jobset(rjob(replicas=9), namespace=NAMESPACE)
    before = audit.log_size(cluster.audit_log)
    answer = answered(cluster, large, 422)
    causes = [(cause["field"], cause["message"]) for cause in answer["details"]["causes"]]
    errors = [found for found in offline(tmp_path, large) if found["severity"] == "error"]
    assert causes == [(error["path"], f"{error['message']}; {error['fix']}") for error in errors]
    assert [path for path, _ in causes] == [
        "metadata.labels[kueue.x-k8s.io/queue-name]",
        "spec.replicatedJobs[0].replicas",
    ]
    assert "limit" in answer["message"]
    new = cluster.audit_log.read_bytes()[before:].decode().splitlines()
    (recorded,) = {line for line in new if "policy-violations" in line}
    annotation = json.loads(recorded)["annotations"]["vjobset.kb.io/policy-violations"]
    assert [found["rule"] for found in json.loads(annotation)["violations"]] == ["maxTotals"]


@pytest.mark.usefixtures("stored")
def test_a_warning_reaches_the_author(cluster: Cluster):
    answered(cluster, jobset(rjob(replicas=9), namespace=NAMESPACE), 422)
    small = jobset(namespace=NAMESPACE)
    small["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "a"}
    done = local.kubectl(cluster, "create", "--dry-run=server", "-f", "-", stdin=json.dumps(small))
    assert "Warning: spec.ttlSecondsAfterFinished: policy times; set after how many seconds" in done.stderr


def test_a_policy_is_in_force_and_out_of_force_within_a_second(cluster: Cluster):
    large = jobset(rjob(replicas=9), namespace=NAMESPACE)
    answered(cluster, large, 201)
    store(cluster, LIMITS)
    answered(cluster, large, 422)
    labels = {"metadata": {"labels": {"example.com/pods": "9"}}}
    merge = "application/merge-patch+json"
    assert request(cluster, "PATCH", f"/api/v1/namespaces/{NAMESPACE}", labels, merge)[0] == 200
    answered(cluster, large, 201)
    labels["metadata"]["labels"] = LABELS
    assert request(cluster, "PATCH", f"/api/v1/namespaces/{NAMESPACE}", labels, merge)[0] == 200
    answered(cluster, large, 422)
    assert request(cluster, "DELETE", f"{POLICIES}/limits")[0] == 200
    answered(cluster, large, 201)


@pytest.mark.usefixtures("stored")
def test_status_suspension_and_deletion_are_never_hindered(cluster: Cluster):
    assert request(cluster, "DELETE", f"{POLICIES}/limits")[0] == 200
    assert request(cluster, "DELETE", f"{POLICIES}/queues")[0] == 200
    large = jobset(rjob(replicas=9), namespace=NAMESPACE)
    answered(cluster, large, 201)
    one = f"{JOBSETS.format(NAMESPACE)}/train"
    assert request(cluster, "POST", JOBSETS.format(NAMESPACE), large)[0] == 201
    store(cluster, LIMITS, QUEUES)
    answered(cluster, large, 422)
    merge = "application/merge-patch+json"
    assert request(cluster, "PATCH", one, {"spec": {"suspend": True}}, merge)[0] == 200
    assert request(cluster, "PATCH", one, {"metadata": {"annotations": {"a": "b"}}}, merge)[0] == 200
    assert request(cluster, "PATCH", f"{one}/status", {"status": {"restarts": 1}}, merge)[0] == 200
    assert request(cluster, "DELETE", one)[0] == 200


def test_defaults_are_set_and_the_same_manifest_can_be_applied_again(cluster: Cluster):
    store(cluster, setting("sets", OURS, priorityClassName="system-cluster-critical", ttlSecondsAfterFinished=60))
    js = jobset(rjob(replicas=0), name="filled", namespace=NAMESPACE)
    one = f"{JOBSETS.format(NAMESPACE)}/filled"
    try:
        wait_for(
            lambda: [key for key in answered(cluster, js, 201)["metadata"].get("annotations", {}) if "policy" in key],
            timeout=1,
            what="the defaults",
        )
        for verb in ("apply", "apply", "replace"):
            local.kubectl(cluster, verb, "-f", "-", stdin=json.dumps(js))
        found = request(cluster, "GET", one)[1]
        names = json.loads(found["metadata"]["annotations"]["policy.jobset.x-k8s.io/defaults"])
        assert names == {"sets": ["ttlSecondsAfterFinished", "priorityClassName"]}
        pod = found["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        assert (found["spec"]["ttlSecondsAfterFinished"], pod["priorityClassName"]) == (60, "system-cluster-critical")
        removed = {"spec": {"ttlSecondsAfterFinished": None}}
        answer = clusters._send(cluster, "PATCH", one, json.dumps(removed), "application/merge-patch+json")
        assert "put back: policy sets has set it as a default" in answer.headers["Warning"]
        assert json.loads(answer.data)["spec"]["ttlSecondsAfterFinished"] == 60
        removed["metadata"] = {"annotations": {"policy.jobset.x-k8s.io/defaults": "{}"}}
        _, stored = request(cluster, "PATCH", one, removed, "application/merge-patch+json")
        assert "ttlSecondsAfterFinished" not in stored["spec"]
    finally:
        request(cluster, "DELETE", one)
        request(cluster, "DELETE", f"{POLICIES}/sets")


def test_an_exception_counts_until_it_ends_and_only_where_the_policy_allows_it(cluster: Cluster):
    allowing = {**LIMITS, "spec": {**LIMITS["spec"], "exceptions": {
        "allowedNamespaces": OURS["namespaceSelector"], "maxDuration": "1h"}}}  # fmt: skip
    store(cluster, allowing)
    large = jobset(rjob(replicas=9), namespace=NAMESPACE)
    answered(cluster, large, 422)
    ends = datetime.now(UTC) + timedelta(seconds=7)
    body = exception(rules=["maxTotals"], expiresAt=ends.isoformat(timespec="seconds"))
    body["metadata"] = {"name": "big-run"}
    exceptions = EXCEPTIONS.format(NAMESPACE)
    status, answer = request(cluster, "POST", EXCEPTIONS.format("default"), body)
    assert (status, "allows no exceptions in this namespace" in answer["message"]) == (422, True)
    late = {**body, "spec": {**body["spec"], "expiresAt": (ends + timedelta(days=1)).isoformat(timespec="seconds")}}
    status, answer = request(cluster, "POST", exceptions, late)
    assert (status, "policy limits allows at most 1h" in answer["message"]) == (422, True)
    assert request(cluster, "POST", exceptions, body)[0] == 201
    answered(cluster, large, 201)
    wait_for(lambda: datetime.now(UTC) >= ends, what="the end of the exception")
    assert request(cluster, "POST", f"{JOBSETS.format(NAMESPACE)}?dryRun=All", large)[0] == 422
    assert request(cluster, "DELETE", f"{exceptions}/big-run")[0] == 200
    assert request(cluster, "DELETE", f"{POLICIES}/limits")[0] == 200


@pytest.mark.usefixtures("stored")
def test_a_policy_with_faults_is_refused_with_all_of_them(cluster: Cluster):
    limits = {"pods": {"max": "many"}}
    bad = manifest("bad", ("Deny", "Warn"), OURS, maxTotals=limits, imageRegistries={"allowed": []})
    status, answer = request(cluster, "POST", POLICIES, bad)
    assert (status, answer["reason"]) == (422, "Invalid")
    expected = sorted(str(error) for error in policy_faults(bad)[0])
    assert sorted(f"{cause['field']}: {cause['message']}" for cause in answer["details"]["causes"]) == expected
    assert len(expected) == 3


@pytest.mark.usefixtures("stored")
def test_an_exception_with_faults_is_refused_with_the_words_of_the_command_line(cluster: Cluster):
    bad = exception(rules=["maxTotal"], expiresAt="tomorrow", match={"names": ["run"]}, reason="")
    bad["metadata"] = {"name": "bad"}
    status, answer = request(cluster, "POST", EXCEPTIONS.format(NAMESPACE), bad)
    assert (status, answer["reason"]) == (422, "Invalid")
    expected = sorted(str(error) for error in exception_schema().faults(bad))
    assert sorted(f"{cause['field']}: {cause['message']}" for cause in answer["details"]["causes"]) == expected
    assert "such as" in answer["message"] or "as in" in answer["message"]
    assert len(expected) == 3


@pytest.mark.usefixtures("stored")
def test_a_namespace_that_is_not_in_the_cache_is_asked_for(cluster: Cluster, port: int):
    """A review of one that does not exist: the API server would not send it."""
    sent = json.dumps(review(jobset(namespace="nowhere")) | {}).replace(
        '"namespace": "default"', '"namespace": "nowhere"'
    )
    pool = urllib3.HTTPSConnectionPool("127.0.0.1", port, cert_reqs="CERT_NONE", assert_hostname=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", urllib3.exceptions.InsecureRequestWarning)
        answer = pool.request("POST", VALIDATE_PATH, body=sent, headers={"Content-Type": "application/json"}).json()
    assert answer["response"]["status"]["message"] == "internal error (NotFound) in rule match of policy limits"


@pytest.mark.usefixtures("stored")
def test_the_manager_asks_for_nothing_that_its_roles_do_not_grant(cluster: Cluster):
    """But once, in one request, for what a manager with the rights of policy-in-api-server may have left behind."""

    def refused() -> list[tuple[str, str]]:
        asked = [call for call in audit.calls(cluster.audit_log, about=USER) if call.user == USER]
        return [(call.verb, call.resource) for call in asked if not call.permitted]

    assert wait_for(refused, what="that request") == [("list", "validatingadmissionpolicies")]
