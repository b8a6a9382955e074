"""The lives through which the clients are recorded, phase by phase: queued, admitted, evicted, admitted elsewhere, ended.

`QUEUED` and `STAGED` are JobSets of users under Kueue, `TRAIN` is a TrainJob of Trainer's under Kueue. The first
admission is to rack-1 with topology-aware scheduling, whose pods carry a scheduling gate; the second to rack-0 without.
"""

from collections.abc import Callable, Iterator
from typing import Any

from dev.cluster.cluster import Cluster
from tests.support.cluster.client_calls import PREFIX, idle
from tests.support.cluster.jobs import JOBSETS, Sets, group, manifest
from tests.support.cluster.requests import apply, listed, request, wait_for

JSON = dict[str, Any]

NAMESPACE = "streams"
KUEUE = "/apis/kueue.x-k8s.io/v1beta1"
QUEUE = {"kueue.x-k8s.io/queue-name": "q"}
CPU = {"resources": {"requests": {"cpu": "1"}}}
CONTAINER = {"name": "main", "image": "busybox", **CPU}


def pod(**fields: Any) -> JSON:
    return {"containers": [CONTAINER], **fields}


def queued_set() -> JSON:
    linux = pod(nodeSelector={"kubernetes.io/os": "linux"})
    body = manifest(group("driver", pod=pod()), group("workers", 2, 2, pod=linux))
    return {**body, "metadata": {"name": "js", "labels": QUEUE}}


def staged_set() -> JSON:
    """The second stage waits until both Jobs of the first are ready; a Job that fails is restarted alone."""
    second = group("second", pod=pod(), dependsOn=[{"name": "first", "status": "Ready"}])
    policy = {"maxRestarts": 3, "rules": [{"name": "alone", "action": "RestartJob"}]}
    body = manifest(group("first", 2, pod=pod()), second, failurePolicy=policy)
    return {**body, "metadata": {"name": "staged", "labels": QUEUE}}


def runtime() -> JSON:
    """Four stages, as Trainer's own runtimes for fine-tuning and for MPI have them."""

    def part(name: str, step: str = "", **extra: Any) -> JSON:
        container = {"name": name if step in {"dataset-initializer", "model-initializer"} else "node", **CPU}
        template: JSON = {"spec": {"template": {"spec": {"containers": [{**container, "image": "busybox"}]}}}}
        if step:
            template["metadata"] = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": step}}
        return {"name": name, "replicas": 1, "template": template, **extra}

    both = [{"name": name, "status": "Complete"} for name in ("dataset-initializer", "model-initializer")]
    spec = {
        "network": {"publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
        "replicatedJobs": [
            part("dataset-initializer", "dataset-initializer"),
            part("model-initializer", "model-initializer"),
            part("node", "trainer", dependsOn=both),
            part("launcher", dependsOn=[{"name": "node", "status": "Ready"}]),
        ],
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "staged"},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": spec}},
    }


def train() -> JSON:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "train", "labels": QUEUE},
        "spec": {
            "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "staged"},
            "initializer": {
                "dataset": {"storageUri": "hf://data/set"},
                "model": {"storageUri": "hf://some/model"},
            },
            "trainer": {"numNodes": 2, "image": "busybox", "command": ["true"]},
            "labels": {"app": "x"},
        },
    }


