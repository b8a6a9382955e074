"""Policies hinder no controller: what Kueue, MultiKueue and Trainer send is admitted while every rule denies."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from policy.registry import RULES
from policy.rules.node_uses import USES
from tests.support.cluster.client_calls import COUNTERS, idle, path, post
from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import MERGE, replace_object, request, wait_for
from tests.support.objects.policies import manifest as policy
from tests.support.objects.policies import setting
from tests.support.played.streams import USERS, Stream

POLICIES = "/apis/policy.jobset.x-k8s.io/v1alpha1/jobsetpolicies"
QUEUE = "kueue.x-k8s.io/queue-name"
GATES = {"JobSetPolicies": True, "RestartJob": True}
pytestmark = pytest.mark.manager(featureGates=GATES)

MET: dict[str, Any] = {
    "requiredQueue": {"allowed": ["q"]},
    "maxTotals": {"pods": {"max": 5}, "resources": [{"name": "cpu", "max": 5}]},
    "maxReplicatedJobs": {"max": 4},
    "maxJobs": {"max": 4},
    "maxRestarts": {"max": 3},
    "ttl": {"required": True, "max": 600},
    "requiredLabels": [{"key": "team", "pattern": "platform"}],
    "exclusiveTopologies": {"allowed": ["rack"]},
    "imageRegistries": {"allowed": ["docker.io/library"]},
    "requiredRequests": {"resources": ["cpu"]},
    "allowedResources": ["cpu", "memory"],
    "forbid": list(USES),
    "managedBy": {"allowed": ["jobset.sigs.k8s.io/jobset-controller", "kueue.x-k8s.io/multikueue"]},
    "networkDNS": "Enabled",
    "restartStrategies": {"allowed": ["Recreate"]},
}
"""Rules that the JobSets of the clients meet, and no larger ones do."""
LATER: dict[str, Any] = {
    "priorityClasses": {"allowed": ["batch"]},
    "imagesByDigest": True,
    "requiredLimits": {"resources": ["memory"]},
    "requiredAnnotations": [{"key": "owner"}],
    "activeDeadline": {"required": True},
    "backoffLimit": {"max": 0, "zeroWithRestarts": True},
}
"""Rules that they break: of a policy that comes when they are there."""
PLACES: dict[str, Any] = {
    "nodeSelectors": {"allowed": [{"key": "kubernetes.io/os"}]},
    "tolerations": {"allowed": [{"key": "nvidia.com/gpu"}]},
}
"""Rules that what Kueue writes when it admits a JobSet would break."""
FLAVORS: dict[str, Any] = {
    "nodeSelectors": {"allowed": [{"key": "kubernetes.io/os"}, {"key": "rack"}]},
    "tolerations": {"allowed": [{"key": "flavor-rack-0"}, {"key": "flavor-rack-1"}]},
}
"""The same where Trainer writes it: labels and taints of the flavors are allowed."""


def about(kind: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {kind: "true"}}}


SETS = setting("sets", about("met"), labels={"team": "platform"}, ttlSecondsAfterFinished=600)
STRICT = [
    SETS,
    policy("met", match=about("met"), **MET),
    policy("later", match=about("later"), **LATER),
    policy("places", match=about("places"), **PLACES),
    policy("flavors", match=about("flavors"), **FLAVORS),
]


@pytest.fixture(scope="module")
def policies(full_cluster, manager_process, served_policies) -> Iterator[None]:
    """The strict policies, each in the namespaces with a label, while the tests of this file run."""
    manager_process.start(featureGates=GATES)
    for body in STRICT:
        wait_for(lambda body=body: request(full_cluster, "POST", POLICIES, body)[0] == 201, what="the policy")
    yield
    for body in STRICT:
        request(full_cluster, "DELETE", f"{POLICIES}/{body['metadata']['name']}")


@pytest.fixture
def strict(sets, policies):
    """Puts policies in force in the namespace of the test."""

    def put(*kinds: str) -> None:
        labels = {"metadata": {"labels": dict.fromkeys(kinds, "true")}}
        assert request(sets.cluster, "PATCH", f"/api/v1/namespaces/{sets.namespace}", labels, MERGE)[0] == 200

        def refused() -> bool:
            message = request(sets.cluster, "POST", f"{path(sets)}?dryRun=All", BREAKING)[1].get("message", "")
            return all(f"policy {kind}" in message for kind in kinds)

        wait_for(refused, what=f"the policies {kinds}")

    return put


BREAKING = manifest(group(pod={"nodeSelector": {"other": "x"}}), name="breaking")
"""A JobSet that none of the policies admits."""


def test_every_rule_is_in_force():
    assert {rule.name for rule in RULES.values()} == MET.keys() | LATER.keys() | PLACES.keys()
    assert FLAVORS.keys() == PLACES.keys()


def test_kueue_admits_evicts_and_ends_a_jobset(sets, strict):
    stream = Stream(sets, "queued")
    strict("met")
    stream.play("created")
    strict("later", "places")
    wait_for(lambda: sets.counts().get("suspended") == 3)
    for phase, rack in (("admitted", "rack-1"), ("evicted", ""), ("admitted again", "rack-0")):
        stream.play(phase)
        if rack:
            pods = wait_for(lambda: len(sets.pods()) == 5 and sets.pods(), what=f"the pods when {phase}")
            assert {pod["spec"]["nodeSelector"]["rack"] for pod in pods} == {rack}
        else:
            wait_for(lambda: idle(sets) and sets.pods() == [], what="no pods")
    sets.wait_ready(3)
    for pod in sets.pods():
        sets.end(pod)
    sets.wait_state("Completed")
    stream.play("ended")


def test_a_tenant_may_not_write_what_kueue_writes(sets, strict):
    strict("places")
    assert post(sets, manifest(group(), suspend=True))[0] == 201

    def send_elsewhere(js: dict[str, Any]) -> None:
        pod = js["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        pod["nodeSelector"] = {"rack": "rack-0"}

    def tried(user: str) -> int:
        send = partial(request, sets.cluster, user=user)
        return replace_object(send, f"{path(sets, 'js')}?dryRun=All", send_elsewhere)[0]

    users = ("ann", USERS["kueue"], USERS["trainer"])
    assert [tried(user) for user in users] == [422, 200, 422]


def test_trainer_applies_its_set_again_and_again(sets, strict):
    stream = Stream(sets, "train")
    strict("met", "flavors")
    stream.play("created")
    apply = stream.entries("created", "trainer")[-1]
    assert {stream.send(apply)["metadata"]["generation"] for _ in range(3)} == {1}, "defaults stay as they are"
    strict("later")
    stream.play("admitted")
    wait_for(lambda: len(sets.pods(name="train")) == 2, what="the pods of the first stage")
    stream.play("evicted")
    wait_for(lambda: idle(sets, "train") and sets.pods(name="train") == [], what="no pods")
    assert stream.play("admitted again")[-1]["spec"]["suspend"] is False
    wait_for(lambda: len(sets.pods(name="train")) == 2, what="the pods of the first stage")
    stored = sets.get("train")
    assert (stored["metadata"]["labels"]["team"], stored["spec"]["ttlSecondsAfterFinished"]) == ("platform", 600)
    stream.play("evicted")
    wait_for(lambda: sets.pods(name="train") == [], what="no pods")


def test_multikueue_creates_copies_and_reports(sets, strict):
    """In the cluster of the tenant it writes the status; in a worker cluster it creates the set."""
    strict("met")
    request_cpu = {"containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}]}
    js = manifest(group(pod=request_cpu), suspend=True)
    js["metadata"]["labels"] = {QUEUE: "q"}
    theirs = {**js, "metadata": {**js["metadata"], "name": "theirs"}}
    theirs["spec"] = {**js["spec"], "managedBy": "kueue.x-k8s.io/multikueue"}
    assert post(sets, theirs)[0] == 201
    strict("later", "places")
    status = {"restarts": 0, "replicatedJobsStatus": [{"name": "workers", **dict.fromkeys(COUNTERS, 1)}]}
    for where, body in (("theirs/status", {"status": status}), ("theirs", {"spec": {"suspend": False}})):
        assert request(sets.cluster, "PATCH", path(sets, where), body, MERGE, USERS["kueue"])[0] == 200
    strict_off = {"metadata": {"labels": {"later": None}}}
    assert request(sets.cluster, "PATCH", f"/api/v1/namespaces/{sets.namespace}", strict_off, MERGE)[0] == 200
    labels = {"kueue.x-k8s.io/prebuilt-workload-name": "w", "kueue.x-k8s.io/multikueue-origin": "o", QUEUE: "q"}
    copy = {**js, "metadata": {**js["metadata"], "labels": labels}}
    wait_for(lambda: request(sets.cluster, "POST", path(sets), copy, user=USERS["kueue"])[0] == 201, what="the copy")
    for name in ("theirs", "js"):
        assert request(sets.cluster, "DELETE", path(sets, name), user=USERS["kueue"])[0] == 200
