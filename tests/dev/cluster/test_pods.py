"""Fake nodes and pods of the full cluster: labels, capacity, and pods that end as their annotations say."""

import json
import time
from typing import Any

import pytest

from dev.cluster import audit
from dev.cluster.cluster import Cluster
from tests.support.cluster.requests import finish_pod, kubectl, pods, request, wait_for

pytestmark = pytest.mark.e2e


def create_pod(cluster: Cluster, namespace: str, name: str = "pod", **changes: Any) -> None:
    spec = {"containers": [{"name": "main", "image": "example.com/train:1"}], "restartPolicy": "Never"}
    spec |= changes.pop("spec", {})
    body = {"metadata": {"name": name, **changes}, "spec": spec}
    status, answer = request(cluster, "POST", f"/api/v1/namespaces/{namespace}/pods", body)
    assert status == 201, answer


def get_pod(cluster: Cluster, namespace: str, name: str = "pod") -> dict[str, Any]:
    return request(cluster, "GET", f"/api/v1/namespaces/{namespace}/pods/{name}")[1]


def in_phase(cluster: Cluster, namespace: str, phase: str, name: str = "pod") -> dict[str, Any]:
    def probe() -> dict[str, Any] | None:
        pod = get_pod(cluster, namespace, name)
        return pod if pod["status"].get("phase") == phase else None

    return wait_for(probe, what=f"{name} is {phase}")


def condition(pod: dict[str, Any], kind: str) -> str:
    return next(c["status"] for c in pod["status"]["conditions"] if c["type"] == kind)


def exit_codes(pod: dict[str, Any]) -> list[int]:
    return [status["state"]["terminated"]["exitCode"] for status in pod["status"]["containerStatuses"]]


def test_nodes_carry_rack_labels_and_capacity(full_cluster):
    nodes = json.loads(kubectl(full_cluster, "get", "nodes", "--output", "json"))["items"]
    racks = [node["metadata"]["labels"]["rack"] for node in nodes]
    assert racks == ["rack-0"] * 10 + ["rack-1"] * 10
    assert all(node["status"]["allocatable"]["cpu"] == "32" for node in nodes)
    assert len({node["status"]["addresses"][0]["address"] for node in nodes}) == 20


def test_pod_runs_ready_with_an_address_until_it_is_ended(full_cluster, namespace):
    create_pod(full_cluster, namespace)
    pod = in_phase(full_cluster, namespace, "Running")
    assert condition(pod, "Ready") == "True"
    assert pod["status"]["podIP"].startswith("10.")
    assert pod["spec"]["nodeName"].startswith("node-")


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed"), (137, "Failed")])
def test_annotation_ends_a_running_pod_with_the_code(full_cluster, namespace, code, phase):
    two = [{"name": name, "image": "example.com/train:1"} for name in ("main", "sidecar")]
    create_pod(full_cluster, namespace, spec={"containers": two})
    in_phase(full_cluster, namespace, "Running")
    finish_pod(full_cluster, namespace, "pod", code)
    pod = in_phase(full_cluster, namespace, phase)
    assert exit_codes(pod) == [code, code]
    assert condition(pod, "Ready") == "False"


def test_pod_ends_by_itself_after_its_time_with_the_code(full_cluster, namespace):
    notes = {"kwok.jobset.dev/run-seconds": "3", "kwok.jobset.dev/exit-code": "7"}
    create_pod(full_cluster, namespace, annotations=notes)
    pod = in_phase(full_cluster, namespace, "Running")
    started = time.monotonic()
    assert exit_codes(in_phase(full_cluster, namespace, "Failed")) == [7]
    # startTime has whole seconds, so up to one of the three may be over at the first look.
    assert 1.5 < time.monotonic() - started < 10
    assert pod["status"]["startTime"]


