"""What tests of gangs do on a real cluster: JobSets with `spec.scheduling`, their groups, and where their pods are.

Nodes: zone-0 and zone-1, each with two superslices of two cubes of two nodes; every node has four TPUs, which is what a
pod of these tests asks for.
"""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from dev.cluster.cluster import Cluster
from dev.cluster.spec import ClusterSpec, FakeNodes
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import DELETE_OPTIONS, MERGE, create_class, listed, new_namespace, request, wait_for

JSON = dict[str, Any]
T = TypeVar("T")

TPU = "example.com/tpu"
SUPERSLICE, CUBE, ZONE = "superslice", "cube", "zone"
GATES = {"JobSetWorkloadAwareSchedulingAPI": True, "JobSetGangOfGangs": True, "RestartJob": True, "ElasticJobSet": True}
SPEC = ClusterSpec(
    name="gangs",
    nodes=FakeNodes(count=16, label_every={ZONE: 8, SUPERSLICE: 4, CUBE: 2}, capacity={TPU: "4"}),
)
SCHEDULING = "/apis/scheduling.k8s.io"
WAIT_TIMEOUT = 60
GRACE = "kwok.jobset.dev/grace-seconds"
PRIORITIES = {"low": 100, "high": 1000}


def slices(name: str = "slice", *, jobs: int = 2, pods: int = 2, tpus: int = 4, **more: Any) -> JSON:
    """A ReplicatedJob whose pods take a node each."""
    resources = {"limits": {TPU: str(tpus)}, "requests": {TPU: str(tpus)}} if tpus else {}
    container = {"name": "main", "image": "busybox", "resources": resources}
    pod = {"restartPolicy": "Never", "containers": [container], **more.pop("pod", {})}
    return group(name, replicas=jobs, pods_per_job=pods, pod=pod, **more)


def topology(key: str) -> JSON:
    return {"topology": [{"key": key}]}


GANG = {"schedulingPolicy": {"gang": {}}}
"""All pods of the set, or of the entry, are one gang."""

CUBES_IN_A_SUPERSLICE = {
    "schedulingPolicy": {"gang": {}},
    "schedulingConstraints": topology(SUPERSLICE),
    "disruptionMode": {"all": {}},
    "replicatedJobs": [{"targetReplicatedJobs": ["slice"], "job": {"schedulingConstraints": topology(CUBE)}}],
}
"""A gang of the Jobs of `slices()`, all in one superslice, each Job in a cube."""


