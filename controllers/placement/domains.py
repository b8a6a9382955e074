"""Finds the topology domain of a Job for the webhook that admits its pods.

In exclusive placement, all pods of a Job run in one domain: the nodes with one value of a node label, such as a rack.
The node of the leader (the pod with completion index 0) decides the domain, and all other pods are followers. The
webhook sends a follower to the domain of its leader. If the leader has no node yet, the webhook waits a short time, and
then gives the follower a scheduling gate. A wait delays a worker of the Job controller, which has five workers by
default. So there are waits for few Jobs at a time, and only once for each Job.
"""

import asyncio
from dataclasses import dataclass, field

from api.exclusive import Domain, NoDomain, former_leader, valid_leader
from api.topology import Leader, Node
from controllers.placement.watches import BY_JOB, PlacementWatches
from kube.indexes import IndexKey
from kube.store import ChangeKind, Store

MAX_WAITING_JOBS = 2
"""One replica waits for the domains of at most this many Jobs at the same time."""

REMEMBERED = 4096
"""At most this many Jobs whose wait timed out are remembered, so that no review waits for them again."""


@dataclass(frozen=True, slots=True)
class DomainMap:
    """Finds domains in the caches of leaders and nodes."""

    leaders: Store[Leader]
    nodes: Store[Node]

    def leader(self, namespace: str, job_uid: str) -> Leader | None:
        """The leader of a Job that has not ended; if there is none, the leader that has succeeded."""
        leaders = self.leaders.by_index(BY_JOB, IndexKey(namespace, job_uid)) if job_uid else []
        return valid_leader(leaders) or former_leader(leaders)

    def find(self, namespace: str, job_uid: str, topology: str) -> Domain | NoDomain:
        """The domain of a Job, or why the Job has none."""
        leader = self.leader(namespace, job_uid)
        if leader is None:
            return NoDomain("its Job has no leader pod (the one with completion index 0)")
        if not leader.node:
            reason = f": {leader.reason}" if leader.reason else ""
            return NoDomain(f"its leader pod {leader.name} is not scheduled{reason}", leader.name)
        clause = f"its leader pod {leader.name} runs on node {leader.node}"
        node = self.nodes.get("", leader.node)
        if node is None:
            return NoDomain(f"{clause}, which does not exist", leader.name, leader.node)
        if self.reads_labels(leader):
            return NoDomain(f"{clause}, whose labels are being read", leader.name, leader.node)
        value = node.label(topology)
        if value is None:
            return NoDomain(f"{clause}, which has no label {topology}", leader.name, leader.node)
        return Domain(value, leader.name, leader.node)

    def reads_labels(self, leader: Leader) -> bool:
        """Whether the node of a leader has its topology label, but the value of the label is not in the cache yet."""
        node = self.nodes.get("", leader.node)
        return node is not None and leader.topology in node.all_keys and leader.topology not in node.kept_keys

    def label(self, topology: str, node: str) -> str | None:
        """The value of the topology label of a node; None if the node has no such label or does not exist."""
        stored_node = self.nodes.get("", node)
        return None if stored_node is None else stored_node.label(topology)


@dataclass(slots=True)
class _Wait:
    """A wait for the domain of one Job, which the admission reviews of its followers share.

    `deadline`: the event loop's time at which the wait ends. `waiting_reviews`: how many reviews share the wait.
    """

    deadline: float
    waiting_reviews: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Let all waiting reviews look for the domain again, since a cached object has changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self) -> None:
        """Wait for the next `wake`."""
        await self._changed.wait()


class Domains:
    """Finds domains for webhooks. `longest_wait`: in seconds. `remembered`: as `REMEMBERED`."""

    def __init__(self, watches: PlacementWatches, longest_wait: float, *, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._map = DomainMap(watches.leaders.store, watches.nodes.store)
        self._longest_wait = longest_wait
        self._waiting: dict[IndexKey, _Wait] = {}
        self._timed_out_jobs: dict[IndexKey, None] = {}
        """Jobs whose domain was not known at the end of a wait, by namespace and UID.

        Remembered: until 4,096 later Jobs. Without it a follower waits a quarter of a second more.
        """
        watches.leaders.on_event(self._leader_changed)
        watches.nodes.on_event(self._node_changed)

    def find(self, namespace: str, job_uid: str, topology: str) -> Domain | NoDomain:
        """The domain of a Job, or why it is not known now."""
        return self._map.find(namespace, job_uid, topology)

    async def wait_for_domain(self, namespace: str, job_uid: str, topology: str) -> Domain | NoDomain:
        """The domain of a Job, after a wait if it is not known yet. There is no wait if too many Jobs wait already."""
        answer, job = self.find(namespace, job_uid, topology), IndexKey(namespace, job_uid)
        if isinstance(answer, Domain) or not job_uid or job in self._timed_out_jobs or self._longest_wait <= 0:
            return answer
        wait = self._waiting.get(job)
        if wait is None:
            if len(self._waiting) >= MAX_WAITING_JOBS:
                return answer
            wait = self._waiting[job] = _Wait(asyncio.get_running_loop().time() + self._longest_wait)
        wait.waiting_reviews += 1
        try:
            async with asyncio.timeout_at(wait.deadline):
                while isinstance(answer := self.find(namespace, job_uid, topology), NoDomain):
                    await wait.wait()
        except TimeoutError:
            answer = self.find(namespace, job_uid, topology)
            if isinstance(answer, NoDomain):
                self._remember_timeout(job)
        finally:
            wait.waiting_reviews -= 1
            if not wait.waiting_reviews:
                del self._waiting[job]
        return answer

    def _remember_timeout(self, job: IndexKey) -> None:
        self._timed_out_jobs[job] = None
        if len(self._timed_out_jobs) > self._remembered:
            del self._timed_out_jobs[next(iter(self._timed_out_jobs))]

    def _leader_changed(self, _kind: ChangeKind, _old: Leader | None, new: Leader | None) -> None:
        wait = None if new is None else self._waiting.get(IndexKey(new.namespace, new.job_uid))
        if wait is not None:
            wait.wake()

    def _node_changed(self, _kind: ChangeKind, _old: Node | None, _new: Node | None) -> None:
        for wait in self._waiting.values():
            wait.wake()