def test_run_seconds_alone_means_success_and_finish_pod_overrides_it(full_cluster, namespace):
    create_pod(full_cluster, namespace, "short", annotations={"kwok.jobset.dev/run-seconds": "0"})
    create_pod(full_cluster, namespace, "long", annotations={"kwok.jobset.dev/run-seconds": "3600"})
    assert exit_codes(in_phase(full_cluster, namespace, "Succeeded", "short")) == [0]
    in_phase(full_cluster, namespace, "Running", "long")
    finish_pod(full_cluster, namespace, "long", 3)
    assert exit_codes(in_phase(full_cluster, namespace, "Failed", "long")) == [3]


def test_values_of_another_form_are_ignored(full_cluster, namespace):
    create_pod(full_cluster, namespace, "odd", annotations={"kwok.jobset.dev/exit-code": "boom"})
    create_pod(full_cluster, namespace, "even", annotations={"kwok.jobset.dev/exit-code": "0"})
    in_phase(full_cluster, namespace, "Succeeded", "even")
    assert in_phase(full_cluster, namespace, "Running", "odd")


def test_pod_runs_without_being_ready_until_allowed(full_cluster, namespace):
    create_pod(full_cluster, namespace, annotations={"kwok.jobset.dev/ready": "false"})
    pod = in_phase(full_cluster, namespace, "Running")
    assert condition(pod, "Ready") == "False"

    def ready() -> str:
        return condition(get_pod(full_cluster, namespace), "Ready")

    kubectl(full_cluster, "annotate", "pod", "pod", "kwok.jobset.dev/ready-", namespace=namespace)
    wait_for(lambda: ready() == "True")
    kubectl(full_cluster, "annotate", "pod", "pod", "kwok.jobset.dev/ready=false", namespace=namespace)
    wait_for(lambda: ready() == "False")


def test_deleted_pod_vanishes_at_once_or_after_its_grace(full_cluster, namespace):
    create_pod(full_cluster, namespace, "quick")
    create_pod(full_cluster, namespace, "slow", annotations={"kwok.jobset.dev/grace-seconds": "3600"})
    for name in ("quick", "slow"):
        in_phase(full_cluster, namespace, "Running", name)
        kubectl(full_cluster, "delete", "pod", name, "--wait=false", namespace=namespace)
    wait_for(lambda: [pod["metadata"]["name"] for pod in pods(full_cluster, namespace)] == ["slow"], timeout=5)
    assert get_pod(full_cluster, namespace, "slow")["metadata"]["deletionTimestamp"]


def test_job_fails_by_pod_failure_policy_on_the_exit_code(full_cluster, namespace):
    job = {
        "metadata": {"name": "job"},
        "spec": {
            "backoffLimit": 5,
            "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]},
            "template": {
                "metadata": {"annotations": {"kwok.jobset.dev/exit-code": "42"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/a:1"}]},
            },
        },
    }
    status, answer = request(full_cluster, "POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job)
    assert status == 201, answer

    def failed_conditions() -> list[str]:
        found = request(full_cluster, "GET", f"/apis/batch/v1/namespaces/{namespace}/jobs/job")[1]
        conditions = found["status"].get("conditions", [])
        return [c["reason"] for c in conditions if c["type"] == "Failed" and c["status"] == "True"]

    assert wait_for(failed_conditions) == ["PodFailurePolicy"]


def test_audit_log_counts_calls(full_cluster, namespace):
    start = audit.log_size(full_cluster.audit_log)
    create_pod(full_cluster, namespace)
    in_phase(full_cluster, namespace, "Running")

    def pod_calls() -> list[audit.Call]:
        found = audit.calls(full_cluster.audit_log, start)
        return [call for call in found if call.namespace == namespace and call.verb == "create"]

    creates = [call for call in pod_calls() if call.resource == "pods"]
    assert [(call.user, call.code) for call in creates] == [("kubernetes-admin", 201)]
    assert [call.user for call in pod_calls() if call.resource == "pods/binding"] == ["system:kube-scheduler"]