class GangNamespace(Sets):
    """A namespace with the JobSets of one test."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, new_namespace(cluster))
        self._cordoned: set[str] = set()

    def close(self) -> None:
        self.uncordon()
        super().close()

    def gang(self, *rjobs: JSON, name: str = "js", scheduling: JSON, **spec: Any) -> None:
        """Apply a JobSet with groups."""
        self.apply(manifest(*rjobs, name=name, scheduling=scheduling, **spec))

    def delete(self, name: str = "js") -> tuple[int, Any]:
        """Delete a set and its Jobs: on a new cluster the garbage collector knows of JobSets only after 30 s."""
        answer = request(self.cluster, "DELETE", f"{self._path}/{name}", {"propagationPolicy": "Background"})
        jobs = f"{self.url('jobs', '/apis/batch/v1')}?labelSelector=jobset.sigs.k8s.io/jobset-name%3D{name}"
        request(self.cluster, "DELETE", jobs, {"propagationPolicy": "Background"})
        return answer

    def pods(self, selector: str = "", name: str = "js") -> list[JSON]:
        """The set's living pods, by name."""
        chosen = ",".join(filter(None, [f"jobset.sigs.k8s.io/jobset-name={name}", selector]))
        path = f"{self.url('pods', '/api/v1')}?labelSelector={quote(chosen)}"
        found: list[JSON] = request(self.cluster, "GET", path)[1]["items"]
        living = (pod for pod in found if pod["status"].get("phase", "Pending") in {"Pending", "Running"})
        return sorted(living, key=lambda pod: str(pod["metadata"]["name"]))

    def of_job(self, job: str) -> list[JSON]:
        """The living pods of one Job that are to stay."""
        found = self.pods(f"batch.kubernetes.io/job-name={job}")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def groups(self, plural: str) -> list[JSON]:
        """Workloads, podgroups or compositepodgroups that are not in deletion, by name."""
        stay = (of for of in self._groups(plural) if "deletionTimestamp" not in of["metadata"])
        return sorted(stay, key=lambda of: str(of["metadata"]["name"]))

    def roots(self) -> list[JSON]:
        """The composite groups above which there is none."""
        found = self.groups("compositepodgroups")
        return [of for of in found if not of["spec"].get("parentCompositePodGroupName")]

    def _groups(self, plural: str) -> list[JSON]:
        version = "v1alpha3" if plural == "compositepodgroups" else "v1beta1"
        return listed(self.cluster, self.url(plural, f"{SCHEDULING}/{version}"))

    def stored(self, plural: str) -> dict[str, str]:
        """UIDs by name of workloads, podgroups or compositepodgroups, those in deletion too."""
        return {of["metadata"]["name"]: of["metadata"]["uid"] for of in self._groups(plural)}

    def all_stored(self) -> dict[str, str]:
        """UIDs of the objects of all three kinds."""
        return self.stored("workloads") | self.stored("compositepodgroups") | self.stored("podgroups")

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

    def nodes(self, **labels: str) -> list[str]:
        """Nodes with these labels."""
        return sorted(name for name, found in self.labels().items() if labels.items() <= found.items())

    def at(self, name: str = "js") -> set[str]:
        """The nodes of a set's pods."""
        return {pod["spec"]["nodeName"] for pod in self.bound(name)}

    def where(self, key: str, name: str = "js") -> str:
        """The one value of a node label where all pods of a set are."""
        [found] = set.union(*self.domains(key, name).values())
        return str(found)

    def wait_bound(self, number: int, name: str = "js", timeout: float = WAIT_TIMEOUT) -> list[JSON]:
        """The set's pods once so many have a node, and none is in deletion."""

        def found() -> list[JSON] | None:
            here = self.bound(name)
            going = any("deletionTimestamp" in pod["metadata"] for pod in here)
            return here if len(here) == number and not going else None

        return self.until(found, f"{number} pods of {name} bound", timeout) or []

    def wait_refused(self, number: int, name: str = "js") -> list[JSON]:
        """The set's pods without a node, once the scheduler has refused so many of them."""

        def refused(pod: JSON) -> bool:
            reported = [c for c in pod["status"].get("conditions") or [] if c["type"] == "PodScheduled"]
            return not pod["spec"].get("nodeName") and [c.get("reason") for c in reported] == ["Unschedulable"]

        def found() -> list[JSON] | None:
            pods = [pod for pod in self.pods("", name) if refused(pod)]
            return pods if len(pods) == number else None

        return self.until(found, f"{number} pods of {name} refused") or []

    def fill(self, *nodes: str, priority: str = "", tpus: int = 4) -> None:
        """Take up nodes with pods without an owner; `lone=true` is their label."""
        for node in nodes:
            self.lone_pod(f"on-{node}", priority=priority, tpus=tpus, nodeName=node)

    def lone_pod(self, name: str, *, priority: str = "", tpus: int = 4, **spec: Any) -> None:
        """A pod that belongs to no set."""
        resources = {"limits": {TPU: str(tpus)}, "requests": {TPU: str(tpus)}}
        container = {"name": "main", "image": "busybox", "resources": resources}
        more = {"priorityClassName": priority} if priority else {}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"lone": "true"}},
            "spec": {"restartPolicy": "Never", "containers": [container], **more, **spec},
        }
        status, answer = request(self.cluster, "POST", self.url("pods", "/api/v1"), body)
        assert status == 201, answer

    def lone(self) -> dict[str, str]:
        """Pods that belong to no set and are not in deletion: name and node."""
        items = request(self.cluster, "GET", self.url("pods", "/api/v1") + "?labelSelector=lone%3Dtrue")[1]["items"]
        stay = (pod for pod in items if "deletionTimestamp" not in pod["metadata"])
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in stay}

    def free(self, *nodes: str) -> None:
        """Undo `fill`."""
        for node in nodes:
            self.drop_pod(f"on-{node}")

    def drop_pod(self, name: str) -> None:
        status, answer = request(self.cluster, "DELETE", f"{self.url('pods', '/api/v1')}/{name}", DELETE_OPTIONS)
        assert status == 200, answer

    def annotate(self, pod: JSON, **annotations: str | None) -> None:
        path = f"{self.url('pods', '/api/v1')}/{pod['metadata']['name']}"
        status, answer = request(self.cluster, "PATCH", path, {"metadata": {"annotations": annotations}}, MERGE)
        assert status == 200, answer

    def keep_ending(self, pods: list[JSON]) -> None:
        """Have pods stay for long once they are deleted."""
        for pod in pods:
            self.annotate(pod, **{GRACE: "60"})

    def let_go(self, pods: list[JSON]) -> None:
        """Undo `keep_ending`."""
        for pod in pods:
            self.annotate(pod, **{GRACE: None})

    def cordon(self, *nodes: str) -> None:
        """Let no more pods onto nodes, until the end of the test."""
        self._cordoned |= {*nodes}
        for node in nodes:
            self._set_cordon(node, on=True)

    def uncordon(self, *nodes: str) -> None:
        """Undo `cordon`; for all nodes if none is named."""
        for node in nodes or sorted(self._cordoned):
            self._set_cordon(node, on=False)
        self._cordoned -= {*nodes} or self._cordoned

    def _set_cordon(self, node: str, *, on: bool) -> None:
        path, body = f"/api/v1/nodes/{node}", {"spec": {"unschedulable": on or None}}
        status, answer = request(self.cluster, "PATCH", path, body, MERGE)
        assert status == 200, answer

    def until(self, probe: Callable[[], T], what: str, timeout: float = WAIT_TIMEOUT) -> T:
        """Wait; a timeout shows conditions, groups and pods."""
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
            reported = [c for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled"]
            lines.append(f"pod {pod['metadata']['name']} on {pod['spec'].get('nodeName')}: {json.dumps(reported)}")
        return "\n".join(lines)

    def url(self, plural: str, group_version: str) -> str:
        return f"{group_version}/namespaces/{self.namespace}/{plural}"


def create_priorities(cluster: Cluster) -> None:
    """The priority classes of PRIORITIES."""
    for name, value in PRIORITIES.items():
        create_class(cluster, name, value)


def times(gang_namespace: GangNamespace, what: str) -> list[float]:
    """When requests of a kind, such as "create pods/binding", succeeded in a namespace: seconds, in order.

    From the audit log, so that asking costs the cluster nothing.
    """
    verb, resource = what.split()
    plural, _, subresource = resource.partition("/")
    wanted = (verb, plural, subresource, gang_namespace.namespace)
    with gang_namespace.cluster.audit_log.open() as log:
        # Most lines are of something else, and are not worth decoding.
        lines = [
            line
            for line in log
            if f'"{gang_namespace.namespace}"' in line and f'"{verb}"' in line and line.endswith("\n")
        ]
    out: list[float] = []
    for call in map(json.loads, lines):
        of = call["objectRef"]
        kind = (call["verb"], of["resource"], of.get("subresource", ""), of.get("namespace"))
        if kind == wanted and call["stage"] == "ResponseComplete" and call["responseStatus"]["code"] < 300:
            out.append(datetime.fromisoformat(call["stageTimestamp"]).timestamp())
    return sorted(out)
