"""The watches of exclusive placement: leader pods, waiting followers, and the nodes' topology labels.

The watches cost memory, since each pod of a set of small Jobs is a leader. So they begin with the first Job that has
exclusive placement, or with the first review of such a JobSet or pod. Of pods, only leaders and gated followers are
kept; of nodes, only the labels by which leaders are placed. Each takes some hundred bytes. Followers and nodes are
requested as metadata only.
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
"""At most this many other keys are kept at a time, since each costs a list. They have to be on nodes, and in use by
bound leaders. Each namespace has a share of them; see `PlacementWatches.keep_label`."""

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

        Remembered: `COMMON_KEYS`, and at most 16 others. A new key replaces a key that no bound leader uses, or a key
        whose namespaces use more keys. Without the memory the nodes are listed again.
        """
        self._new_key = asyncio.Event()
        self._begin_event = asyncio.Event()
        self._users: dict[str, Counter[str]] = {}
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
            await self._new_key.wait()
            self._new_key.clear()
            self.nodes.relist()
            await asyncio.sleep(RELIST_PAUSE)

    def keep_label(self, leader: Leader) -> bool:
        """Keep the node label by which a bound leader is placed, if its node has the label.

        If there are `MAX_KEYS` already, it replaces a key that no leader uses any more, or a key of a namespace that
        has more keys, so that each namespace gets its share. Returns whether the key is kept.
        """
        node = self.nodes.store.get("", leader.node)
        return leader.topology in self._label_keys or (
            node is not None and leader.topology in node.all_keys and self._add_key(leader.topology)
        )

    def _add_key(self, topology: str) -> bool:
        """Keep one more label key if there is room, or if it can replace another key. Returns whether it is kept."""
        used_keys = [*self._label_keys[len(COMMON_KEYS) :]]
        if len(used_keys) >= MAX_KEYS:
            shares = Counter(namespace for key in used_keys for namespace in self._users.get(key, ()))

            def share(key: str) -> float:
                """Of the namespaces that use the key, the smallest number of keys that one of them uses."""
                return min((shares[namespace] for namespace in self._users.get(key, ())), default=inf)

            largest = max(used_keys, key=share)
            # With a difference of one, the two would replace each other's key forever.
            if share(largest) <= share(topology) + 1:
                return False
            used_keys.remove(largest)
        self._label_keys = (*COMMON_KEYS, *used_keys, topology)
        self._new_key.set()
        return True

    def _leader_changed(self, _kind: ChangeKind, old: Leader | None, new: Leader | None) -> None:
        if old is not None and old.holds_domain:
            users = self._users[old.topology]
            users[old.namespace] -= 1
            if not users[old.namespace]:
                del users[old.namespace]
            if not users:
                del self._users[old.topology]
        if new is not None and new.holds_domain:
            self._users.setdefault(new.topology, Counter())[new.namespace] += 1
            self.keep_label(new)

    def _node_changed(self, _kind: ChangeKind, old: Node | None, new: Node | None) -> None:
        """Keep the topology labels of leaders whose node appears, or gets the label, after they were bound to it."""
        if new is not None and (old is None or old.all_keys is not new.all_keys):
            for key in new.all_keys:
                if key in self._users and key not in self._label_keys:
                    self._add_key(key)


def _job(pod: Leader | Follower) -> list[str]:
    return [pod.job_uid] if pod.job_uid else []
