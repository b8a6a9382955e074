"""Stuck situations that are about claims which sets make, and gangs; see `tests/support/stuck.py`."""

from __future__ import annotations

from typing import Any

import msgspec

from app.explain.facts import Facts, SeenClaim, SeenStorageClass, SeenStorageClasses
from tests.support.stuck import JSON, a_set, about_pod, stuck
from tests.support.stuck_pods import NOT_SCHEDULED


def own_claim(claim: JSON, provisioner: str = "example.com/disk", **spec: Any) -> Facts:
    """A pod with the claim `data-train` of its set's own volumeClaimPolicies, and the StorageClass `standard`."""
    policies = [{"templates": [{"metadata": {"name": "data"}, "spec": claim}]}]
    classes = {"metadata": {"name": "standard"}, "provisioner": provisioner}
    known = {
        "claims": {"data-train": msgspec.convert({"spec": claim, "status": {"phase": "Pending"}}, SeenClaim)},
        "storage_classes": SeenStorageClasses((msgspec.convert(classes, SeenStorageClass),)),
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-train"}}]
    said = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
    return about_pod(js=a_set(volumeClaimPolicies=policies), unscheduled=said, known=known, volumes=volumes, **spec)


@stuck(
    "a StorageClass that is missing, of a claim that the set makes",
    f"{NOT_SCHEDULED}claim data-train is Pending: there is no StorageClass nfs; there are: standard",
    "write another storageClassName at spec.volumeClaimPolicies[0].templates[0].spec in a new JobSet",
)
def _() -> Facts:
    return own_claim({"storageClassName": "nfs"})


@stuck(
    "a StorageClass that makes no volumes",
    f"{NOT_SCHEDULED}claim data-train is Pending: no PersistentVolume of StorageClass standard is free and fits"
    " (ReadWriteMany, 1Gi), and this class makes none",
    "kubectl get pv lists the volumes; have an administrator of the cluster create one that fits",
)
def _() -> Facts:
    asks: JSON = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return own_claim({"storageClassName": "standard", **asks}, "kubernetes.io/no-provisioner")
