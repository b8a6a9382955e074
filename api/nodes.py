"""Small records of nodes and of pods on nodes, for the caches of `failurePolicy.nodeFailure` and `maintenance`.

A JobSet with one of these fields restarts when a node of its pods fails, or is taken down for maintenance.

A cluster may have tens of thousands of nodes and pods, so a record takes a few hundred bytes, and equal texts are
stored once. The cache reads the identity of an object from its `metadata`. These records have the identity among their
own fields, so `metadata` is the record itself. They are never written back to the API server.
"""

from collections.abc import Callable
from sys import intern
from typing import Any, Self

import msgspec

from api import keys
from api.owners import owning_job
from api.pod import DetailedPod
from kube.model.meta import Base, OwnerReference

FAILURE_TAINTS = ("node.kubernetes.io/unreachable", "node.kubernetes.io/out-of-service")
"""Keys of the taints of a node that is unreachable (set by Kubernetes), or switched off (set by an administrator)."""


class _NodeMeta(Base, frozen=True, kw_only=True):
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class Taint(Base, frozen=True, kw_only=True):
    """core/v1 Taint. `time_added`: RFC 3339; some components do not set it."""

    key: str = ""
    time_added: str | None = None


class _NodeSpec(Base, frozen=True, kw_only=True):
    taints: tuple[Taint, ...] = ()


class DetailedNode(Base, frozen=True, kw_only=True):
    """A node, as the API server returns it."""

    metadata: _NodeMeta
    spec: _NodeSpec = _NodeSpec()


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A node with its taints, each with its key and when it was added (RFC 3339, or "" if unknown).

    `taints`: the taints by which the node counts as failed. `other_taints`: all other taints, if they are cached.
    """

    name: str
    uid: str
    resource_version: str
    taints: tuple[tuple[str, str], ...]
    other_taints: tuple[tuple[str, str], ...] = ()

    @property
    def namespace(self) -> str:
        return ""

    @property
    def metadata(self) -> "Node":
        return self


def node_transform(taint_keys: frozenset[str], *, keep_others: bool = False) -> Callable[[DetailedNode], Node]:
    """A function that returns the record of a node, with each key of a taint once and with its earliest time.

    `taint_keys`: keys of the taints by which a node counts as failed. `keep_others`: whether other taints are kept.
    """

    def to_node(node: DetailedNode) -> Node:
        times: dict[str, str] = {}
        for taint in node.spec.taints:
            if keep_others or taint.key in taint_keys:
                known_times = [time for time in (times.get(taint.key), taint.time_added) if time]
                times[intern(taint.key)] = min(known_times, default="")
        meta, taints = node.metadata, sorted(times.items())
        return Node(
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
            taints=tuple(taint for taint in taints if taint[0] in taint_keys),
            other_taints=tuple(taint for taint in taints if taint[0] not in taint_keys),
        )

    return to_node


class JobPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod that a Job controls. `node`: name of its node; empty until the pod is bound.

    `jobset`, `jobset_uid`: the labels with name and UID of the JobSet, which any user may write.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    jobset: str
    jobset_uid: str
    job_uid: str
    created: str
    node: str = ""

    @property
    def metadata(self) -> Self:
        return self


def job_pod_fields(pod: DetailedPod, owner: OwnerReference) -> dict[str, Any]:
    """The fields of the `JobPod` of a pod. `owner`: the owner reference to the Job that controls the pod."""
    meta = pod.metadata
    return {
        "namespace": intern(meta.namespace),
        "name": meta.name,
        "uid": meta.uid,
        "resource_version": meta.resource_version,
        "jobset": intern(meta.labels.jobset),
        "jobset_uid": intern(meta.labels.jobset_uid),
        "job_uid": intern(owner.uid),
        "created": intern(meta.creation_timestamp or ""),
        "node": pod.spec.node_name,
    }


EVICTION = "EvictionByEvictionAPI"
TAINT_EVICTION = "DeletionByTaintManager"
"""Reasons of the pod condition DisruptionTarget: the Eviction API has evicted the pod, or the pod does not tolerate a
taint with effect NoExecute."""


class BoundPod(JobPod, frozen=True, kw_only=True, gc=False):
    """A pod that is bound to a node.

    - `job`: name of the Job. `deleting`: whether the pod is being deleted. `ended`: whether it has succeeded or failed.
    - `topology`, `domain`: in exclusive placement, the key and the value of the node label that the pod's node selector
      selects. The leader of a Job, which is its pod with completion index 0, has no domain.
    - `disruption`: `EVICTION` or `TAINT_EVICTION` if the pod is being deleted for this reason and has not succeeded;
      else empty.
    - `is_tracked_by_job`: whether the pod has the finalizer of the Job controller, which has not counted its end yet.
    """

    job: str
    deleting: bool
    ended: bool
    topology: str
    domain: str
    disruption: str = ""
    is_tracked_by_job: bool = False


def bound_pod(pod: DetailedPod) -> BoundPod | None:
    """The record of a pod; None if it has no node or no Job, or if it has ended and is not being deleted."""
    meta, owner = pod.metadata, owning_job(pod.metadata)
    deleting, ended = meta.deletion_timestamp is not None, pod.status.phase in {"Succeeded", "Failed"}
    if not pod.spec.node_name or owner is None or (ended and not deleting):
        return None
    return BoundPod(
        **job_pod_fields(pod, owner),
        job=intern(owner.name),
        deleting=deleting,
        ended=ended,
        topology=intern(meta.topology or ""),
        domain=intern(pod.domain),
        disruption=_disruption(pod) if deleting else "",
        is_tracked_by_job=keys.JOB_TRACKING in meta.finalizers,
    )


def _disruption(pod: DetailedPod) -> str:
    target = pod.status.condition("DisruptionTarget")
    if target is None or target.status != "True" or pod.status.phase == "Succeeded":
        return ""
    return next((reason for reason in (EVICTION, TAINT_EVICTION) if reason == target.reason), "")
