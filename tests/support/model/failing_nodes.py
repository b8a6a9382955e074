"""Nodes of the model cluster that fail and come back: one for each name of a Job, on which its pods run.

The API server ends the pods on a node that is out of service; nobody ends those on another one that has failed. What is
true of nodes here, the caches of the controller may not know yet.
"""

from typing import Any

import msgspec

from api.jobset import JobSet
from api.nodes import EVICTION, FAILURE_TAINTS, DetailedNode, Node, node_transform
from api.pod import DetailedPod
from controllers.planning.node_failure import OUT_OF_SERVICE
from dev.simulator.api_server import ApiServer

NS = "ns"
DRAIN = "drain"
"""The taint by which model sets leave a node."""
node_record = node_transform(frozenset(FAILURE_TAINTS), keep_others=True)


def node_of(content: dict[str, Any]) -> Node:
    """What caches hold of a node."""
    return node_record(msgspec.convert(content, DetailedNode))


class FailingNodes(ApiServer):
    """The part of the model server that knows its nodes. `failed_nodes`: since when, in seconds of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0
        self.tables: dict[str, Any] = {}
        self.failed_nodes: dict[str, int] = {}
        self.no_room: set[str] = set()
        self.drained: dict[str, dict[str, str]] = {}
        self.drains: set[str] = set()

    @property
    def jobset(self) -> JobSet | None:
        raise NotImplementedError

    def add_node(self, name: str, *taints: dict[str, str]) -> None:
        meta = {"name": name, "namespace": NS, "uid": name}
        drained = [self.drained[name]] if name in self.drained else []
        self.put("nodes", {"metadata": meta, "spec": {"taints": [*taints, *drained]}})

    def drain_node(self, name: str, *, timed: bool) -> None:
        """It has the taint from now on. Its pods tolerate that: those that are created later come to it again."""
        self.drained[name] = {"key": DRAIN} | ({"timeAdded": self.timestamp()} if timed else {})
        self.drains.add(name)
        self.add_node(name)

    def end_drain(self, name: str) -> None:
        del self.drained[name]
        if name not in self.failed_nodes:
            self.add_node(name)

    def evictable(self) -> list[str]:
        """Names of pods that somebody may evict: with a node that works, and neither ended nor being deleted."""
        return sorted(
            name
            for name, pod in self.tables["pods"].live.items()
            if pod.content["status"]["phase"] == "Running"
            and "deletionTimestamp" not in pod.meta
            and pod.content["spec"]["nodeName"] not in self.failed_nodes
        )

    def evict(self, name: str) -> None:
        """Its deletion is asked for, and it says why."""
        pod = self.tables["pods"].live[name]
        target = {"type": "DisruptionTarget", "status": "True", "reason": EVICTION}
        status = {**pod.content["status"], "conditions": [target]}
        self.mark_deleted("pods", self.put("pods", {**pod.content, "status": status}), pod.meta["finalizers"])

    def fail_node(self, name: str, taint: str) -> None:
        """It has this taint from now on; without one it is gone. Who says that it is off does not say since when."""
        self.failed_nodes[name] = self.seconds
        if not taint:
            self.storage.drop("nodes", (NS, name))
        else:
            time = {} if taint == OUT_OF_SERVICE else {"timeAdded": self.timestamp()}
            self.add_node(name, {"key": taint, **time})

    def node_returns(self, name: str) -> None:
        """It works again, and ends its pods that were deleted. One that was gone and is still drained counts again."""
        self.ledger.drains += name in self.drained and name not in self.tables["nodes"].live
        del self.failed_nodes[name]
        self.add_node(name)
        self.end_deleted_pods()

    def end_deleted_pods(self) -> None:
        """The kubelets of all nodes that work end the pods that were deleted."""
        for stored in list(self.tables["pods"].live.values()):
            if "deletionTimestamp" in stored.meta and stored.content["spec"]["nodeName"] not in self.failed_nodes:
                self.storage.drop("pods", stored.key)

    def off(self, node: str) -> bool:
        """Whether somebody says that the node is off."""
        return any(taint["key"] == OUT_OF_SERVICE for taint in self._taints(node))

    def _taints(self, node: str) -> list[dict[str, str]]:
        stored = self.tables["nodes"].live.get(node)
        return [] if stored is None else stored.content["spec"]["taints"]

    def nodes(self, name: str) -> list[DetailedNode]:
        """The node of that name, if there is one, as a list gives it."""
        stored = self.tables["nodes"].live.get(name)
        return [] if stored is None else [msgspec.convert(stored.content, DetailedNode)]

    def pods_on(self, node: str) -> list[DetailedPod]:
        """The pods on a node, as a list gives them."""
        pods = (stored.content for stored in self.tables["pods"].live.values())
        return [msgspec.convert(pod, DetailedPod) for pod in pods if pod["spec"]["nodeName"] == node]

    def lose_room(self, name: str) -> None:
        """The pod of a Job that may run is another one from now on, for which no node has room."""
        self.no_room.add(self.jobs[name].uid)
        self.pend(name)

    def without_room(self) -> set[str]:
        """UIDs of Jobs with a pod that has no node."""
        pods = (stored for stored in self.tables["pods"].live.values() if not stored.content["spec"]["nodeName"])
        return {pod.meta["ownerReferences"][0]["uid"] for pod in pods}

    def make_room(self) -> None:
        """There are nodes for all pods."""
        for uid in self.no_room:
            self.end_pods(uid)
        self.no_room = set()

    def lost_jobs(self) -> set[str]:
        """UIDs of Jobs that may count as failed now because of their pod's node."""
        pods = self.tables["pods"].live.values()
        return {stored.meta["ownerReferences"][0]["uid"] for stored in pods if self._lost(stored)}

    def check_pod_deletion(self, stored: Any) -> None:
        """Only of a pod that is being deleted or replaced, on a node that has failed, and only as the set asks for."""
        name, node, js = stored.key[1], stored.content["spec"]["nodeName"], self.jobset
        replaced = js is not None and js.restarts_in_place
        if self._leaves(stored):
            return
        assert replaced or "deletionTimestamp" in stored.meta, f"{name} is deleted, which nobody had asked for"
        assert self._lost(stored), f"{name} is deleted without its node, which works"
        wanted = None if js is None else js.failure_policy.node_failure
        forced = (wanted is not None and wanted.force_delete_pods) or (replaced and self.off(node))
        assert forced or node not in self.tables["nodes"].live, f"{name} is deleted without its node"

    def check_pod_release(self, old: Any) -> None:
        """Only a pod that its Job replaces is released from it, and only once it is being deleted."""
        js, name = self.jobset, old.key[1]
        assert js is not None and js.restarts_in_place, f"{name} is released, and nothing restarts in place"  # noqa: PT018 -- one thing
        assert "deletionTimestamp" in old.meta, f"{name} is released, and may run on"
        if self._leaves(old):
            return
        assert self._lost(old), f"{name} is released, and its node works"

    def _leaves(self, pod: Any) -> bool:
        """Whether a set in place may replace the pod because its node is, or was, drained, or it is evicted."""
        js, reasons = self.jobset, [each["reason"] for each in pod.content["status"].get("conditions", ())]
        leaves = pod.content["spec"]["nodeName"] in self.drains or EVICTION in reasons
        return leaves and js is not None and js.restarts_in_place and bool(js.failure_policy.maintenance)

    def _lost(self, stored: Any) -> bool:
        """Whether the node of a pod has failed for as long as the set wants."""
        wanted = None if self.jobset is None else self.jobset.failure_policy.node_failure
        since = self.failed_nodes.get(stored.content["spec"]["nodeName"])
        return wanted is not None and since is not None and self.seconds - since >= wanted.after_seconds
