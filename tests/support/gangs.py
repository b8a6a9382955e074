"""What tests of gangs do on a real cluster: JobSets with `spec.scheduling`, their groups, and where their pods are.

Nodes: zone-0 and zone-1, each with two superslices of two cubes of two nodes; every node has four TPUs, which is what a
pod of these tests asks for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from devcluster.cluster import Cluster
from devcluster.spec import ClusterSpec, FakeNodes
from tests.support.cluster import DELETE_OPTIONS, drop_namespace, new_namespace, request, wait_for
from tests.support.jobs import Sets, group, manifest

JSON = dict[str, Any]
T = TypeVar("T")

TPU = "example.com/tpu"
SUPERSLICE, CUBE, ZONE = "superslice", "cube", "zone"
GATES = {"JobSetWorkloadAwareSchedulingAPI": True, "JobSetGangOfGangs": True, "RestartJob": True, "ElasticJobSet": True}
SPEC = ClusterSpec(
    name="yard",
    nodes=FakeNodes(count=16, label_every={ZONE: 8, SUPERSLICE: 4, CUBE: 2}, capacity={TPU: "4"}),
)
SCHEDULING = "/apis/scheduling.k8s.io"
PATIENCE = 60


def slices(name: str = "slice", *, jobs: int = 2, pods: int = 2, tpus: int = 4, **more: Any) -> JSON:
    """A ReplicatedJob whose pods take a node each."""
    resources = {"limits": {TPU: str(tpus)}, "requests": {TPU: str(tpus)}} if tpus else {}
    container = {"name": "main", "image": "busybox", "resources": resources}
    pod = {"restartPolicy": "Never", "containers": [container], **more.pop("pod", {})}
    return group(name, replicas=jobs, pods_per_job=pods, pod=pod, **more)


def topology(key: str) -> JSON:
    return {"topology": [{"key": key}]}


class Yard(Sets):
    """A namespace with the JobSets of one test."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, new_namespace(cluster))

    def close(self) -> None:
        """Delete everything, and wait until no pod takes up a node."""
        paths = [self._path, self._url("jobs", "/apis/batch/v1"), self._url("pods", "/api/v1")]
        for path in paths:
            request(self.cluster, "DELETE", path, {**DELETE_OPTIONS, "propagationPolicy": "Background"})

        def empty() -> bool:
            return not any(request(self.cluster, "GET", path)[1]["items"] for path in paths)

        wait_for(empty, what=f"nothing left in {self.namespace}", timeout=PATIENCE)
        drop_namespace(self.cluster, self.namespace)

    def gang(self, *rjobs: JSON, name: str = "js", scheduling: JSON, **spec: Any) -> None:
        """Apply a JobSet with groups."""
        self.apply(manifest(*rjobs, name=name, scheduling=scheduling, **spec))

    def groups(self, plural: str) -> list[JSON]:
        """Workloads, podgroups or compositepodgroups that are not in deletion, by name."""
        version = "v1alpha3" if plural == "compositepodgroups" else "v1beta1"
        items: list[JSON] = request(self.cluster, "GET", self._url(plural, f"{SCHEDULING}/{version}"))[1]["items"]
        return sorted(
            (of for of in items if "deletionTimestamp" not in of["metadata"]), key=lambda of: of["metadata"]["name"]
        )

    def bound(self, name: str = "js") -> list[JSON]:
        """Living pods that have a node."""
        return [pod for pod in self.pods("", name) if pod["spec"].get("nodeName")]

    def labels(self) -> dict[str, JSON]:
        """The labels of every node."""
        nodes: list[JSON] = request(self.cluster, "GET", "/api/v1/nodes")[1]["items"]
        return {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}

    def domains(self, key: str, name: str = "js") -> dict[str, set[str]]:
        """For each Job, the values of a node label where its pods are."""
        of_node = self.labels()
        out: dict[str, set[str]] = {}
        for pod in self.bound(name):
            job = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
            out.setdefault(job, set()).add(of_node[pod["spec"]["nodeName"]][key])
        return out

    def until(self, probe: Callable[[], T], what: str, timeout: float = PATIENCE) -> T:
        """Wait, and tell what there is when it was in vain."""
        try:
            return wait_for(probe, what=what, timeout=timeout)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.seen()}") from None

    def seen(self) -> str:
        """Conditions, groups and pods, for a person."""
        lines = [json.dumps(self.status().get("conditions"))]
        for plural in ("workloads", "compositepodgroups", "podgroups"):
            lines += [f"{plural}: {of['metadata']['name']} {json.dumps(of['spec'])}" for of in self.groups(plural)]
        for pod in self.pods():
            told = [c for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled"]
            lines.append(f"pod {pod['metadata']['name']} on {pod['spec'].get('nodeName')}: {json.dumps(told)}")
        return "\n".join(lines)

    def _url(self, plural: str, group_version: str) -> str:
        return f"{group_version}/namespaces/{self.namespace}/{plural}"
