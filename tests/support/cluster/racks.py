"""What tests of exclusive placement do on a real cluster: JobSets on racks of nodes, and where their pods are.

The cluster has `RACKS` racks (label `rack`) of `PER_RACK` nodes each; the first half of the racks is of the flavor
`flavor-0`, the second of `flavor-1` (label `flavor`). A pod that asks for `WHOLE` has its node for itself.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from api import keys
from dev.cluster import audit
from dev.cluster.cluster import Cluster
from dev.cluster.spec import ClusterSpec, FakeNodes
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.manager import ManagerProcess
from tests.support.cluster.requests import MERGE, create_class, finish_pod, new_namespace, request, uids, wait_for

JSON = dict[str, Any]
T = TypeVar("T")

RACKS = 4
PER_RACK = 4
WHOLE = "20"
"""CPUs of a pod of which one fits on a node (32)."""
LITTLE = "1"

SPEC = ClusterSpec(
    name="racks",
    nodes=FakeNodes(count=RACKS * PER_RACK, label_every={"rack": PER_RACK, "flavor": PER_RACK * RACKS // 2}),
)

CLASSES = {"low": 100, "high": 1000, "patient": 1500, "top": 2000}
"""Priority classes; `patient` has preemptionPolicy Never."""

WAIT_TIMEOUT = 60
"""Seconds within which placements settle on a busy machine."""


def exclusive(
    name: str = "js",
    *,
    jobs: int = 1,
    pods: int = PER_RACK,
    cpu: str = WHOLE,
    topology: str | None = "rack",
    **more: Any,
) -> JSON:
    """A JobSet with one ReplicatedJob, a `worker`, placed by `topology`; None: not exclusively.

    A failed pod fails its Job unless `job` gives it a backoffLimit; the set restarts as often as it takes.
    """
    js = manifest(worker(jobs=jobs, pods=pods, cpu=cpu, **more), name=name, failurePolicy={"maxRestarts": 99})
    if topology is not None:
        js["metadata"]["annotations"] = {keys.EXCLUSIVE_TOPOLOGY: topology}
    return js


def worker(
    name: str = "w", *, jobs: int = 1, pods: int = PER_RACK, cpu: str = WHOLE, job: JSON | None = None, **more: Any
) -> JSON:
    """A ReplicatedJob of which each pod asks for `cpu`; `more` is of the pod specification, `priority` its class."""
    if priority := more.pop("priority", None):
        more["priorityClassName"] = priority
    return group(name, replicas=jobs, pods_per_job=pods, pod={**pod_spec(cpu), **more}, job=job or {})


def pod_spec(cpu: str = LITTLE, **more: Any) -> JSON:
    """The specification of a pod of no interest but for its size."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    return {"restartPolicy": "Never", "containers": [container], **more}


def create_classes(cluster: Cluster) -> None:
    """The priority classes of these tests."""
    for name, value in CLASSES.items():
        create_class(cluster, name, value, "Never" if name == "patient" else "PreemptLowerPriority")


