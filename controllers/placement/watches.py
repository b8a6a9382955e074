"""Watches what exclusive placement needs: leader pods, waiting followers, and the topology labels of nodes.

In exclusive placement, all pods of a Job run in one topology domain: the nodes with one value of a node label, whose
key is the topology. The node of the leader (the pod with completion index 0) decides the domain. A bound leader is a
leader that has a node. Other pods are followers, and wait with a scheduling gate until the leader is bound.

The watches cost memory, since in a set of Jobs with one pod each pod is a leader. So the watches begin with the first
Job that has exclusive placement, or with the first admission review of such a JobSet or pod. The caches have only
leaders, waiting followers and, of nodes, the labels by which leaders are placed. Each object takes some hundred bytes.
Followers and nodes are requested as metadata only.
"""

import asyncio
from collections import Counter
from math import inf

from api import keys
from api.batch import Job
from api.pod import DetailedPod, PodMetadata
from api.topology import Follower, Leader, Node, NodeMetadata, follower, leader, node_keeping
from kube.client import Client
from kube.informer import Informer, InformerGroup
from kube.resources import NODES, PODS
from kube.store import ChangeKind

BY_JOB = "job"
"""Index of pods by the UID of the Job that controls them."""

COMMON_KEYS = (
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
)
"""Keys of node labels that are always kept. For other keys, nodes are listed again when the first leader uses them."""

MAX_KEYS = 16
"""At most this many keys besides `COMMON_KEYS` are kept at a time, since all nodes are listed again for a new key.

A key is kept if a bound leader uses it and its node has the label. Each namespace has a share of these keys; see
`PlacementWatches.keep_label`.
"""

RELIST_PAUSE = 5.0
"""Seconds between two lists of the nodes for new keys."""


class PlacementWatches(InformerGroup):
    """The watches of exclusive placement, which every replica runs.

    The webhooks of all replicas read the caches, and a replica that gets the lease has them already. `begin` starts the
    watches, and they do not end.
    """

    def __init__(self, client: Client) -> None:
        self._label_keys: tuple[str, ...] = COMMON_KEYS
        """Keys of node labels that are kept.

        Remembered: `COMMON_KEYS`, and at most 16 other keys. A new key replaces a key that no bound leader uses, or a
        key whose namespaces use more keys. Without the memory the nodes are listed again.
        """
        self._key_was_added = asyncio.Event()
        self._begin_event = asyncio.Event()
        self._leader_counts: dict[str, Counter[str]] = {}
        """For each topology key, the number of bound leaders that are placed by this key, by namespace."""
        self.leaders: Informer[Leader] = Informer(
            client,
            PODS,
            DetailedPod,  # type: ignore[arg-type]  # what is decoded; the transform gives what is kept
            indexes={BY_JOB: _job},
            label_selector=f"{keys.JOBSET_NAME},{keys.COMPLETION_INDEX}=0",
            transform=leader,
        )
        self.followers: Informer[Follower] = Informer(
            client,
            PODS,
            PodMetadata,  # type: ignore[arg-type]
            indexes={BY_JOB: _job},
            label_selector=f"{keys.JOBSET_NAME},{keys.AWAITS_LEADER}",
            transform=follower,
            metadata_only=True,
        )
        self.nodes: Informer[Node] = Informer(
            client,
            NODES,
            NodeMetadata,  # type: ignore[arg-type]
            transform=node_keeping(lambda: self._label_keys),
            metadata_only=True,
        )
        self.leaders.on_event(self._leader_changed)
        self.nodes.on_event(self._node_changed)
        self.informers = self.leaders, self.followers, self.nodes
        self.companions = (self._relist,)

    @property
    def has_begun(self) -> bool:
        """Whether the watches have begun."""
        return self._begin_event.is_set()

    def begin(self) -> None:
        """Start the watches, since a Job has exclusive placement, or soon will have."""
        self._begin_event.set()

    def begin_with(self, jobs: Informer[Job]) -> None:
        """Begin when the first of these Jobs has exclusive placement."""

        def handle(_kind: ChangeKind, _old: Job | None, new: Job | None) -> None:
            if new is not None and new.topology is not None:
                self.begin()

        jobs.on_event(handle)

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._begin_event.wait()
        await super().run()

    async def wait_synced(self, timeout: float) -> None:
        """Wait until every first list is complete, if the watches have begun."""
        if self.has_begun:
            await super().wait_synced(timeout)

    @property
    def unsynced_reasons(self) -> list[str]:
        """Why watches are not synced: their first list is not complete. Empty while no Job needs the watches."""
        return super().unsynced_reasons if self.has_begun else []

    async def _relist(self) -> None:
        """List the nodes again when keys are added, with pauses in which a list can be completed."""
        while True:
            await self._key_was_added.wait()
            self._key_was_added.clear()
            self.nodes.relist()
            await asyncio.sleep(RELIST_PAUSE)

    def keep_label(self, leader: Leader) -> bool:
        """Keep the node label by which a bound leader is placed, if its node has the label. Returns whether it is kept.

        If `MAX_KEYS` other keys are kept already, the new key replaces a key that no bound leader uses any more, or a
        key of a namespace that has more keys. So each namespace gets its share.
        """
        node = self.nodes.store.get("", leader.node)
        return leader.topology in self._label_keys or (
            node is not None and leader.topology in node.all_keys and self._add_key(leader.topology)
        )

    def _add_key(self, topology: str) -> bool:
        """Keep one more label key if there is room, or if it can replace another key. Returns whether it is kept."""
        other_keys = [*self._label_keys[len(COMMON_KEYS) :]]
        if len(other_keys) >= MAX_KEYS:
            key_counts = Counter(namespace for key in other_keys for namespace in self._leader_counts.get(key, ()))

            def fewest_keys(key: str) -> float:
                """The number of keys of the namespace that uses fewest, among the namespaces that use this key."""
                return min((key_counts[namespace] for namespace in self._leader_counts.get(key, ())), default=inf)

            replaceable_key = max(other_keys, key=fewest_keys)
            # With a difference of one, the two keys would replace each other forever.
            if fewest_keys(replaceable_key) <= fewest_keys(topology) + 1:
                return False
            other_keys.remove(replaceable_key)
        self._label_keys = (*COMMON_KEYS, *other_keys, topology)
        self._key_was_added.set()
        return True

    def _leader_changed(self, _kind: ChangeKind, old: Leader | None, new: Leader | None) -> None:
        """Count bound leaders by topology key and namespace, and keep the label of a new bound leader's topology."""
        if old is not None and old.holds_domain:
            counts = self._leader_counts[old.topology]
            counts[old.namespace] -= 1
            if not counts[old.namespace]:
                del counts[old.namespace]
            if not counts:
                del self._leader_counts[old.topology]
        if new is not None and new.holds_domain:
            self._leader_counts.setdefault(new.topology, Counter())[new.namespace] += 1
            self.keep_label(new)

    def _node_changed(self, _kind: ChangeKind, old: Node | None, new: Node | None) -> None:
        """Keep the topology labels of leaders whose node appears, or gets the label, after they were bound to it."""
        if new is not None and (old is None or old.all_keys is not new.all_keys):
            for key in new.all_keys:
                if key in self._leader_counts and key not in self._label_keys:
                    self._add_key(key)


def _job(pod: Leader | Follower) -> list[str]:
    """The value of a pod in the index `BY_JOB`."""
    return [pod.job_uid] if pod.job_uid else []
