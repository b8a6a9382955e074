"""Where Jobs are: the answer that webhooks give to followers, from the caches, after a short wait at most.

A wait holds up a worker of the Job controller, of which there are five by default. So it is short, only a few Jobs are
waited for at once, and for one leader only once: what is not known by then is left to the scheduling gate.
"""

import asyncio
from dataclasses import dataclass

from api.exclusive import Domain, NoDomain, valid_leader
from api.topology import Leader, Node
from controllers.placement.watches import BY_JOB, PlacementWatches
from kube.store import ChangeKind, Store

AT_ONCE = 2
"""Jobs that one replica waits for at the same time."""

REMEMBERED = 4096
"""Jobs that were waited for in vain; they are not waited for again."""


@dataclass(frozen=True, slots=True)
class Map:
    """Leaders and nodes as they are known."""

    leaders: Store[Leader]
    nodes: Store[Node]

    def leader(self, namespace: str, job_uid: str) -> Leader | None:
        """The valid leader of a Job."""
        found = self.leaders.by_index(BY_JOB, job_uid) if job_uid else []
        return valid_leader(pod for pod in found if pod.namespace == namespace)

    def find(self, namespace: str, job_uid: str, topology: str) -> Domain | NoDomain:
        """The domain of a Job, or why there is none."""
        leader = self.leader(namespace, job_uid)
        if leader is None:
            return NoDomain("its Job has no leader pod (the one with completion index 0)")
        if not leader.node:
            why = f": {leader.reason}" if leader.reason else ""
            return NoDomain(f"its leader pod {leader.name} is not scheduled{why}", leader.name)
        where = f"its leader pod {leader.name} runs on node {leader.node}"
        node = self.nodes.get("", leader.node)
        if node is None:
            return NoDomain(f"{where}, which does not exist", leader.name)
        if self.reading_labels(leader):
            return NoDomain(f"{where}, whose labels are being read", leader.name)
        value = node.label(topology)
        if value is None:
            return NoDomain(f"{where}, which has no label {topology}", leader.name)
        return Domain(value, leader.name, leader.node)

    def reading_labels(self, leader: Leader) -> bool:
        """Whether the node of a leader is known, and the label that the leader is placed by is not yet."""
        node = self.nodes.get("", leader.node)
        return node is not None and leader.topology not in node.asked

    def label(self, topology: str, node: str) -> str | None:
        """The topology label of a node; None if it has none or there is no such node."""
        found = self.nodes.get("", node)
        return None if found is None else found.label(topology)


class Domains:
    """`Map` for webhooks, with patience in seconds."""

    def __init__(self, watches: PlacementWatches, patience: float) -> None:
        self._map = Map(watches.leaders.store, watches.nodes.store)
        self._patience = patience
        self._waiting: dict[str, asyncio.Event] = {}
        self._given_up: dict[str, None] = {}
        watches.leaders.on_event(self._leader_changed)
        watches.nodes.on_event(self._node_changed)

    def find(self, namespace: str, job_uid: str, topology: str) -> Domain | NoDomain:
        """What is known now."""
        return self._map.find(namespace, job_uid, topology)

    async def settle(self, namespace: str, job_uid: str, topology: str) -> Domain | NoDomain:
        """What is known now or, if there is room to wait, soon."""
        answer = self.find(namespace, job_uid, topology)
        if isinstance(answer, Domain) or not job_uid or job_uid in self._given_up or self._patience <= 0:
            return answer
        if job_uid not in self._waiting and len(self._waiting) >= AT_ONCE:
            return answer
        changed = self._waiting.setdefault(job_uid, asyncio.Event())
        try:
            async with asyncio.timeout(self._patience):
                while isinstance(answer := self.find(namespace, job_uid, topology), NoDomain):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            self._give_up(job_uid)
        finally:
            if self._waiting.get(job_uid) is changed:
                del self._waiting[job_uid]
                changed.set()
        return answer

    def _give_up(self, job_uid: str) -> None:
        self._given_up[job_uid] = None
        if len(self._given_up) > REMEMBERED:
            del self._given_up[next(iter(self._given_up))]

    def _leader_changed(self, _kind: ChangeKind, _old: Leader | None, new: Leader | None) -> None:
        changed = None if new is None else self._waiting.get(new.job_uid)
        if changed is not None:
            changed.set()

    def _node_changed(self, _kind: ChangeKind, _old: Node | None, _new: Node | None) -> None:
        for changed in self._waiting.values():
            changed.set()
