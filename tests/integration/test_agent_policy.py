"""manifests/in-place-restart on a real API server: an agent's token reports on the pod that it was made for, and no more."""

import json
from typing import Any

import pytest
import urllib3

from api import keys
from manifests import files
from tests.support.cluster.agents import ACCOUNT, account_rights_of, rights
from tests.support.cluster.requests import DELETE_OPTIONS, MERGE, apply, kubectl, request, wait_for

JSON = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
FAILURE = {keys.IN_PLACE_RESTART_FAILURE: "7 Error"}
READY = {keys.MAINTENANCE_ACKNOWLEDGED: "2026-01-01T00:00:00Z"}
REPORT = {"metadata": {"annotations": {keys.IN_PLACE_RESTART_ATTEMPT: "3", **FAILURE, **READY}}}
OTHERS = [
    {"metadata": {"annotations": {"a": "b"}}},
    {"metadata": {"annotations": {"given": None}}},
    {"metadata": {"annotations": {"given": "other"}}},
    {"metadata": {"labels": {"jobset.sigs.k8s.io/jobset-uid": "x"}}},
    {"metadata": {"finalizers": ["example.com/stay"]}},
    {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"}]}},
    {"spec": {"activeDeadlineSeconds": 1}},
    {"spec": {"containers": [{"name": "main", "image": "evil"}]}},
]


def pod(name: str, account: str) -> JSON:
    spec = {"serviceAccountName": account, "containers": [{"name": "main", "image": "busybox"}]}
    meta = {"name": name, "annotations": {"given": "1"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


class Server:
    """A control plane with the policy, and what a pod can ask of it."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self._http = urllib3.PoolManager(ca_certs=str(cluster.plan.layout.pki / "ca.crt"))

    def token(self, account: str, of: str = "") -> str:
        spec: JSON = {}
        if of:
            uid = request(self.cluster, "GET", f"{PODS}/{of}")[1]["metadata"]["uid"]
            spec = {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": of, "uid": uid}}
        path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        status, answer = request(self.cluster, "POST", path, body)
        assert status == 201, answer
        return str(answer["status"]["token"])

    def patch(self, token: str, name: str, body: JSON) -> tuple[int, str]:
        headers = {"authorization": f"Bearer {token}", "content-type": MERGE}
        url = f"{self.cluster.server}{PODS}/{name}?dryRun=All"
        answer = self._http.request("PATCH", url, body=json.dumps(body), headers=headers)
        return answer.status, answer.json().get("message", "")


@pytest.fixture(scope="module")
def server(jobset_server):
    """The shared server, with the policy, which concerns pods of every namespace, until the tests of this file end."""
    cluster, policy = jobset_server, str(files.ROOT / "in-place-restart")
    rights(cluster, "default")
    account_rights_of(cluster, "default", "other")
    pods = {"one": ACCOUNT, "two": ACCOUNT, "else": "other"}
    try:
        for name, account in pods.items():
            apply(cluster, PODS, pod(name, account))
        kubectl(cluster, "apply", "--server-side", "-k", policy)
        made = Server(cluster)
        token = made.token(ACCOUNT, "one")
        wait_for(lambda: made.patch(token, "two", REPORT)[0] == 403, what="the policy in force")
        yield made
    finally:
        kubectl(cluster, "delete", "--ignore-not-found", "-k", policy)
        for name in pods:
            request(cluster, "DELETE", f"{PODS}/{name}", DELETE_OPTIONS)


def test_a_worker_reports_on_its_own_pod_and_on_no_other(server):
    token = server.token(ACCOUNT, "one")
    assert server.patch(token, "one", REPORT)[0] == 200
    for other in ("two", "else"):
        status, message = server.patch(token, other, REPORT)
        assert (status, "only a pod itself reports" in message) == (403, True), message


@pytest.mark.parametrize("body", OTHERS, ids=json.dumps)
def test_a_worker_changes_nothing_else_of_any_pod(server, body):
    token = server.token(ACCOUNT, "one")
    status, message = server.patch(token, "one", body)
    assert (status, "may change nothing of a pod but" in message) == (403, True), message
    assert server.patch(token, "two", body)[0] == 403


def test_a_token_that_names_no_pod_reports_nothing(server):
    for account in (ACCOUNT, "other"):
        assert server.patch(server.token(account), "one", REPORT)[0] == 403


def test_who_is_no_agent_may_do_what_rbac_allows_but_report_for_others(server):
    token = server.token("other", "else")
    assert server.patch(token, "one", {"metadata": {"labels": {"a": "b"}}})[0] == 200
    assert server.patch(token, "else", REPORT)[0] == 200, "an account of another name has the agent, too"
    assert server.patch(token, "one", REPORT)[0] == 403
    for said in (FAILURE, READY):
        assert server.patch(token, "one", {"metadata": {"annotations": said}})[0] == 403
    assert request(server.cluster, "PATCH", f"{PODS}/one?dryRun=All", REPORT, MERGE)[0] == 200, "people"
