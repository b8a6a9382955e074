"""What `jobset explain` says of claims that have no volume: those of the user, and those that the set itself makes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from diagnose.facts import SeenClaim, SeenStorageClass
from diagnose.gather import gather
from kube.client import Client
from tests.support.explain.gangs import EACH, Played
from tests.support.explain.objects import NOW, explanation_of, facts, job_of, lease, made, pod_of, walk
from tests.support.model.fake_cluster import Cluster
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
NONE_FREE = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind"
UNBOUND = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
TEMPLATE = "spec.volumeClaimPolicies[0].templates[1].spec"
KEPT = "(delete the claim between both, which stays: kubectl delete pvc ws-train -n team-a)"


def waiting(claim: JSON | None, *classes: str, own: bool, keep: str = "Delete", by: str = "example.com/disk") -> JSON:
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
    _, body = explanation_of(facts(js, [job], [pod], lease=lease(), **given))
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
    finding = waiting({"storageClassName": name}, "standard", own=True, keep=keep)
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
    _, body = explanation_of(facts(js, [job], [pod], lease=lease(), **given))
    found = next(one for one in walk(body) if one["cause"] == "claim-pending")
    assert f"claim {name} is Pending: there is no StorageClass standards" in found["what"]
    assert found["remedy"].startswith(SED.format("standards", "standard"))


def test_a_claim_of_the_user_is_made_again_by_the_user():
    finding = waiting({"storageClassName": "standards"}, "standard", own=False)
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
    assert fix in waiting(claim, *classes, own=own)["remedy"]


def test_a_claim_that_the_set_has_not_made_yet_is_nothing_to_create():
    mine, other = (waiting(None, own=own) for own in (True, False))
    assert (mine["level"], mine["remedy"]) == ("waits", "look again in a moment: the manager creates it")
    assert (other["level"], "create PersistentVolumeClaim ws-train" in other["remedy"]) == ("fault", True)


def test_a_class_that_never_makes_volumes():
    asked = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "10Gi"}}}
    claim = {"storageClassName": "manual", **asked}
    finding = waiting(claim, "manual", own=True, by="kubernetes.io/no-provisioner")
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


def test_a_gang_waits_for_claims_too():
    played = Played(EACH)
    played.refuse_all(UNBOUND)
    for pod in played.pods.values():
        pod["spec"]["volumes"] = [{"name": "ws", "persistentVolumeClaim": {"claimName": "ws"}}]
    text, body = played.explain(claims={"ws": None})
    assert "pod train-workers-0-0 and 1 more are not scheduled: there is no PersistentVolumeClaim ws\n" in text
    assert body["level"] == "fault"
