"""What `jobset explain` advises about pods that do not run, and about claims that have no volume."""

from typing import Any

import msgspec
import pytest

from api.jobset import JobSet
from diagnose.facts import SeenClaim, SeenStorageClass
from diagnose.fixes import refusal_fix
from diagnose.gather import gather
from kube.client import Client
from policy.recorded import ANNOTATION
from tests.support.explain.objects import NOW, explained, explanation_of, job_of, made, pod_of, walk
from tests.support.explain.stuck import about_pod
from tests.support.explain.stuck_jobs import (
    AGAIN,
    NO_ACCOUNT,
    NO_PRIORITY,
    NO_REQUESTS,
    NO_RUNTIME,
    TOO_LARGE,
    TOO_OPEN,
    refused,
)
from tests.support.model.fake_cluster import Cluster
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
PREEMPTION = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."


def advice(*, active: int = 1, **pod: Any) -> tuple[str, str]:
    """What is said about a Job of one such pod, and the fix."""
    js = made(stored(jobset(rjob(), namespace="team-a")))
    job = made(job_of(js, 0), active=active, ready=0)
    _, body = explained(js, [job], [made(pod_of(job, **pod))])
    return body["because"][0]["what"], body["because"][0]["remedy"]


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("3 Insufficient nvidia.com/gpus.", "say whether any node offers nvidia.com/gpus, and that much"),
        ("1 Insufficient cpu, 2 Insufficient memory.", "whether any node offers cpu,"),
        ("3 node(s) didn't match Pod's node affinity/selector.", "write another one in a new JobSet, or have an admin"),
        ('persistentvolumeclaim "data" not found.', "create PersistentVolumeClaim data: kubectl get pvc -n team-a"),
        ("pod has unbound immediate PersistentVolumeClaims.", "kubectl describe pvc -n team-a says why"),
        ('storageclass.storage.k8s.io "fast" not found.', "there is no StorageClass fast: make the claim again"),
        ("3 node(s) had untolerated taint {gpu: only}.", "ask an administrator of the cluster which taints the nodes"),
        ("3 node(s) had untolerated taint(s).", "add a toleration for one to the pod template in a new JobSet"),
        ("3 node(s) were unschedulable.", "have an administrator of the cluster run kubectl uncordon NODE"),
        ("1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector.", "any node offers cpu,"),
        ("1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node affinity/selector.", "which label"),
        ("3 node(s) didn't have free ports for the requested pod ports.", "has its hostPort on each node"),
        ("3 Too many pods.", "run as many pods as they may"),
        ("3 node(s) didn't match pod anti-affinity rules.", "its podAntiAffinity keeps it away"),
        ("3 node(s) didn't match pod affinity rules.", "kubectl get pods -n team-a -o wide --show-labels"),
        ("3 node(s) didn't satisfy existing pods anti-affinity rules.", "pods that run there keep it out"),
        ("3 node(s) didn't match pod topology spread constraints.", "whenUnsatisfiable: ScheduleAnyway"),
        ("3 node(s) didn't match PersistentVolume's node affinity.", "kubectl describe pv VOLUME its Node Affinity"),
        ("3 node(s) had volume node affinity conflict.", "kubectl describe pv VOLUME its Node Affinity"),
        ("3 node(s) didn't find available persistent volumes to bind.", "no PersistentVolume is free"),
        ("3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode.", "one pod at a time"),
        ("3 node(s) exceed max volume count.", "hold as many volumes as they can"),
        ("3 cannot allocate all claims.", "kubectl get resourceclaims -n team-a"),
        ("1 Insufficient cpu, 2 node(s) didn't match pod affinity rules.", "its podAffinity wants it beside"),
        (
            "3 node(s) didn't match pod topology spread constraints (missing required label).",
            "no node has the topologyKey",
        ),
        (
            "3 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s).",
            "restore the volume, or delete",
        ),
        ("3 node(s) had no available disk.", "have the disk of its volume: wait until they end"),
        ("3 node(s) didn't match scheduler-enforced node affinity.", "use another schedulerName in a new JobSet"),
        ("3 node(s) didn't match Pod's required features.", "add nodes with a newer kubelet, or do without"),
        ("3 node(s) were cursed.", "ask for something else in a new JobSet, or have an administrator of the cluster"),
    ],
)
def test_a_pod_that_finds_no_node(message: str, says: str):
    what, fix = advice(unscheduled=f"0/3 nodes are available: {message} {PREEMPTION}")
    assert what.startswith("Job train-workers-0: pod train-workers-0-0 is not scheduled: 0/3 nodes are available: ")
    assert says in fix


