"""The pods and nodes that exclusive placement looks at, each kept in under 1 KiB.

What repeats from pod to pod is stored once. Each record doubles as its own metadata: it has the fields by which a
store knows an object. Nothing is written through these records.
"""

from collections.abc import Callable
from functools import lru_cache

import msgspec

from api.owners import owning_job
from api.pod import DetailedPod, PodMeta, PodMetadata, PodStatus
from kube.model.meta import Base

LONGEST_REASON = 160
"""Characters that are cached of the scheduler's reason; the most frequent causes come first in it."""


@lru_cache(maxsize=4096)
def _shared_text(text: str) -> str:
    """One copy of a text that many pods carry. Not `sys.intern`, which keeps texts for ever on some Pythons."""
    return text


@lru_cache(maxsize=1024)
def _shared_keys(keys: frozenset[str]) -> frozenset[str]:
    """One copy of the keys that many nodes have: few have labels that no other has."""
    return keys


class _Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Identity of a pod, with `job` and `job_uid` of its controlling owner."""

    namespace: str
    name: str
    resource_version: str
    job: str
    job_uid: str
    jobset: str
    jobset_uid: str
    topology: str

    @property
    def metadata(self) -> "_Record":
        return self


class Leader(_Record, frozen=True, kw_only=True, gc=False):
    """The leader pod of an exclusive Job.

    `created` and `since` are RFC 3339: when it was made, and since when the scheduler has found no node (empty: not
    reported); `reason` is the scheduler's. `node` is empty until the pod is bound. `live`: neither ended nor ending;
    `succeeded`: ended well, and not deleted.
    """

    attempt: int
    created: str
    node: str
    live: bool
    reason: str
    since: str
    succeeded: bool = False

    @property
    def holds_domain(self) -> bool:
        """Whether followers are placed in its domain."""
        return bool(self.node) and (self.live or self.succeeded)

    @property
    def uid(self) -> str:
        """The name, which identifies a leader: it ends with random characters, and nothing is written to leaders."""
        return self.name


class Follower(_Record, frozen=True, kw_only=True, gc=False):
    """A follower that has our scheduling gate."""

    uid: str


def leader(pod: DetailedPod) -> Leader | None:
    """The cached record of a pod with completion index 0; None unless its Job is placed exclusively, by affinity."""
    meta, topology = pod.metadata, pod.metadata.topology
    if topology is None or not meta.leads:
        return None
    reason, since = _unscheduled_reason(pod.status)
    attempt = meta.labels.attempt
    return Leader(
        **_jobset_labels(meta, topology),
        attempt=int(attempt) if attempt.isascii() and attempt.isdigit() and len(attempt) < len("2147483647") else 0,
        created=_shared_text(meta.creation_timestamp or ""),
        node=pod.spec.node_name,
        live=pod.live,
        succeeded=meta.deletion_timestamp is None and pod.status.phase == "Succeeded",
        reason=reason,
        since=since,
    )


def follower(pod: PodMetadata) -> Follower | None:
    """The cached record of a pod that waits for its leader; None if it is being deleted."""
    meta, topology = pod.metadata, pod.metadata.topology
    if topology is None or meta.deletion_timestamp is not None:
        return None
    return Follower(**_jobset_labels(meta, topology), uid=meta.uid)


def _jobset_labels(meta: PodMeta, topology: str) -> dict[str, str]:
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
    """The scheduler's reason and since when, of a pod for which it has found no node."""
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
    """A node of which only metadata was sent."""

    metadata: _NodeMeta


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A node with the labels that were asked for: `values` in the order of `asked`, None for an absent label.

    `carries`: the keys of all of its labels.
    """

    name: str
    resource_version: str
    carries: frozenset[str]
    asked: tuple[str, ...]
    values: tuple[str | None, ...]

    @property
    def namespace(self) -> str:
        return ""

    @property
    def uid(self) -> str:
        """The name: nodes are identified by name here, since nothing is written to them."""
        return self.name

    @property
    def metadata(self) -> "Node":
        return self

    def label(self, key: str) -> str | None:
        """The value of a label; None if the node does not carry it, or it was not asked for."""
        return self.values[self.asked.index(key)] if key in self.asked else None


def node_keeping(kept_keys: Callable[[], tuple[str, ...]]) -> Callable[[NodeMetadata], Node]:
    """A transform that keeps, of a node's labels, those with the keys that are asked for at that moment."""

    def to_node(node: NodeMetadata) -> Node:
        meta, wanted = node.metadata, kept_keys()
        return Node(
            name=meta.name,
            resource_version=meta.resource_version,
            carries=_shared_keys(frozenset(meta.labels)),
            asked=wanted,
            values=tuple(_label(meta, key) for key in wanted),
        )

    return to_node


def _label(meta: _NodeMeta, key: str) -> str | None:
    """One copy of each value; most nodes carry their own name as a label."""
    value = meta.labels.get(key)
    return meta.name if value == meta.name else value and _shared_text(value)
