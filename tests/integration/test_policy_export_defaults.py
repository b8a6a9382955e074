"""Exported defaults on a real API server that asks no webhook: the JobSets that our webhook would have made."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from api.features import FeatureGates
from dev.cluster.cluster import Cluster
from kube.model.meta import JSON
from policy.compiled.defaults import mutating_objects
from policy.compiled.policy import compiled_name
from policy.defaults import defaults_for
from policy.namespaces import namespace_of
from policy.recorded import ANNOTATION
from policy.types import read_policy
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import apply, drop_namespace, request, wait_for
from tests.support.objects.jobsets import jobset, rjob
from tests.support.objects.policies import setting
from webhooks.jobset.policy_defaults import set_defaults
from webhooks.json_patch import PatchDraft

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
COLLECTIONS = {
    "MutatingAdmissionPolicyBinding": f"{ADMISSION}/mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": f"{ADMISSION}/mutatingadmissionpolicies",
}
GATES = FeatureGates({"AllAlpha": True})
MATCHED, OTHER = "defaults-matched", "defaults-other"
MATCH = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": MATCHED}}}
POLICIES = [
    setting(
        "a-all",
        MATCH,
        labels={"team": "research", "example.com/tier": "test"},
        ttlSecondsAfterFinished=7200,
        activeDeadlineSeconds=600,
        priorityClassName="batch",
        nodeSelector={"example.com/pool": "shared"},
        tolerations=[{"key": "example.com/gpu", "effect": "NoSchedule"}],
    ),
    setting("b-second", MATCH, labels={"team": "other", "kueue.x-k8s.io/queue-name": "main"}),
    setting("c-refuses", MATCH, {"ttl": {"max": 3600}}, nodeSelector={"example.com/zone": "a"}),
    setting("d-elsewhere", {"objectSelector": {"matchLabels": {"size": "large"}}, **MATCH}, labels={"large": "yes"}),
]
"""The second has a label that the first sets with another value. The third refuses a default of the first."""


def pod(**spec: Any) -> JSON:
    return {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}], **spec}


def by_affinity(key: str) -> JSON:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["mine"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return pod(affinity={"nodeAffinity": required})


def labelled(js: JSON, **labels: str) -> JSON:
    js["metadata"]["labels"] = labels
    return js


BARE = jobset(rjob(pod=pod()))
CASES = {
    "bare": BARE,
    "own labels": labelled(jobset(rjob(pod=pod())), team="mine", size="large"),
    "own values": jobset(rjob(pod=pod()), ttlSecondsAfterFinished=0, activeDeadlineSeconds=5),
    "own annotation": {**jobset(rjob(pod=pod())), "metadata": {"name": "js", "annotations": {"a/b": "c"}}},
    "each pod by itself": jobset(
        rjob("plain", pod=pod()),
        rjob("priority", pod=pod(priorityClassName="gold")),
        rjob("selector", pod=pod(nodeSelector={"example.com/pool": "mine", "x": "y"})),
        rjob("affinity", pod=by_affinity("example.com/pool")),
        rjob("other-affinity", pod=by_affinity("example.com/rack")),
        rjob("node", pod=pod(nodeName="node-0")),
        rjob("tolerates", pod=pod(tolerations=[{"key": "example.com/gpu", "operator": "Exists"}])),
        rjob("tolerates-all", pod=pod(tolerations=[{"operator": "Exists"}])),
        rjob("tolerates-other", pod=pod(tolerations=[{"key": "a", "operator": "Exists"}])),
    ),
}


def dry_run(cluster: Cluster, js: JSON, namespace: str) -> tuple[int, JSON]:
    js = {**js, "metadata": {key: value for key, value in js["metadata"].items() if key != "namespace"}}
    return request(cluster, "POST", f"{JOBSETS.format(namespace)}?dryRun=All", js)


def created(cluster: Cluster, js: JSON, namespace: str) -> JSON:
    """What a dry run would store, as far as its author wrote it or a default was set."""
    status, answer = dry_run(cluster, js, namespace)
    assert status == 201, answer["message"]
    meta = answer["metadata"]
    annotations = dict(meta.get("annotations", {}))
    if ANNOTATION in annotations:
        annotations[ANNOTATION] = json.loads(annotations[ANNOTATION])
    return {"labels": meta.get("labels", {}), "annotations": annotations, "spec": answer["spec"]}


def defaulted(js: JSON) -> JSON:
    """The JobSet with the defaults of our webhook."""
    draft = PatchDraft(js)
    set_defaults(draft, defaults_for(list(map(read_policy, POLICIES)), js, namespace_of(MATCHED, {}, {}), GATES))
    found: JSON = draft.object
    return found


@pytest.fixture(scope="module")
def exported(jobset_server: Cluster) -> Iterator[Cluster]:
    """The policies of this file as MutatingAdmissionPolicies, in force."""
    for name in (MATCHED, OTHER):
        assert request(jobset_server, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0] == 201
    read = list(map(read_policy, POLICIES))
    for policy in read:
        for body in mutating_objects(policy, read, GATES):
            apply(jobset_server, COLLECTIONS[body["kind"]], body)
    probe = labelled(jobset(rjob(pod=pod())), size="large")
    everybody = {policy["metadata"]["name"] for policy in POLICIES}

    def in_force() -> bool:
        """An API server that has just begun refuses what such a policy looks at, until it has the schema of it."""
        status, answer = dry_run(jobset_server, probe, MATCHED)
        return (
            status == 201
            and json.loads(answer["metadata"].get("annotations", {}).get(ANNOTATION, "{}")).keys() == everybody
        )

    wait_for(in_force, what="the exported defaults")
    yield jobset_server
    for policy in POLICIES:
        for collection in COLLECTIONS.values():
            request(jobset_server, "DELETE", f"{collection}/{compiled_name(policy['metadata']['name'])}")
    for name in (MATCHED, OTHER):
        drop_namespace(jobset_server, name)


@pytest.mark.parametrize("case", CASES)
def test_exported_defaults_make_the_jobset_of_the_webhook(exported: Cluster, case: str):
    js = CASES[case]
    assert created(exported, js, MATCHED) == created(exported, defaulted(js), OTHER)


def test_what_the_first_policy_sets_and_what_a_rule_refuses(exported: Cluster):
    """The words of the table above, so that both sides cannot be wrong in the same way."""
    found = created(exported, BARE, MATCHED)
    assert found["labels"] == {"team": "research", "example.com/tier": "test", "kueue.x-k8s.io/queue-name": "main"}
    assert "ttlSecondsAfterFinished" not in found["spec"]
    assert found["spec"]["activeDeadlineSeconds"] == 600
    spec = found["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"example.com/pool": "shared", "example.com/zone": "a"}
    assert spec["tolerations"] == [{"key": "example.com/gpu", "operator": "Equal", "effect": "NoSchedule"}]
    assert spec["priorityClassName"] == "batch"
    assert created(exported, BARE, OTHER)["labels"] == {}
