"""Stuck situations that are about claims which sets make, and features that nodes do not declare; see `tests/support/explain/stuck.py`."""

from __future__ import annotations

from typing import Any

import msgspec

from diagnose.facts import Facts, SeenClaim, SeenStorageClass
from tests.support.explain.stuck import JSON, a_set, about_pod, row, stuck, unscheduled
from tests.support.explain.stuck_pods import NOT_SCHEDULED


def own_claim(claim: JSON, provisioner: str = "example.com/disk", **spec: Any) -> Facts:
    """A pod with the claim `data-train` of its set's own volumeClaimPolicies, and the StorageClass `standard`."""
    policies = [{"templates": [{"metadata": {"name": "data"}, "spec": claim}]}]
    classes = {"metadata": {"name": "standard"}, "provisioner": provisioner}
    known = {
        "claims": {"data-train": msgspec.convert({"spec": claim, "status": {"phase": "Pending"}}, SeenClaim)},
        "storage_classes": (msgspec.convert(classes, SeenStorageClass),),
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-train"}}]
    said = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
    return about_pod(js=a_set(volumeClaimPolicies=policies), unscheduled=said, known=known, volumes=volumes, **spec)


row(
    "a StorageClass that is missing, of a claim that the set makes",
    f"{NOT_SCHEDULED}claim data-train is Pending: there is no StorageClass nfs; there are: standard",
    "write another storageClassName at spec.volumeClaimPolicies[0].templates[0].spec in a new JobSet",
    lambda: own_claim({"storageClassName": "nfs"}),
)


@stuck(
    "a StorageClass that makes no volumes",
    f"{NOT_SCHEDULED}claim data-train is Pending: no PersistentVolume of StorageClass standard is free and fits"
    " (ReadWriteMany, 1Gi), and this class makes none",
    "kubectl get pv lists the volumes; have an administrator of the cluster create one that fits",
)
def _() -> Facts:
    asks: JSON = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return own_claim({"storageClassName": "standard", **asks}, "kubernetes.io/no-provisioner")


@stuck(
    "a feature that no node declares",
    f"{NOT_SCHEDULED}no node declares the feature RestartAllContainersOnContainerExits, which it needs for"
    " restartPolicyRules with action RestartAllContainers",
    "write failurePolicy.agent.mode: MainContainer in a new JobSet",
)
def _() -> Facts:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]
    agent = {"name": "jobset-agent", "restartPolicy": "Always", "restartPolicyRules": rules}
    js = a_set(failurePolicy={"restartStrategy": "InPlaceRestart", "maxRestarts": 3})
    return unscheduled("node(s) didn't match Pod's required features", js=js, initContainers=[agent])