RETRIED = "the Job controller tries again"
REPLACE = "kubectl replace --force -f train-new.yaml deletes the JobSet and creates it again"


@pytest.mark.parametrize(
    ("message", "retried", "again"),
    [
        (NO_ACCOUNT, True, False),
        (NO_PRIORITY, True, True),
        (NO_RUNTIME, True, True),
        (TOO_OPEN, True, True),
        (TOO_LARGE, False, True),
        (
            'pods "x" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 4',
            False,
            True,
        ),
        (NO_REQUESTS, False, True),
        ('admission webhook "policy.example.com" denied the request: no', True, True),
    ],
)
def test_a_new_pod_is_only_promised_where_it_need_not_differ_from_the_template(
    message: str, retried: bool, again: bool
):
    _, body = explanation_of(refused(message))
    fix = body["because"][0]["remedy"]
    assert (RETRIED in fix, REPLACE in fix) == (retried, again)
    if TOO_OPEN in message:
        assert f"change what the message names: {AGAIN}; or kubectl label ns team-a" in fix, (
            "a retry changes no template"
        )


def test_the_scheduler_of_a_pod_on_a_node_is_not_to_blame():
    starting = {"name": "main", "ready": False, "state": {"waiting": {"reason": "ContainerCreating"}}}
    what, fix = advice(node="node-1", phase="Pending", containers=[starting], schedulerName="volcano")
    assert what.endswith("is starting on node node-1")
    assert fix == ""


def test_ports_of_a_pod_in_the_network_of_its_node():
    said = "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."
    text, _ = explanation_of(about_pod(unscheduled=said, hostNetwork=True))
    assert "another pod has its containerPort, which is a port of the node with hostNetwork: true, on each node" in text
    assert "or do without hostNetwork in a new JobSet" in text
    assert "hostPort" not in text


def test_a_priority_class_that_a_policy_has_set_is_said_to_be_the_policys():
    js = made(stored(jobset(rjob(), namespace="team-a")))
    js["metadata"]["annotations"] = {ANNOTATION: '{"base": ["priorityClassName"]}'}
    fix = refusal_fix(msgspec.convert(js, JobSet), "no PriorityClass with name high was found")
    assert fix.startswith("policy base has set it, where the author names none; kubectl get priorityclass lists")


NONE_FREE = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind"
UNBOUND = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
TEMPLATE = "spec.volumeClaimPolicies[0].templates[1].spec"
KEPT = "(delete the claim between both, which stays: kubectl delete pvc ws-train -n team-a)"


def claiming(claim: JSON | None, *classes: str, own: bool, keep: str = "Delete", by: str = "example.com/disk") -> JSON:
    """The finding about a pod with the claim `ws-train`; own: the set makes it."""
    templates = [{"metadata": {"name": name}, "spec": claim or {}} for name in ("logs", "ws")]
    policies = [{"templates": templates, "retentionPolicy": {"whenDeleted": keep}}]
    more: JSON = {"volumeClaimPolicies": policies} if own else {}
    js = made(stored(jobset(rjob(), namespace="team-a", **more)))
    job = made(job_of(js, 0), active=1, ready=0)
    volumes = [{"name": "ws", "persistentVolumeClaim": {"claimName": "ws-train"}}]
    there = None if claim is None else msgspec.convert({"spec": claim, "status": {"phase": "Pending"}}, SeenClaim)
    known = [msgspec.convert({"metadata": {"name": name}, "provisioner": by}, SeenStorageClass) for name in classes]
    given: JSON = {"claims": {"ws-train": there}, "storage_classes": tuple(known)}
    pod = made(pod_of(job, unscheduled=UNBOUND, volumes=volumes))
    _, body = explained(js, [job], [pod], **given)
    return next(one for one in walk(body) if one["cause"] in {"claim-pending", "no-claim"})


SED = "kubectl get jobset train -n team-a -o yaml | sed '/^  resourceVersion:/d; s#storageClassName: {}$#storageClassName: {}#'"


