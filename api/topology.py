"""Small records of pods and nodes for the caches of exclusive placement.

In exclusive placement, each Job has a topology domain for itself. The leader of a Job is its pod with completion index
0, and the other pods are its followers, which wait until the leader has a domain (`api.exclusive`).

A record takes less than 1 KiB, and texts that many pods have are stored once. The cache reads the identity of an object
from its `metadata`. These records have the identity among their own fields, so `metadata` is the record itself. They
are never written back to the API server.
"""

from collections.abc import Callable
from functools import lru_cache

import msgspec

from api.owners import owning_job
from api.pod import DetailedPod, PodMeta, PodMetadata, PodStatus
from kube.model.meta import Base

LONGEST_REASON = 160
"""At most this many characters of the scheduler's reason are cached. It names the most frequent causes first."""


@lru_cache(maxsize=4096)
def _shared_text(text: str) -> str:
    """One copy of a text that many pods have. On some Pythons, `sys.intern` would keep texts forever."""
    return text


@lru_cache(maxsize=1024)
def _shared_keys(keys: frozenset[str]) -> frozenset[str]:
    """One copy of a set of label keys, since most nodes have the same keys."""
    return keys


class _PodRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Identity of a pod, its Job and its JobSet. `topology`: the key of the node label whose values are domains."""

    namespace: str
    name: str
    resource_version: str
    job: str
    job_uid: str
    jobset: str
    jobset_uid: str
    topology: str

    @property
    def metadata(self) -> "_PodRecord":
        return self


class Leader(_PodRecord, frozen=True, kw_only=True, gc=False):
    """The leader pod of a Job with exclusive placement.

    - `attempt`: the attempt of the JobSet, which each restart raises by 1.
    - `created`: when the pod was created, RFC 3339. `node`: the name of its node; empty until the pod is bound.
    - `since`, `reason`: since when (RFC 3339) and why kube-scheduler finds no node; empty if it reports nothing.
    - `is_live`: the pod has not ended and is not being deleted. `succeeded`: it has succeeded and is not being deleted.
    """

    attempt: int
    created: str
    node: str
    is_live: bool
    reason: str
    since: str
    succeeded: bool = False

    @property
    def holds_domain(self) -> bool:
        """Whether followers of the Job are placed in the domain of this leader."""
        return bool(self.node) and (self.is_live or self.succeeded)

    @property
    def uid(self) -> str:
        """The name of the pod, which is unique enough for a cache. The real UID is only needed to write to a pod."""
        return self.name


class Follower(_PodRecord, frozen=True, kw_only=True, gc=False):
    """A follower that waits for its leader, held back by the scheduling gate of exclusive placement."""

    uid: str


def leader(pod: DetailedPod) -> Leader | None:
    """The record of a leader; None for any other pod, and for pods without exclusive placement by affinity."""
    meta, topology = pod.metadata, pod.metadata.topology
    if topology is None or not meta.leads:
        return None
    reason, since = _unscheduled_reason(pod.status)
    attempt = meta.labels.attempt
    return Leader(
        **_record_fields(meta, topology),
        attempt=int(attempt) if attempt.isascii() and attempt.isdigit() and len(attempt) < len("2147483647") else 0,
        created=_shared_text(meta.creation_timestamp or ""),
        node=pod.spec.node_name,
        is_live=pod.is_live,
        succeeded=meta.deletion_timestamp is None and pod.status.phase == "Succeeded",
        reason=reason,
        since=since,
    )


def follower(pod: PodMetadata) -> Follower | None:
    """The record of a follower; None if the pod is being deleted or has no exclusive placement by affinity."""
    meta, topology = pod.metadata, pod.metadata.topology
    if topology is None or meta.deletion_timestamp is not None:
        return None
    return Follower(**_record_fields(meta, topology), uid=meta.uid)


def _record_fields(meta: PodMeta, topology: str) -> dict[str, str]:
    owner = owning_job(meta)
    return {
        "namespace": _shared_text(meta.namespace),
        "name": meta.name,
        "resource_version": meta.resource_version,
        "job": "" if owner is None else owner.name,
        "job_uid": "" if owner is None else owner.uid,
        "jobset": _shared_text(meta.labels.jobset),
        "jobset_uid": _shared_text(meta.labels.jobset_uid),
        "topology": _shared_text(topology),
    }


def _unscheduled_reason(status: PodStatus) -> tuple[str, str]:
    """The scheduler's reason why it finds no node for a pod, and since when; both empty if it does not say so."""
    scheduled = status.condition("PodScheduled")
    if scheduled is None or scheduled.status != "False":
        return "", ""
    reason = scheduled.message[:LONGEST_REASON] or scheduled.reason
    return _shared_text(reason), _shared_text(scheduled.since)


class _NodeMeta(Base, frozen=True, kw_only=True):
    name: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class NodeMetadata(Base, frozen=True, kw_only=True):
    """A node of which only the metadata was requested."""

    metadata: _NodeMeta


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A node with some of its labels. `kept_keys`: keys of the labels that are kept. `all_keys`: keys of all labels.

    `values`: the values of the labels in the order of `kept_keys`; None for an absent label.
    """

    name: str
    resource_version: str
    all_keys: frozenset[str]
    kept_keys: tuple[str, ...]
    values: tuple[str | None, ...]

    @property
    def namespace(self) -> str:
        return ""

    @property
    def uid(self) -> str:
        """The name. The real UID is not kept: nothing is written to nodes."""
        return self.name

    @property
    def metadata(self) -> "Node":
        return self

    def label(self, key: str) -> str | None:
        """The value of a label; None if the node does not have the label, or the label is not kept."""
        return self.values[self.kept_keys.index(key)] if key in self.kept_keys else None


def node_keeping(keys_to_keep: Callable[[], tuple[str, ...]]) -> Callable[[NodeMetadata], Node]:
    """A transform that keeps the labels of a node whose keys `keys_to_keep` returns at that time."""

    def to_node(node: NodeMetadata) -> Node:
        meta, kept_keys = node.metadata, keys_to_keep()
        return Node(
            name=meta.name,
            resource_version=meta.resource_version,
            all_keys=_shared_keys(frozenset(meta.labels)),
            kept_keys=kept_keys,
            values=tuple(_label(meta, key) for key in kept_keys),
        )

    return to_node


def _label(meta: _NodeMeta, key: str) -> str | None:
    """The value of a label, of which one copy is kept. Most nodes have their own name as a label."""
    value = meta.labels.get(key)
    return meta.name if value == meta.name else value and _shared_text(value)
