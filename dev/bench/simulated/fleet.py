"""The objects that exist when the manager starts: nodes, and running JobSets with all their Jobs and pods."""

import random
from dataclasses import dataclass, replace

import msgspec

from api import keys
from api.children import build_job, build_service
from api.jobset import JobSet
from api.layout import layout_of
from controllers.resources import JOBSETS
from dev.bench.sets import restarting_in_place
from dev.simulator.cluster import TOPOLOGY, Cluster, Topology
from dev.simulator.patches import JSON
from dev.simulator.pods import Pod, managed_fields
from dev.simulator.resources import NAMESPACES
from dev.simulator.storage import Plain
from kube.resources import JOBS, NODES, PRIORITY_CLASSES, SERVICES

NAMESPACE = "training"
WORKERS = "workers"
NODE_LABELS = 20
"""Further labels of a node, as many as clouds and device plugins set."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The size: `domains` of `nodes` each, and `jobsets` of `jobs` with `pods` each."""

    domains: int = 3750
    nodes: int = 4
    jobsets: int = 15
    jobs: int = 250
    pods: int = 16
    exclusive: bool = True
    """Whether each Job has a domain alone."""
    heartbeats: int = 0
    """Nodes that report each second, as kubelets do every 5 minutes. With any, JobSets watch nodes."""
    in_place: bool = False
    """Whether JobSets restart in place; their pods have agents."""

    def __post_init__(self) -> None:
        if self.exclusive and self.jobsets * self.jobs > self.domains:
            wanted = self.jobsets * self.jobs
            raise ValueError(f"{wanted} exclusive Jobs cannot run in {self.domains} domains: each has one alone")


def set_name(number: int) -> str:
    """The name of a JobSet of a fleet."""
    return f"train-{number:02}"


def jobset(name: str, jobs: int, pods: int, *, exclusive: bool, watches_nodes: bool = False) -> JSON:
    """A JobSet as it is stored, defaults included."""
    resources = {"requests": {"cpu": "16", "memory": "64Gi", "example.com/accelerator": "2"}}
    environment = [{"name": f"SETTING_{n}", "value": f"value of the setting with number {n}"} for n in range(12)]
    container = {"name": "main", "image": "registry.example.com/train:1", "env": environment, "resources": resources}
    pod = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 30}
    job = {"backoffLimit": 0, "parallelism": pods, "completions": pods, "completionMode": "Indexed"}
    return {
        "metadata": {"name": name, "annotations": {keys.EXCLUSIVE_TOPOLOGY: TOPOLOGY} if exclusive else {}},
        "spec": {
            "failurePolicy": {
                "maxRestarts": 100,
                "restartStrategy": "Recreate",
                **({"nodeFailure": {"afterSeconds": 30}} if watches_nodes else {}),
            },
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "successPolicy": {"operator": "All"},
            "replicatedJobs": [
                {
                    "name": WORKERS,
                    "replicas": jobs,
                    "groupName": "default",
                    "template": {"spec": {**job, "template": {"spec": pod}}},
                }
            ],
        },
    }


def fill(cluster: Cluster, fleet: Fleet) -> None:
    """Create the objects of a fleet. Raises `RefusedError` if the API refuses one."""
    for name in ("default", NAMESPACE):
        cluster.create(NAMESPACES.plural, "", {"metadata": {"name": name}})
    for name, value in (("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)):
        cluster.create(PRIORITY_CLASSES.plural, "", {"metadata": {"name": name}, "value": value})
    _add_nodes(cluster, Topology(fleet.domains, fleet.nodes))
    for number in range(fleet.jobsets):
        watches_nodes = fleet.heartbeats > 0
        body = jobset(set_name(number), fleet.jobs, fleet.pods, exclusive=fleet.exclusive, watches_nodes=watches_nodes)
        _add_running(cluster, restarting_in_place(body) if fleet.in_place else body, in_place=fleet.in_place)
    cluster.storage.compact()


def _add_nodes(cluster: Cluster, topology: Topology) -> None:
    chance = random.Random(0)  # noqa: S311 -- texts, no secrets
    shared = {f"cloud.example.com/label-{n}": f"{chance.getrandbits(48):x}" for n in range(NODE_LABELS)}
    common = managed_fields("kubelet", cluster.timestamp(), shared)
    for domain in range(topology.domains):
        for number in range(topology.nodes):
            name = topology.node(domain, number)
            labels = {"kubernetes.io/hostname": name, TOPOLOGY: f"rack-{domain}", **shared}
            labels["topology.kubernetes.io/zone"] = f"zone-{domain % 3}"
            meta = {"name": name, "uid": cluster.uid(), "creationTimestamp": cluster.timestamp(), "labels": labels}
            meta["annotations"] = {"node.alpha.kubernetes.io/ttl": "0", "csi.example.com/nodeid": f"instance-{name}"}
            node = {"metadata": {**meta, "managedFields": common}, "spec": {}, "status": {}}
            cluster.storage.put(NODES.plural, Plain(node))


def _add_running(cluster: Cluster, body: JSON, *, in_place: bool) -> None:
    """A JobSet whose Jobs run, with the Service and the status that a manager would have given it.

    In place: all agents have reported the first attempt, and it is the current one.
    """
    stored = cluster.create(JOBSETS.plural, NAMESPACE, body).body()
    js = msgspec.convert(stored, JobSet)
    layout = layout_of(js)
    cluster.create(SERVICES.plural, NAMESPACE, build_service(js))
    for jobs in layout.ranges:
        for position in jobs.positions(js.metadata.name):
            body = build_job(js, jobs, position, global_replicas=layout.global_replicas)
            body["spec"]["template"]["metadata"]["labels"][keys.PRIORITY] = "0"
            cluster.create(JOBS.plural, NAMESPACE, body)
    running = layout.global_replicas
    counts = {"active": running, "failed": 0, "ready": running, "succeeded": 0, "suspended": 0}
    status = {"restarts": 0, "executionAttempts": 0, "replicatedJobsStatus": [{"name": WORKERS, **counts}]}
    if in_place:
        status["currentInPlaceRestartAttempt"] = 0
        for pod in list(cluster.storage["pods"].objects.values()):
            if isinstance(pod, Pod) and pod.label(keys.JOBSET_UID) == js.metadata.uid:
                cluster.storage.put("pods", replace(pod, attempt="0"))
    cluster.storage.put(JOBSETS.plural, Plain({**stored, "status": status}))
