"""Policies that come, change, break and go while reviews are on their way, on two replicas."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import urllib3

from dev import local
from dev.cluster.cluster import Cluster
from manifests import policy_objects
from tests.support.cluster.requests import MERGE, drop_namespace, new_namespace, request, wait_for
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.objects.policies import manifest
from tests.support.objects.reviews import review
from webhooks.jobset.handlers import VALIDATE_PATH

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning"),
]

POLICIES = "/apis/policy.jobset.x-k8s.io/v1alpha1/jobsetpolicies"
AT_ONCE = 4
"""Reviews on their way to each replica."""
IN_FORCE = 1.0
"""Seconds until a change has to be in force on each replica."""
GROWTH = 16
"""MiB by which a replica may grow through hundreds of policies and namespaces that are gone again."""


@dataclass
class Replica:
    """A manager, and what it has answered."""

    manager: local.Manager
    pool: urllib3.HTTPSConnectionPool
    answers: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def judge(self, namespace: str) -> int:
        """The code of the answer about a JobSet of nine Jobs; 200 if it is admitted."""
        sent = review(stored(jobset(rjob(replicas=9), namespace=namespace, suspend=True)))
        sent["request"]["namespace"] = namespace
        answer = self.pool.request("POST", VALIDATE_PATH, json=sent, timeout=10, retries=False)
        response = answer.json()["response"]
        return 200 if response["allowed"] else int(response["status"]["code"])

    def ask_until(self, stop: threading.Event, namespace: str) -> None:
        """Send one review after the other, and keep the codes; whatever is no answer is a fault."""
        while not stop.is_set():
            try:
                self.answers.append(self.judge(namespace))
            except Exception as error:  # noqa: BLE001 -- counted
                self.faults.append(repr(error))

    def memory(self) -> float:
        """Resident MiB of the process that has the lease or waits for it, and of those that serve admission."""
        parents = {self.manager.process.pid}
        total = 0
        for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda each: int(each.name)):
            try:
                status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
            except OSError:
                continue
            if int(folder.name) in parents or int(status["PPid"]) in parents:
                parents.add(int(folder.name))
                total += int(status.get("VmRSS", "0 kB").split()[0])
        return total / 1024


@pytest.fixture(scope="module")
def cluster(jobset_server: Cluster) -> Iterator[Cluster]:
    """With the CRDs of policies and no webhook: nobody keeps a policy with faults from being stored."""
    objects = [body for body in policy_objects() if not body["kind"].endswith("WebhookConfiguration")]
    listing = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    local.kubectl(jobset_server, "apply", "--server-side", "-f", "-", stdin=listing)
    crds = [f"crd/{body['metadata']['name']}" for body in objects if body["kind"] == "CustomResourceDefinition"]
    local.kubectl(jobset_server, "wait", "--for=condition=Established", *crds)
    yield jobset_server
    local.kubectl(jobset_server, "delete", "-f", "-", stdin=listing)


@pytest.fixture(scope="module")
def replicas(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Replica]]:
    managers: list[local.Manager] = []
    sections = {"featureGates": {"JobSetPolicies": True}}
    try:
        for number in range(2):
            folder = tmp_path_factory.mktemp(f"in-flight-{number}")
            managers.append(local.start(cluster, folder, webhook_port=local.free_port(), sections=sections))
        yield [Replica(each, _pool(each.webhook_port)) for each in managers]
    finally:
        for each in managers:
            local.stop(each)


def _pool(port: int) -> urllib3.HTTPSConnectionPool:
    return urllib3.HTTPSConnectionPool(
        "127.0.0.1", port, maxsize=2 * AT_ONCE, cert_reqs="CERT_NONE", assert_hostname=False
    )


@pytest.fixture
def team(cluster: Cluster) -> Iterator[str]:
    name = new_namespace(cluster)
    yield name
    drop_namespace(cluster, name)


def of_jobs(most: int) -> dict[str, Any]:
    return manifest("limits", ("Deny",), maxJobs={"max": most})


def in_force_after(replicas: list[Replica], team: str, code: int) -> float:
    """Seconds until every replica gives this answer."""
    began = time.monotonic()
    for each in replicas:
        wait_for(lambda each=each: each.judge(team) == code, what=f"answers with code {code}")
    return time.monotonic() - began


@pytest.mark.timeout(300)
def test_every_review_is_answered_while_policies_come_change_break_and_go(
    cluster: Cluster, replicas: list[Replica], team: str
):
    stop, took = threading.Event(), []
    one = f"{POLICIES}/limits"

    def change(**rules: Any) -> int:
        return request(cluster, "PATCH", one, {"spec": {"rules": rules}}, MERGE)[0]

    changes = [
        ("created", lambda: request(cluster, "POST", POLICIES, of_jobs(1))[0], 422),
        ("widened", lambda: change(maxJobs={"max": 9}), 200),
        ("broken", lambda: change(requiredLabels=[{"key": "team", "pattern": "("}]), 422),
        ("repaired", lambda: change(requiredLabels=None), 200),
        ("narrowed", lambda: change(maxJobs={"max": 2}), 422),
        ("deleted", lambda: request(cluster, "DELETE", one)[0], 200),
    ]
    with ThreadPoolExecutor(2 * AT_ONCE) as threads:
        under_way = [threads.submit(each.ask_until, stop, team) for each in replicas for _ in range(AT_ONCE)]
        try:
            for _ in range(3):
                for what, done, code in changes:
                    assert done() in {200, 201}, what
                    took.append((in_force_after(replicas, team, code), what))
        finally:
            stop.set()
        for each in under_way:
            each.result()
    for each in replicas:
        assert (each.faults, set(each.answers) <= {200, 422}, len(each.answers) > 100) == ([], True, True)
    assert max(took)[0] <= IN_FORCE, took


@pytest.mark.timeout(300)
def test_what_is_kept_of_policies_and_namespaces_ends_with_them(cluster: Cluster, replicas: list[Replica], team: str):
    def churn() -> None:
        for number in range(100):
            name = f"limits-{number:03}"
            key = f"example.com/{name}"
            body = manifest(name, ("Deny",), maxJobs={"max": 99, "fromNamespaceAnnotation": key})
            assert request(cluster, "POST", POLICIES, body)[0] == 201
            annotations = {"metadata": {"annotations": {key: "8", f"{key}-unread": "x" * 1000}}}
            assert request(cluster, "PATCH", f"/api/v1/namespaces/{team}", annotations, MERGE)[0] == 200
        in_force_after(replicas, team, 422)
        for number in range(100):
            assert request(cluster, "DELETE", f"{POLICIES}/limits-{number:03}")[0] == 200
        in_force_after(replicas, team, 200)

    churn()
    before = [each.memory() for each in replicas]
    for _ in range(4):
        churn()
    grown = [each.memory() - was for each, was in zip(replicas, before, strict=True)]
    assert max(grown) < GROWTH, grown
