"""The pods and nodes that exclusive placement looks at, each kept in under 1 KiB.

What repeats from pod to pod is stored once. Each record doubles as its own metadata: it has the fields by which a
store knows an object. Nothing is written through these records.
"""

from collections.abc import Callable
from functools import lru_cache

import msgspec

from api import keys
from api.meta import Base, Condition, Identity, find

LONGEST_REASON = 160
"""Characters that are kept of the scheduler's reason; the most frequent causes stand first."""


@lru_cache(maxsize=4096)
def _shared(text: str) -> str:
    """One copy of a text that many pods carry. Not `sys.intern`, which keeps texts for ever on some Pythons."""
    return text


class _Labels(Base, frozen=True, kw_only=True):
    jobset: str = msgspec.field(name=keys.JOBSET_NAME, default="")
    jobset_uid: str = msgspec.field(name=keys.JOBSET_UID, default="")
    attempt: str = msgspec.field(name=keys.RESTART_ATTEMPT, default="")
    job_uid: str = msgspec.field(name=keys.JOB_UID, default="")


class _Annotations(Base, frozen=True, kw_only=True):
    jobset: str | None = msgspec.field(name=keys.JOBSET_NAME, default=None)
    index: str | None = msgspec.field(name=keys.COMPLETION_INDEX, default=None)
    topology: str | None = msgspec.field(name=keys.EXCLUSIVE_TOPOLOGY, default=None)
    node_selector: str | None = msgspec.field(name=keys.NODE_SELECTOR_STRATEGY, default=None)


class _Meta(Identity, frozen=True, kw_only=True):
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: _Labels = _Labels()
    annotations: _Annotations = _Annotations()

    @property
    def topology(self) -> str | None:
        """As `api.exclusive.topology_of`."""
        ours = self.annotations
        return None if ours.jobset is None or ours.node_selector is not None else ours.topology


class PartialPod(Base, frozen=True, kw_only=True):
    """A pod of which only metadata was sent."""

    metadata: _Meta


class _Spec(Base, frozen=True, kw_only=True):
    node_name: str = ""


