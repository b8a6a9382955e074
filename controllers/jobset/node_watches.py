"""Caches nodes, and the pods of JobSets on them, for the fields `nodeFailure` and `maintenance` of `failurePolicy`.

There are two watches of the whole cluster, only with the gates JobSetNodeFailure or JobSetNodeMaintenance. When a node,
or one of its taints, is added or removed, the sets that have pods on the node are reconciled. When a pod is evicted,
its set is reconciled. A domain is all nodes with one value of the topology label of exclusive placement.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from api import keys
from api.jobset import JobSet
from api.names import job_name_predicate
from api.nodes import EVICTION, FAILURE_TAINTS, BoundPod, DetailedNode, Node, bound_pod, node_transform
from api.pod import DetailedPod
from controllers.planning import maintenance
from controllers.planning.observed import PodAtRisk
from kube.client import Client
from kube.controller import Request
from kube.indexes import IndexKey
from kube.informer import Informer
from kube.resources import NODES, PODS
from kube.store import ChangeKind, Store
from kube.workqueue import WorkQueue

BY_NODE = "node"
"""Index of pods of all namespaces by the name of their node, since a failed node affects all of them."""
BY_JOBSET = "set"
"""Index of pods by the UID of their JobSet."""

DELETED_NODE_TAINTS = (("", ""),)
"""Stands for the taints of a node that does not exist: one taint with an empty key."""


class NodeWatches:
    """Watches of nodes with their relevant taints, and of the pods of JobSets that are bound to a node."""

    def __init__(
        self, client: Client, jobsets: Store[JobSet], taints: Iterable[str] = (), *, all_taints: bool = False
    ) -> None:
        """`taints`: keys of taints that count as failures, in addition to those of Kubernetes.

        `all_taints`: also cache all other taints.
        """
        self._client = client
        self._jobsets = jobsets
        self._to_cached = node_transform(frozenset((*FAILURE_TAINTS, *taints)), keep_others=all_taints)
        self.nodes: Informer[Node] = Informer(
            client,
            NODES,
            DetailedNode,  # type: ignore[arg-type]  # the decoded type; the transform makes the cached one
            transform=self._to_cached,
        )
        self.pods: Informer[BoundPod] = Informer(
            client,
            PODS,
            DetailedPod,  # type: ignore[arg-type]
            indexes={BY_JOBSET: lambda pod: [pod.jobset_uid]},
            cluster_indexes={BY_NODE: lambda pod: [pod.node]},
            label_selector=f"{keys.JOBSET_NAME},{keys.JOBSET_UID}",
            transform=bound_pod,
        )
        self._first_seen: dict[str, dict[str, str]] = {}
        """By node and taint, when a taint that has no time was first seen, RFC 3339. "": the node does not exist.

        Remembered: until the node is back, or has no pod of a JobSet. Without it the time of `nodeFailure.afterSeconds`
        begins again.
        """
        self.nodes.on_event(self._forget_removed_taints)
        self.pods.on_event(self._forget_node_without_pods)

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        return self.nodes, self.pods

    def feed(self, queue: WorkQueue[Request]) -> None:
        """Make every future change of a node or pod put the sets that it affects into the queue.

        A change of a node affects the sets that have pods on it. A change of a pod affects its set if the pod is
        evicted, or its node does not exist or has a cached taint.
        """

        def node_changed(_kind: ChangeKind, old: Node | None, new: Node | None) -> None:
            old_taints = ((), ()) if old is None else (old.taints, old.other_taints)
            if new is None or (new.taints, new.other_taints) != old_taints:
                name = new.name if new is not None else old.name if old is not None else ""
                for pod in self.pods.store.by_cluster_index(BY_NODE, name):
                    enqueue_set(pod)

        def pod_changed(_kind: ChangeKind, old: BoundPod | None, new: BoundPod | None) -> None:
            pod = new or old
            if pod is not None and (pod.disruption or self._failure_taints(pod.node) or self._other_taints(pod.node)):
                enqueue_set(pod)

        def enqueue_set(pod: BoundPod) -> None:
            js = self._jobsets.get(pod.namespace, pod.jobset)
            if js is None or js.metadata.uid != pod.jobset_uid:
                return
            if js.failure_policy.node_failure or js.failure_policy.maintenance:
                queue.add(Request(pod.namespace, pod.jobset))

        self.nodes.on_event(node_changed)
        self.pods.on_event(pod_changed)

    def failed_pods(self, js: JobSet, now: str) -> tuple[PodAtRisk, ...]:
        """The pods of a set on failed nodes. If a taint has no time, the time at which it was first seen counts."""
        pods = [] if js.failure_policy.node_failure is None else self._pods(js)
        failures = {name: taints for name in {pod.node for pod in pods} if (taints := self._failure_taints(name))}
        since: dict[str, tuple[str, str]] = {}
        for name, taints in failures.items():
            first_seen = self._first_seen.setdefault(name, {})  # by taint
            since[name] = min((added or first_seen.setdefault(taint, now), taint) for taint, added in taints)
        failed_pods = [pod for pod in pods if pod.node in since]
        # The spec of a leader (a pod with completion index 0) has no domain. Its followers, the other pods, have it.
        jobs_of_leaders = {pod.job_uid for pod in failed_pods if pod.topology and not pod.domain}
        domains = {pod.job_uid: pod.domain for pod in pods if pod.domain and pod.job_uid in jobs_of_leaders}
        return tuple(_pod_at_risk(pod, *since[pod.node], domains.get(pod.job_uid, pod.domain)) for pod in failed_pods)

    def pods_in_maintenance(self, js: JobSet) -> tuple[tuple[PodAtRisk, ...], frozenset[str]]:
        """The pods of a set on nodes with a taint of its maintenance or with evicted pods, and the names of the nodes.

        A pod is evicted by the Eviction API, or by one of these taints with effect NoExecute. The names include nodes
        from the status that have such a taint and no pods of the set any more.
        """
        policy = js.failure_policy.maintenance
        if policy is None:
            return (), frozenset()
        pods, taints = self._pods(js), frozenset(policy.taint_keys)
        names = {pod.node for pod in pods} | {node.name for node in maintenance.left_nodes(js.status)}
        tainted = {name: taint for name in names if (taint := self._last_taint(name, taints)) is not None}
        evicted = {
            pod.uid: pod.node for pod in pods if pod.disruption == EVICTION or (pod.disruption and pod.node in tainted)
        }
        nodes = frozenset((*tainted, *evicted.values()))
        pods_to_move = (
            _pod_at_risk(pod, *tainted.get(pod.node, ("", "")), pod.domain, evicted=pod.uid in evicted)
            for pod in pods
            if pod.node in nodes
        )
        return tuple(pods_to_move), nodes

    def _last_taint(self, node: str, wanted: frozenset[str]) -> tuple[str, str] | None:
        """Time and key of the newest of the `wanted` taints that the node has; None if it has none.

        A taint without a time counts as the newest.
        """
        stored = self.nodes.store.get("", node)
        taints = () if stored is None else (*stored.taints, *stored.other_taints)
        times_and_keys = [(time, taint) for taint, time in taints if taint in wanted]
        return max(times_and_keys, key=lambda entry: (not entry[0], entry), default=None)

    def _other_taints(self, node: str) -> tuple[tuple[str, str], ...]:
        stored = self.nodes.store.get("", node)
        return () if stored is None else stored.other_taints

    def _pods(self, js: JobSet) -> list[BoundPod]:
        """The pods with the labels of a set whose Job has the name of a Job of the set."""
        meta, is_job = js.metadata, job_name_predicate(js)
        pods = self.pods.store.by_index(BY_JOBSET, IndexKey(meta.namespace, meta.uid))
        return [pod for pod in pods if is_job(pod.job)]

    async def read(self, js: JobSet, names: Iterable[str]) -> None:
        """Read these nodes, and the pods of the set on them, from the API server. Raises the errors of the client."""
        await asyncio.gather(*(read for name in names for read in (self._read_node(name), self._read_pods(js, name))))

    async def _read_node(self, name: str) -> None:
        # A list of one name needs the same right as the watch.
        page = await self._client.list(NODES, type=DetailedNode, field_selector=f"metadata.name={name}")
        listed_node, cached_node = next(iter(page.items or ()), None), self.nodes.store.get("", name)
        if listed_node is not None:
            self.nodes.store.overlay(self._to_cached(listed_node))
        elif cached_node is not None:
            self.nodes.store.overlay_deleted("", name, cached_node.uid)

    async def _read_pods(self, js: JobSet, node: str) -> None:
        meta, store = js.metadata, self.pods.store
        page = await self._client.list(
            PODS,
            type=DetailedPod,
            namespace=meta.namespace,
            label_selector=f"{keys.JOBSET_UID}={meta.uid}",
            field_selector=f"spec.nodeName={node}",
        )
        listed_pods = {pod.name: pod for pod in map(bound_pod, page.items or ()) if pod is not None}
        for pod in store.by_index(BY_JOBSET, IndexKey(meta.namespace, meta.uid)):
            if pod.node == node and pod.name not in listed_pods:
                store.overlay_deleted(pod.namespace, pod.name, pod.uid)
        for pod in listed_pods.values():
            store.overlay(pod)

    def _forget_removed_taints(self, _kind: ChangeKind, old: Node | None, new: Node | None) -> None:
        """Forget the times of taints that the node no longer has."""
        name = new.name if new is not None else old.name if old is not None else ""
        first_seen, taints = self._first_seen.pop(name, {}), dict(DELETED_NODE_TAINTS if new is None else new.taints)
        current_taints = {taint: since for taint, since in first_seen.items() if taint in taints}
        if current_taints:
            self._first_seen[name] = current_taints

    def _forget_node_without_pods(self, _kind: ChangeKind, old: BoundPod | None, _new: BoundPod | None) -> None:
        """Forget the taints of a node whose last pod of a JobSet is gone."""
        if old is not None and not self.pods.store.by_cluster_index(BY_NODE, old.node):
            self._first_seen.pop(old.node, None)

    def _failure_taints(self, node: str) -> tuple[tuple[str, str], ...]:
        """The taints by which a node counts as failed; `DELETED_NODE_TAINTS` if the node does not exist."""
        stored, unreadable = self.nodes.store.get("", node), self.nodes.store.unreadable
        if stored is not None:
            return stored.taints
        return () if ("", node) in unreadable else DELETED_NODE_TAINTS


def _pod_at_risk(pod: BoundPod, since: str, taint: str, domain: str, *, evicted: bool = False) -> PodAtRisk:
    """The record of a pod for the plan. `domain`: the value of the topology label of the pod's domain."""
    return PodAtRisk(
        name=pod.name,
        uid=pod.uid,
        job_uid=pod.job_uid,
        node=pod.node,
        taint=taint,
        at_risk_since=since,
        created=pod.created,
        deleting=pod.deleting,
        ended=pod.ended,
        topology=pod.topology,
        domain=domain,
        evicted=evicted,
        is_tracked_by_job=pod.is_tracked_by_job,
    )