@pytest.mark.parametrize(
    ("name", "keep", "fix"),
    [
        ("standards", "Delete", SED.format("standards", "standard")),
        ("standards", "Retain", f"write storageClassName: standard at {TEMPLATE} in a new JobSet {KEPT}; or have an"),
        ("nfs", "Delete", f"write another storageClassName at {TEMPLATE} in a new JobSet; or have an administrator"),
        ("nfs", "Retain", f"write another storageClassName at {TEMPLATE} in a new JobSet {KEPT}; or have an"),
    ],
)
def test_a_claim_that_the_set_makes_changes_with_the_set(name: str, keep: str, fix: str):
    finding = claiming({"storageClassName": name}, "standard", own=True, keep=keep)
    assert finding["remedy"].startswith(fix)
    assert finding["remedy"].endswith(f"have an administrator create StorageClass {name}")
    assert ("kubectl delete pvc" in finding["remedy"]) is (keep == "Retain"), "the manager makes it again as it was"


def test_a_claim_of_an_ephemeral_volume_changes_with_the_set():
    js = made(stored(jobset(rjob(), namespace="team-a")))
    job = made(job_of(js, 0), active=1, ready=0)
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "standards"}}}}]
    pod = made(pod_of(job, unscheduled=UNBOUND, volumes=volumes))
    name = f"{pod['metadata']['name']}-scratch"
    pending = msgspec.convert({"spec": {"storageClassName": "standards"}, "status": {"phase": "Pending"}}, SeenClaim)
    known = (msgspec.convert({"metadata": {"name": "standard"}, "provisioner": "x"}, SeenStorageClass),)
    given: JSON = {"claims": {name: pending}, "storage_classes": known}
    _, body = explained(js, [job], [pod], **given)
    found = next(one for one in walk(body) if one["cause"] == "claim-pending")
    assert f"claim {name} is Pending: there is no StorageClass standards" in found["what"]
    assert found["remedy"].startswith(SED.format("standards", "standard"))


def test_a_claim_of_the_user_is_made_again_by_the_user():
    finding = claiming({"storageClassName": "standards"}, "standard", own=False)
    assert finding["remedy"].startswith("kubectl delete pvc ws-train -n team-a and create it with another class")


@pytest.mark.parametrize(
    ("claim", "classes", "own", "fix"),
    [
        ({}, ("fast",), True, f"or write storageClassName: fast at {TEMPLATE} in a new JobSet"),
        ({}, ("fast",), False, "have an administrator of the cluster run kubectl patch storageclass fast -p"),
        ({"storageClassName": ""}, ("fast",), True, f"or write another storageClassName at {TEMPLATE}"),
        ({}, (), True, "have an administrator of the cluster install a provisioner"),
    ],
)
def test_a_claim_without_class(claim: JSON, classes: tuple[str, ...], own: bool, fix: str):
    assert fix in claiming(claim, *classes, own=own)["remedy"]


def test_a_claim_that_the_set_has_not_made_yet_is_nothing_to_create():
    mine, other = (claiming(None, own=own) for own in (True, False))
    assert (mine["level"], mine["remedy"]) == ("waits", "look again in a moment: the manager creates it")
    assert (other["level"], "create PersistentVolumeClaim ws-train" in other["remedy"]) == ("fault", True)


def test_a_class_that_never_makes_volumes():
    asked = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "10Gi"}}}
    claim = {"storageClassName": "manual", **asked}
    finding = claiming(claim, "manual", own=True, by="kubernetes.io/no-provisioner")
    assert finding["what"].endswith(
        "no PersistentVolume of StorageClass manual is free and fits (ReadWriteMany, 10Gi), and this class makes none"
    )
    assert finding["remedy"] == (
        "kubectl get pv lists the volumes; have an administrator of the cluster create one that fits, or write another"
        f" storageClassName at {TEMPLATE} in a new JobSet"
    )


@pytest.mark.looptime
async def test_claims_are_looked_up_where_volumes_are_bound_with_the_pod():
    js = made(stored(jobset(rjob())))
    job = made(job_of(js, 0), active=1)
    volumes = [{"name": "ws", "persistentVolumeClaim": {"claimName": "ws"}}]
    pod = made(pod_of(job, unscheduled=NONE_FREE, volumes=volumes))
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "ws"}, "spec": {"storageClassName": "manual"}}
    found = await gather(Client(Cluster(js, job, pod, claim)), "default", "train", NOW)
    assert found.claims["ws"] is not None