class _Status(Base, frozen=True, kw_only=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


def _alive(meta: _Meta, status: _Status) -> bool:
    """Neither ended nor on its way out."""
    return meta.deletion_timestamp is None and status.phase not in {"Succeeded", "Failed"}


class LeaderPod(Base, frozen=True, kw_only=True):
    """A leader pod as it is read."""

    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Identity of a pod, and whose it is: `job` and `job_uid` of its controlling owner."""

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

    `created` and `since` are RFC 3339: when it was made, and since when the scheduler has found no node (empty: it has
    not said so); `reason` is what it said. `node` is empty until the pod is bound. `live`: neither ended nor ending;
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
    def uid(self) -> str:
        """Leaders are told apart by their names, which are made at random; nothing is written to them."""
        return self.name


class Follower(_Record, frozen=True, kw_only=True, gc=False):
    """A follower that has our scheduling gate."""

    uid: str


def leader(pod: LeaderPod) -> Leader | None:
    """What is kept of a pod with completion index 0; None unless its Job is placed exclusively, by affinity."""
    meta, topology = pod.metadata, pod.metadata.topology
    if topology is None or meta.annotations.index != "0":
        return None
    reason, since = _unscheduled(pod.status.conditions)
    attempt = meta.labels.attempt
    return Leader(
        **_whose(meta, topology),
        attempt=int(attempt) if attempt.isascii() and attempt.isdigit() and len(attempt) < len("2147483647") else 0,
        created=_shared(meta.creation_timestamp or ""),
        node=pod.spec.node_name,
        live=_alive(meta, pod.status),
        succeeded=meta.deletion_timestamp is None and pod.status.phase == "Succeeded",
        reason=reason,
        since=since,
    )


def follower(pod: PartialPod) -> Follower | None:
    """What is kept of a pod that awaits its leader; None for one that is on its way out."""
    meta, topology = pod.metadata, pod.metadata.topology
    if topology is None or meta.deletion_timestamp is not None:
        return None
    return Follower(**_whose(meta, topology), uid=meta.uid)


def _whose(meta: _Meta, topology: str) -> dict[str, str]:
    owner = meta.controller()
    return {
        "namespace": _shared(meta.namespace),
        "name": meta.name,
        "resource_version": meta.resource_version,
        "job": "" if owner is None else owner.name,
        "job_uid": "" if owner is None else owner.uid,
        "jobset": _shared(meta.labels.jobset),
        "jobset_uid": _shared(meta.labels.jobset_uid),
        "topology": _shared(topology),
    }


def _unscheduled(conditions: tuple[Condition, ...]) -> tuple[str, str]:
    """The scheduler's reason and since when, of a pod for which it has found no node."""
    scheduled = find(conditions, "PodScheduled")
    if scheduled is None or scheduled.status != "False":
        return "", ""
    reason = scheduled.message[:LONGEST_REASON] or scheduled.reason
    return _shared(reason), _shared(scheduled.last_transition_time)


class _NodeMeta(Base, frozen=True, kw_only=True):
    name: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class PartialNode(Base, frozen=True, kw_only=True):
    """A node of which only metadata was sent."""

    metadata: _NodeMeta


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A node with the labels that were asked for: `values` in the order of `asked`, None where it has none."""

    name: str
    resource_version: str
    asked: tuple[str, ...]
    values: tuple[str | None, ...]

    @property
    def namespace(self) -> str:
        return ""

    @property
    def uid(self) -> str:
        """Nodes are known by their names here; nothing is written that a UID would have to guard."""
        return self.name

    @property
    def metadata(self) -> "Node":
        return self

    def label(self, key: str) -> str | None:
        """The value of a label; None if the node does not carry it, or it was not asked for."""
        return self.values[self.asked.index(key)] if key in self.asked else None


def node_keeping(asked: Callable[[], tuple[str, ...]]) -> Callable[[PartialNode], Node]:
    """A transform that keeps, of a node's labels, those with the keys that are asked for at that moment."""

    def kept(node: PartialNode) -> Node:
        meta, wanted = node.metadata, asked()
        return Node(
            name=meta.name,
            resource_version=meta.resource_version,
            asked=wanted,
            values=tuple(_label(meta, key) for key in wanted),
        )

    return kept


def _label(meta: _NodeMeta, key: str) -> str | None:
    """One copy of each value; most nodes carry their own name as a label."""
    value = meta.labels.get(key)
    return meta.name if value == meta.name else value and _shared(value)


class _SchedulingGate(Base, frozen=True, kw_only=True):
    name: str


class _AffinityTerm(Base, frozen=True, kw_only=True):
    topology_key: str = ""


class _PodAffinity(Base, frozen=True, kw_only=True):
    required: tuple[_AffinityTerm, ...] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=()
    )


class _Affinity(Base, frozen=True, kw_only=True):
    pod_affinity: _PodAffinity = _PodAffinity()


class _PlacedSpec(Base, frozen=True, kw_only=True):
    node_name: str = ""
    node_selector: dict[str, str] = {}
    scheduling_gates: tuple[_SchedulingGate, ...] = ()
    affinity: _Affinity = _Affinity()


class PlacedPod(Base, frozen=True, kw_only=True):
    """A pod of an exclusive Job as it is read to see whether it is where its leader is; never cached."""

    metadata: _Meta
    spec: _PlacedSpec = _PlacedSpec()
    status: _Status = _Status()

    @property
    def gated(self) -> bool:
        """Whether it has our scheduling gate, and so cannot be misplaced."""
        return any(gate.name == keys.PLACEMENT_GATE for gate in self.spec.scheduling_gates)

    @property
    def follows(self) -> bool:
        """Whether it is a follower that is neither ended nor ending."""
        meta = self.metadata
        return _alive(meta, self.status) and meta.topology is not None and meta.annotations.index != "0"

    def finds_leader_by_itself(self, topology: str) -> bool:
        """Whether its own affinity ties it to a domain, as policies without the manager have it."""
        return any(term.topology_key == topology for term in self.spec.affinity.pod_affinity.required)
