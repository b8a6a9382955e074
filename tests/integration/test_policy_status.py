"""What two replicas write about policies on a real API server: counts, exceptions, the audit and reports, admission."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import urllib3

from dev import local
from dev.cluster import audit
from dev.cluster.cluster import Cluster
from manifests import objects, policy_objects
from policy.audit import FirstResults
from policy.reports import report
from policy.status_types import AuditedViolation
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.manager import USER
from tests.support.cluster.requests import drop_namespace, listed, new_namespace, request, wait_for
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.objects.policies import exception, manifest, policy
from tests.support.objects.reviews import review
from webhooks.jobset.handlers import VALIDATE_PATH

pytestmark = pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")

POLICIES = "/apis/policy.jobset.x-k8s.io/v1alpha1/jobsetpolicies"
EXCEPTIONS = "/apis/policy.jobset.x-k8s.io/v1alpha1/namespaces/{}/jobsetpolicyexceptions"
REPORTS = "/apis/openreports.io/v1alpha1/namespaces/{}/reports"
TENANT = "example.com/tenant"
OURS = {"namespaceSelector": {"matchLabels": {TENANT: "true"}}}
SECTIONS = {
    "featureGates": {"JobSetPolicies": True},
    "policies": {"statusInterval": "1s", "auditInterval": "1s", "reports": True},
}


def texts(*names: str) -> dict[str, Any]:
    return {name: {"type": "string"} for name in names}


def of(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def reports_crd() -> dict[str, Any]:
    """The fields of OpenReports that we write, with its types and values; the API server drops all others."""
    outcomes = ("pass", "fail", "warn", "error", "skip")
    reference = of(texts("apiVersion", "kind", "namespace", "name"))
    result = {
        **texts("policy", "rule", "message"),
        "result": {"type": "string", "enum": list(outcomes)},
        "scored": {"type": "boolean"},
        "resources": {"type": "array", "items": reference},
    }
    limits = of({"limits": of({"maxResults": {"type": "integer"}})}, required=["limits"])
    schema = of({
        **texts("source"),
        "scope": reference,
        "configuration": limits,
        "summary": of({name: {"type": "integer"} for name in outcomes}),
        "results": {"type": "array", "items": of(result, required=["policy"])},
    })  # fmt: skip
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "reports.openreports.io"},
        "spec": {
            "group": "openreports.io",
            "names": {"kind": "Report", "listKind": "ReportList", "plural": "reports", "singular": "report"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


@pytest.fixture(scope="module")
def cluster(jobset_server: Cluster) -> Iterator[Cluster]:
    """With the CRDs and all rights of policies, and no webhook."""
    rights = objects("policy-reports/rbac.yaml", "policy-in-api-server/rbac.yaml")
    every = [*policy_objects(), *rights, reports_crd()]
    bodies = [body for body in every if not body["kind"].endswith("WebhookConfiguration")]
    listing = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
    local.kubectl(jobset_server, "apply", "--server-side", "-f", "-", stdin=listing)
    crds = [f"crd/{body['metadata']['name']}" for body in bodies if body["kind"] == "CustomResourceDefinition"]
    local.kubectl(jobset_server, "wait", "--for=condition=Established", *crds)
    served = (POLICIES, EXCEPTIONS.format("default"), REPORTS.format("default"))
    wait_for(
        lambda: all(request(jobset_server, "GET", path)[0] == 200 for path in served), what="the CRDs to be served"
    )
    yield jobset_server
    local.kubectl(jobset_server, "delete", "-f", "-", stdin=listing)


@pytest.fixture(scope="module")
def start(cluster: Cluster) -> int:
    """Where the audit log of the server, which others have used before, stands as these tests begin."""
    return audit.log_size(cluster.audit_log)


@pytest.fixture(scope="module")
def replicas(cluster: Cluster, start: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[local.Manager]]:
    """Two managers; the first has the lease."""
    found: list[local.Manager] = []
    try:
        for number in range(2):
            folder = tmp_path_factory.mktemp(f"replica-{number}")
            found.append(local.start(cluster, folder, webhook_port=local.free_port(), sections=SECTIONS))
        yield found
    finally:
        for each in found:
            local.stop(each)


@pytest.fixture
def team(cluster: Cluster) -> Iterator[str]:
    """A namespace that the policies are about."""
    name = new_namespace(cluster)
    labels = {"metadata": {"labels": {TENANT: "true"}}}
    assert request(cluster, "PATCH", f"/api/v1/namespaces/{name}", labels, "application/merge-patch+json")[0] == 200
    yield name
    drop_namespace(cluster, name)


@pytest.fixture
def policy_name() -> str:
    """Its name; a test that counts has one of its own, since counts go by the name."""
    return "limits"


@pytest.fixture
def limits(cluster: Cluster, policy_name: str) -> Iterator[str]:
    """The path of a policy that allows exceptions and refuses more than one Job."""
    body = manifest(policy_name, ("Deny",), OURS, maxJobs={"max": 1})
    body["spec"]["exceptions"] = {"allowedNamespaces": OURS["namespaceSelector"], "maxDuration": "1h"}
    assert request(cluster, "POST", POLICIES, body)[0] == 201
    yield f"{POLICIES}/{policy_name}"
    request(cluster, "DELETE", f"{POLICIES}/{policy_name}")


def large(namespace: str, name: str = "train") -> dict[str, Any]:
    return stored(jobset(rjob(replicas=9), name=name, namespace=namespace, suspend=True))


def admitted(manager: local.Manager, namespace: str) -> bool:
    """What a replica answers to the review of a large JobSet."""
    sent = review(large(namespace))
    sent["request"]["namespace"] = namespace
    pool = urllib3.HTTPSConnectionPool("127.0.0.1", manager.webhook_port, cert_reqs="CERT_NONE", assert_hostname=False)
    return bool(pool.request("POST", VALIDATE_PATH, json=sent, timeout=30).json()["response"]["allowed"])


def status(cluster: Cluster, path: str) -> dict[str, Any]:
    found: dict[str, Any] = request(cluster, "GET", path)[1].get("status", {})
    return found


@pytest.mark.parametrize("policy_name", ["counted"])
def test_the_counts_of_two_replicas_add_up(cluster: Cluster, replicas: list[local.Manager], team: str, limits: str):
    refused = 0
    for manager in replicas:

        def tried(manager: local.Manager = manager) -> bool:
            return not admitted(manager, team)

        wait_for(tried, what="the policy in force")
        refused += 1
    with ThreadPoolExecutor(8) as pool:
        refused += list(pool.map(lambda number: admitted(replicas[number % 2], team), range(40))).count(False)
    assert refused == 42
    wait_for(lambda: status(cluster, limits).get("denied") == refused, what="the counts")
    found = status(cluster, limits)
    assert found["matched"] >= refused
    assert [(rule["name"], rule["denied"]) for rule in found["rules"]] == [("maxJobs", refused)]
    assert found["lastSeen"] == found["rules"][0]["lastSeen"]
    wait_for(lambda: status(cluster, limits).get("conditions"), what="the condition")
    assert [(each["type"], each["status"]) for each in status(cluster, limits)["conditions"]] == [("Ready", "True")]
    columns = local.kubectl(cluster, "get", "jobsetpolicy", "counted").stdout.splitlines()
    assert columns[0].split() == [
        "NAME",
        "ACTIONS",
        "READY",
        "DENIED",
        "WARNED",
        "VIOLATIONS",
        "REVIEWS-FROM",
        "LAST-SEEN",
        "AGE",
    ]
    assert columns[1].split()[:4] == ["counted", '["Deny"]', "True", "42"]
    assert "Anyone" in columns[1].split(), "the webhooks of these managers answer whoever reaches them"


@pytest.mark.usefixtures("limits")
def test_an_exception_that_is_used_and_one_that_ends_say_so_once(
    cluster: Cluster, replicas: list[local.Manager], team: str
):
    ends = datetime.now(UTC) + timedelta(seconds=12)
    body = exception(rules=["maxJobs"], expiresAt=ends.isoformat(timespec="seconds"))
    body["metadata"] = {"name": "big-run"}
    one = f"{EXCEPTIONS.format(team)}/big-run"
    wait_for(lambda: not admitted(replicas[1], team), what="the policy in force")
    assert request(cluster, "POST", EXCEPTIONS.format(team), body)[0] == 201
    for manager in reversed(replicas):  # both write that it was used, and the one without the lease has no recorder

        def tried(manager: local.Manager = manager) -> bool:
            return admitted(manager, team)

        wait_for(tried, what="the exception")

    def told() -> dict[str, str]:
        return {each["type"]: each["reason"] for each in status(cluster, one).get("conditions", [])}

    def events() -> list[str]:
        return sorted(
            event["reason"]
            for event in listed(cluster, f"/apis/events.k8s.io/v1/namespaces/{team}/events")
            if event["regarding"]["kind"] == "JobSetPolicyException"
        )

    wait_for(lambda: told() == {"InForce": "Expired", "Used": "FirstUsed"}, what="the end of the exception", last=told)
    wait_for(lambda: len(events()) >= 2, what="the events")
    assert events() == ["ExceptionExpired", "ExceptionFirstUsed"]
    assert status(cluster, one)["firstUsed"] < ends.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert not any(admitted(manager, team) for manager in replicas)


@pytest.mark.usefixtures("replicas")
def test_the_audit_names_what_breaks_a_policy_and_a_report_has_it_until_it_is_gone(
    cluster: Cluster, team: str, limits: str
):
    for name in ("two", "one"):
        assert request(cluster, "POST", JOBSETS.format(team), large(team, name))[0] == 201
    small = stored(jobset(name="small", namespace=team, suspend=True))
    assert request(cluster, "POST", JOBSETS.format(team), small)[0] == 201

    def audited() -> dict[str, Any]:
        found: dict[str, Any] = status(cluster, limits).get("audit", {})
        return found

    wait_for(lambda: audited().get("violations") == 2, what="the audit", last=audited)
    found = audited()
    assert found["jobsets"] == 3
    assert [(each["namespace"], each["name"], each["rule"]) for each in found["first"]] == [
        (team, "one", "maxJobs"),
        (team, "two", "maxJobs"),
    ]

    def reported() -> list[int]:
        """How many violations each report counts."""
        return [each["summary"]["fail"] for each in listed(cluster, REPORTS.format(team))]

    wait_for(lambda: reported() == [2], what="the report", last=reported)
    reports = listed(cluster, REPORTS.format(team))
    first = FirstResults(2)
    for each in found["first"]:
        first.add(AuditedViolation(namespace=team, **{key: each[key] for key in ("name", "rule", "message")}))
    expected = report(policy("limits", maxJobs={"max": 1}), team, first)
    kept = {key: value for key, value in reports[0].items() if key != "metadata"}
    assert kept == {key: value for key, value in expected.items() if key != "metadata"}, "nothing was dropped"
    (owner,) = reports[0]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("JobSetPolicy", "limits")
    assert request(cluster, "DELETE", f"{JOBSETS.format(team)}/two")[0] == 200
    wait_for(lambda: reported() == [1], what="a change", last=reported)
    assert request(cluster, "DELETE", f"{JOBSETS.format(team)}/one")[0] == 200
    wait_for(lambda: not listed(cluster, REPORTS.format(team)), what="the end of the report")
    wait_for(lambda: (audited()["violations"], audited()["first"]) == (0, []), what="an audit without violations")
    assert request(cluster, "DELETE", f"{JOBSETS.format(team)}/small")[0] == 200


@pytest.mark.usefixtures("replicas")
def test_a_policy_that_asks_for_it_holds_in_the_api_server_without_a_webhook(cluster: Cluster, team: str):
    body = manifest("held", ("Deny",), OURS, maxJobs={"max": 1})
    body["spec"] |= {"apiServer": "Enforce", "defaults": {"labels": {"example.com/cost": "a"}}}
    assert request(cluster, "POST", POLICIES, body)[0] == 201

    def tried(js: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return request(cluster, "POST", f"{JOBSETS.format(team)}?dryRun=All", js)

    small = stored(jobset(rjob(replicas=1), name="train", namespace=team))
    wait_for(lambda: tried(large(team))[0] == 422, what="a refusal", last=lambda: tried(large(team)))
    refused = tried(large(team))[1]["message"]
    assert "policy held" in refused
    labelled = {"example.com/cost": "a"}
    wait_for(lambda: tried(small)[1]["metadata"].get("labels") == labelled, what="defaults", last=lambda: tried(small))

    def told() -> dict[str, str]:
        conditions = status(cluster, f"{POLICIES}/held").get("conditions", [])
        return {each["type"]: each["status"] for each in conditions}

    wait_for(lambda: told() == {"Ready": "True", "InAPIServer": "True"}, what="a status that says so", last=told)
    change = {"spec": {"apiServer": None}}
    assert request(cluster, "PATCH", f"{POLICIES}/held", change, "application/merge-patch+json")[0] == 200
    wait_for(lambda: tried(large(team))[0] == 201, what="an end of it", last=lambda: tried(large(team)))
    wait_for(lambda: "labels" not in tried(small)[1]["metadata"], what="an end of the defaults")
    wait_for(lambda: told() == {"Ready": "True"}, what="a status without it", last=told)
    request(cluster, "DELETE", f"{POLICIES}/held")


@pytest.mark.usefixtures("replicas")
def test_nothing_was_asked_for_that_the_roles_do_not_grant(cluster: Cluster, start: int):
    asked = [call for call in audit.calls(cluster.audit_log, start, about=USER) if call.user == USER]
    assert {(call.verb, call.resource) for call in asked if not call.permitted} == set()