class Nodes:
    """The nodes of the racks, and how they were at first."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._first = {node["metadata"]["name"]: node for node in self._list()}
        assert len(self._first) == RACKS * PER_RACK

    def _list(self) -> list[JSON]:
        items: list[JSON] = request(self._cluster, "GET", "/api/v1/nodes")[1]["items"]
        return items

    def racks(self) -> dict[str, str]:
        """The rack of every node, as it is now."""
        return {node["metadata"]["name"]: node["metadata"]["labels"]["rack"] for node in self._list()}

    def of(self, rack: str) -> list[str]:
        return [node for node, where in self.racks().items() if where == rack]

    def patch(self, node: str, *, labels: JSON | None = None, **spec: Any) -> None:
        body = {"metadata": {"labels": labels or {}}, "spec": spec}
        status, answer = request(self._cluster, "PATCH", f"/api/v1/nodes/{node}", body, MERGE)
        assert status == 200, answer

    def cordon(self, *nodes: str, on: bool = True) -> None:
        for node in nodes:
            self.patch(node, unschedulable=on or None)

    def delete(self, node: str) -> None:
        status, answer = request(self._cluster, "DELETE", f"/api/v1/nodes/{node}")
        assert status == 200, answer

    def repair(self) -> None:
        """Give every node back the labels and the specification that it had."""
        now = {node["metadata"]["name"]: node for node in self._list()}
        for name, first in self._first.items():
            if name not in now:
                meta = {key: first["metadata"][key] for key in ("name", "labels", "annotations")}
                body = {"metadata": meta, "spec": first["spec"], "status": {"addresses": first["status"]["addresses"]}}
                assert request(self._cluster, "POST", "/api/v1/nodes", body)[0] == 201
                continue
            labels, spec = now[name]["metadata"]["labels"], now[name]["spec"]
            if labels != first["metadata"]["labels"] or spec != first["spec"]:
                gone = dict.fromkeys({*labels} - {*first["metadata"]["labels"]})
                blank = dict.fromkeys({*spec} - {*first["spec"]})
                self.patch(name, labels={**gone, **first["metadata"]["labels"]}, **{**blank, **first["spec"]})
        wait_for(self._usable, what="nodes ready and untainted", timeout=WAIT_TIMEOUT)

    def _usable(self) -> bool:
        """Whether every node may be scheduled to; the controller manager takes its own taints away, a bit later."""
        nodes = self._list()
        return all(
            condition(node, "Ready").get("status") == "True" and not node["spec"].get("taints") for node in nodes
        )


class RackNamespace(Sets):
    """A namespace with the JobSets of one test, and where their pods are."""

    def __init__(self, cluster: Cluster, manager: ManagerProcess, nodes: Nodes) -> None:
        super().__init__(cluster, new_namespace(cluster))
        self.manager = manager
        self.nodes = nodes
        self._start = audit.log_size(cluster.audit_log)

    def url(self, plural: str, name: str = "", group: str = "/api/v1") -> str:
        return f"{group}/namespaces/{self.namespace}/{plural}{'/' if name else ''}{name}"

    def create(self, plural: str, body: JSON, group: str = "/api/v1") -> JSON:
        """Create an object of the namespace; gives it as it is stored."""
        status, answer = request(self.cluster, "POST", self.url(plural, group=group), body)
        assert status == 201, answer
        made: JSON = answer
        return made

    def finish(self, name: str = "js") -> None:
        """Have all pods of a JobSet succeed."""
        for pod in self.pods(name):
            finish_pod(self.cluster, self.namespace, pod["metadata"]["name"])

    def fail(self, pod: JSON) -> None:
        finish_pod(self.cluster, self.namespace, pod["metadata"]["name"], 1)

    def flavor(self, flavor: str, name: str = "js") -> None:
        """Give the pods of a suspended JobSet to another flavor, as a queue does."""
        js = self.get(name)
        assert js is not None
        for rjob in js["spec"]["replicatedJobs"]:
            rjob["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"flavor": flavor}
        self.patch({"replicatedJobs": js["spec"]["replicatedJobs"]}, name)

    def all_pods(self) -> list[JSON]:
        """Every pod that there is, ended and ending ones as well."""
        items: list[JSON] = request(self.cluster, "GET", self.url("pods"))[1]["items"]
        return items

    def pod(self, pod: JSON) -> JSON | None:
        """The pod as it is now; None when it is gone."""
        status, now = request(self.cluster, "GET", self.url("pods", pod["metadata"]["name"]))
        return now if status == 200 and uids([now]) == uids([pod]) else None

    def pods(self, name: str = "js", *, attempt: int | None = None) -> list[JSON]:
        """The pods of a JobSet that have neither ended nor are about to, by Job and completion index."""
        found = [
            pod
            for pod in self.all_pods()
            if label(pod, keys.JOBSET_NAME) == name
            and "deletionTimestamp" not in pod["metadata"]
            and pod["status"].get("phase") not in {"Succeeded", "Failed"}
            and attempt in {None, int(label(pod, keys.RESTART_ATTEMPT) or -1)}
        ]
        return sorted(found, key=lambda pod: (label(pod, "job-name"), index(pod)))

    def of_job(self, job: str) -> list[JSON]:
        return [pod for pod in self.pods() if label(pod, "job-name") == job]

    def leaders(self, name: str = "js") -> list[JSON]:
        return [pod for pod in self.pods(name) if index(pod) == "0"]

    def followers(self, name: str = "js") -> list[JSON]:
        return [pod for pod in self.pods(name) if index(pod) != "0"]

    def delete_pod(self, pod: JSON, **options: Any) -> None:
        path = self.url("pods", pod["metadata"]["name"])
        status, answer = request(self.cluster, "DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})
        assert status == 200, answer

    def patch_pod(self, pod: JSON, body: JSON) -> None:
        status, answer = request(self.cluster, "PATCH", self.url("pods", pod["metadata"]["name"]), body, MERGE)
        assert status == 200, answer

    def patch_job(self, name: str, spec: JSON) -> None:
        path = self.url("jobs", name, "/apis/batch/v1")
        status, answer = request(self.cluster, "PATCH", path, {"spec": spec}, MERGE)
        assert status == 200, answer

    def rack(self, pod: JSON) -> str:
        """Where a bound pod is now."""
        return self.nodes.racks()[pod["spec"]["nodeName"]]

    def racks(self, name: str = "js") -> dict[str, Counter[str]]:
        """How many bound pods each Job of a set has on each rack."""
        where = self.nodes.racks()
        found: dict[str, Counter[str]] = {}
        for pod in self.pods(name):
            if node := pod["spec"].get("nodeName"):
                found.setdefault(label(pod, "job-name"), Counter())[where.get(node, "none")] += 1
        return found

    def until(self, probe: Callable[[], T], what: str) -> T:
        """`wait_for`, with what can be seen of the pods if it takes too long."""
        try:
            return wait_for(probe, timeout=WAIT_TIMEOUT, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.seen()}\n{self.manager.log()[-2000:]}") from None

    def seen(self) -> str:
        """One line per pod."""
        return "\n".join(
            f"{pod['metadata']['name']} {pod['status'].get('phase')} {pod['spec'].get('nodeName')}"
            f" {pod['spec'].get('nodeSelector')} {gates(pod)}"
            f" {'ending' if 'deletionTimestamp' in pod['metadata'] else ''} {pending_because(pod)}"
            for pod in self.all_pods()
        )

    def runs(self, name: str = "js", *, pods: int, attempt: int | None = None) -> dict[str, str]:
        """Wait until a set has exactly so many pods, all of them running; gives the one rack of each Job.

        Jobs that are on several racks, or two of which are on one, are an error.
        """

        def all_run() -> bool:
            mine = self.pods(name, attempt=attempt)
            return len(mine) == pods and all(pod["status"].get("phase") == "Running" for pod in mine)

        self.until(all_run, f"{pods} running pods of {name}")
        found = self.racks(name)
        assert all(len(racks) == 1 for racks in found.values()), found
        racks = {job: next(iter(racks)) for job, racks in found.items()}
        assert len({*racks.values()}) == len(racks), found
        return racks

    def waits(self, name: str = "js") -> JSON:
        """Wait until the scheduler has reported that a leader of the set finds no node; gives that leader."""

        def unschedulable() -> JSON | None:
            return next((pod for pod in self.leaders(name) if pending_because(pod).startswith("Unschedulable")), None)

        leader = self.until(unschedulable, f"a leader of {name} that finds no node")
        assert leader is not None
        return leader

    def ever_scheduled(self, name: str) -> list[str]:
        """Names of the set's pods that the scheduler has ever bound."""
        events = request(self.cluster, "GET", self.url("events"))[1]["items"]
        found = [event["involvedObject"]["name"] for event in events if event["reason"] == "Scheduled"]
        return [pod for pod in found if pod.startswith(f"{name}-")]

    def jobset_events(self, name: str, reason: str) -> list[JSON]:
        events = request(self.cluster, "GET", self.url("events", group="/apis/events.k8s.io/v1"))[1]["items"]
        return [event for event in events if event["reason"] == reason and event["regarding"]["name"] == name]

    def refused_pods(self) -> int:
        """Pods of the namespace that the API server has refused so far for the sake of a rule (403), dry runs aside."""
        calls = audit.calls(self.cluster.audit_log, self._start, self.namespace)
        here = [call for call in calls if call.namespace == self.namespace and call.resource == "pods"]
        return sum(call.verb == "create" and call.code == 403 and not call.dry_run for call in here)


def label(pod: JSON, key: str) -> str:
    return str(pod["metadata"].get("labels", {}).get(key, ""))


def index(pod: JSON) -> str:
    return str(pod["metadata"].get("annotations", {}).get(keys.COMPLETION_INDEX, ""))


def gates(pod: JSON) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def pending_because(pod: JSON) -> str:
    """Reason and message of the scheduler; empty for a pod that has a node."""
    found = condition(pod, "PodScheduled")
    return f"{found.get('reason')}: {found.get('message')}" if found.get("status") == "False" else ""


def condition(item: JSON, kind: str) -> JSON:
    return next((c for c in item["status"].get("conditions", []) if c["type"] == kind), {})