class Queue:
    """Kueue's objects: one queue, closed at first, of which the whole quota is on one rack at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        levels = [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
        self._store("topologies", "Topology", "racks", {"levels": levels})
        self._store("resourceflavors", "ResourceFlavor", "rack-0", self._flavor("rack-0"))
        self._store("resourceflavors", "ResourceFlavor", "rack-1", self._flavor("rack-1", topologyName="racks"))
        self.set("rack-1", "Hold")
        path = f"{KUEUE}/namespaces/{NAMESPACE}/localqueues"
        self._store(path, "LocalQueue", "q", {"clusterQueue": "all"})

    def _flavor(self, rack: str, **more: str) -> JSON:
        toleration = {"key": f"flavor-{rack}", "operator": "Exists"}
        return {"nodeLabels": {"rack": rack}, "tolerations": [toleration], **more}

    def _store(self, where: str, kind: str, name: str, spec: JSON) -> None:
        version = KUEUE.removeprefix("/apis/")
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        apply(self.cluster, where if where.startswith("/") else f"{KUEUE}/{where}", body)

    def set(self, rack: str, stop: str) -> None:
        """Give the quota to a rack; `stop` is None, Hold or HoldAndDrain."""
        flavors = [{"name": rack, "resources": [{"name": "cpu", "nominalQuota": "40"}]}]
        group = {"coveredResources": ["cpu"], "flavors": flavors}
        spec = {"namespaceSelector": {}, "resourceGroups": [group], "stopPolicy": stop}
        self._store("clusterqueues", "ClusterQueue", "all", spec)


def live(sets: Sets, queue: Queue, name: str, create: Callable[[], None], end: Callable[[], None]) -> Iterator[str]:
    """Lead a set through its phases; gives the name of each as soon as it is over."""
    queue.set("rack-1", "Hold")
    create()
    wait_for(lambda: reserved_nothing(sets), timeout=60, what="a Workload that waits", last=lambda: workloads(sets))
    wait_for(lambda: (sets.get(name) or {}).get("spec", {}).get("suspend"), what=f"{name} suspended")
    wait_for(lambda: sets.counts(name).get("suspended"), what=f"Jobs of {name}")
    yield "created"
    queue.set("rack-1", "None")
    wait_for(lambda: running(sets, name), timeout=60, what=f"{name} on rack-1", last=lambda: workloads(sets))
    yield "admitted"
    queue.set("rack-1", "HoldAndDrain")
    wait_for(lambda: sets.get(name)["spec"]["suspend"] and idle(sets, name), timeout=60, what=f"{name} idle")
    wait_for(lambda: reserved_nothing(sets), timeout=60, what="the quota to be free", last=lambda: workloads(sets))
    wait_for(lambda: not templates_with_rack(sets, name), what="the templates as they were")
    yield "evicted"
    queue.set("rack-0", "None")
    wait_for(lambda: running(sets, name), timeout=60, what=f"{name} on rack-0", last=lambda: workloads(sets))
    yield "admitted again"
    end()
    sets.wait_state("Completed", name)
    wait_for(lambda: finished(sets), what="the Workload to be finished", last=lambda: workloads(sets))
    yield "ended"


def workloads(sets: Sets) -> list[JSON]:
    found = listed(sets.cluster, f"{KUEUE}/namespaces/{NAMESPACE}/workloads")
    return [{c["type"]: c["status"] for c in body.get("status", {}).get("conditions", [])} for body in found]


def reserved_nothing(sets: Sets) -> bool:
    found = workloads(sets)
    return bool(found) and all(each.get("QuotaReserved") != "True" for each in found)


def finished(sets: Sets) -> bool:
    return all(each.get("Finished") == "True" for each in workloads(sets))


def running(sets: Sets, name: str) -> bool:
    """Whether all pods that there are of the set run, and some are ready."""
    phases = {pod["status"]["phase"] for pod in sets.pods(name=name)}
    return phases == {"Running"} and sets.counts(name)["ready"] > 0


def templates_with_rack(sets: Sets, name: str) -> list[JSON]:
    """Templates that still name a rack."""
    rjobs = sets.get(name)["spec"]["replicatedJobs"]
    specs = [rjob["template"]["spec"]["template"]["spec"] for rjob in rjobs]
    return [spec for spec in specs if "rack" in spec.get("nodeSelector", {})]


def finish(sets: Sets, name: str, *steps: str) -> None:
    """End the pods of ReplicatedJobs with success, one after the other as they come."""
    for step in steps:
        selector = f"{PREFIX}replicatedjob-name={step}"
        wait_for(lambda: done(sets, name, step, selector), timeout=60, what=f"the end of {step}")  # noqa: B023 - called here


def done(sets: Sets, name: str, step: str, selector: str) -> bool:
    for pod in sets.pods(selector, name):
        if pod["status"]["phase"] == "Running":
            sets.end(pod)
    succeeded = {entry["name"]: entry["succeeded"] for entry in sets.status(name)["replicatedJobsStatus"]}
    replicas = {rjob["name"]: rjob["replicas"] for rjob in sets.get(name)["spec"]["replicatedJobs"]}
    return bool(succeeded.get(step) == replicas[step])


def lives(cluster: Cluster) -> Iterator[tuple[str, Iterator[str]]]:
    """Name of each life with its phases, to be gone through before the next is asked for."""
    apply(cluster, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    sets, queue = Sets(cluster, NAMESPACE), Queue(cluster)
    ours = JOBSETS.format(NAMESPACE)

    def jobset(body: JSON, *steps: str) -> Iterator[str]:
        name = body["metadata"]["name"]
        create = lambda: post(cluster, ours, body)  # noqa: E731
        return live(sets, queue, name, create, lambda: finish(sets, name, *steps))

    yield "queued", jobset(queued_set(), "driver", "workers")
    remove(sets, f"{ours}/js")
    yield "staged", jobset(staged_set(), "second", "first")
    remove(sets, f"{ours}/staged")
    group = "/apis/trainer.kubeflow.org/v1alpha1"
    jobs = f"{group}/namespaces/{NAMESPACE}/trainjobs"
    post(cluster, f"{group}/clustertrainingruntimes", runtime())
    steps = ("dataset-initializer", "model-initializer", "launcher")
    yield (
        "train",
        live(sets, queue, "train", lambda: post(cluster, jobs, train()), lambda: finish(sets, "train", *steps)),
    )


def post(cluster: Cluster, path: str, body: JSON) -> None:
    def stored() -> bool:
        status, answer = request(cluster, "POST", path, body)
        # A webhook that has just been installed may not be called yet, or not be served.
        assert status in {201, 500}, answer
        return status == 201

    wait_for(stored, what=f"{body['kind']} to be stored")


def remove(sets: Sets, path: str) -> None:
    request(sets.cluster, "DELETE", path)
    wait_for(lambda: request(sets.cluster, "GET", path)[0] == 404)
    wait_for(lambda: not workloads(sets), what="the Workload to go")
