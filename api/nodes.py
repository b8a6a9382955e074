"""Nodes and the pods on them, for sets with `failurePolicy.nodeFailure` or `maintenance`.

There may be tens of thousands of each, so a record has only a few hundred bytes, and equal texts are stored once. Each
record is its own metadata, since it has the fields by which a store identifies an object. No object is written from
these records.
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
"""Taints of Kubernetes on a node that is unreachable or switched off."""


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
    """A node with its taints, as key and time (RFC 3339 or ""). `taints`: the taints that count as a failure.

    `other_taints`: all other taints, if they are cached.
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
    """A transform that keeps the taints with these keys of a node, each key once and with its earliest time.

    `keep_others`: also keep all other taints, in a separate field.
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
    """A pod that a Job controls. `jobset`, `jobset_uid`: labels that any user may write. `node`: "" if not bound."""

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
"""Reasons of the condition DisruptionTarget: a client has evicted the pod by the Eviction API, or the pod does not
tolerate a taint NoExecute."""


class BoundPod(JobPod, frozen=True, kw_only=True, gc=False):
    """A pod that is bound to a node.

    - `topology`, `domain`: key and value of the topology label in exclusive placement; a leader has no domain.
    - `disruption`: `EVICTION` or `TAINT_EVICTION` if the pod is being deleted for that reason and has not succeeded;
      else empty.
    - `tracked`: whether the pod has the finalizer of the Job controller.
    """

    job: str
    deleting: bool
    ended: bool
    topology: str
    domain: str
    disruption: str = ""
    tracked: bool = False


def bound_pod(pod: DetailedPod) -> BoundPod | None:
    """The cached record of a pod; None if it has no node or Job, or if it has ended and is not being deleted."""
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
        tracked=keys.JOB_TRACKING in meta.finalizers,
    )


def _disruption(pod: DetailedPod) -> str:
    target = pod.status.condition("DisruptionTarget")
    if target is None or target.status != "True" or pod.status.phase == "Succeeded":
        return ""
    return next((reason for reason in (EVICTION, TAINT_EVICTION) if reason == target.reason), "")
