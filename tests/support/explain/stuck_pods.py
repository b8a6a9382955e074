"""Stuck situations that are about pods that do not run; see `tests/support/explain/stuck.py`."""

from functools import partial

import msgspec

from diagnose.facts import Facts, SeenClaim, SeenPod, SeenStorageClass
from tests.support.explain.objects import (
    MOMENT,
    RACK,
    at,
    exclusive,
    facts,
    held,
    job_of,
    leader_of,
    lease,
    made,
    pod_of,
)
from tests.support.explain.stuck import (
    AFFINITY,
    JSON,
    POD,
    a_set,
    about_pod,
    node,
    row,
    started,
    stuck,
    unscheduled,
    waiting,
)
from tests.support.objects.jobsets import rjob

NOT_SCHEDULED = f"Job train-workers-0: pod {POD} is not scheduled: "


row(
    "a misspelt resource",
    f"{NOT_SCHEDULED}no node offers nvidia.com/gpus; nodes offer nvidia.com/gpu",
    "sed '/^  resourceVersion:/d; s#nvidia.com/gpus:#nvidia.com/gpu:#' | kubectl replace --force -f -",
    lambda: unscheduled("Insufficient nvidia.com/gpus", needs={"nvidia.com/gpus": "8"}),
)
row(
    "more than any node has",
    f"{NOT_SCHEDULED}it needs 16 nvidia.com/gpu, the largest node has 8 (node-1)",
    "request less in a new JobSet, or add larger nodes",
    lambda: unscheduled("Insufficient nvidia.com/gpu", needs={"nvidia.com/gpu": "16"}),
)


@stuck(
    "more than all nodes have together",
    f"Job train-workers-0: pod {POD} is not scheduled: the pods of its JobSet need 32 nvidia.com/gpu in all, the nodes"
    " offer 16: they never run all at once",
    "add nodes, or run fewer pods",
)
def _() -> Facts:
    trainer = {"name": "main", "image": "trainer", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    js = a_set(rjob(replicas=4, pod={"containers": [trainer]}))
    return unscheduled("Insufficient nvidia.com/gpu", needs={"nvidia.com/gpu": "8"}, js=js)


@stuck(
    "more than the nodes of its pool have",
    f"{NOT_SCHEDULED}it needs 8 nvidia.com/gpu, the largest of the 1 node that its labels choose has 4 (small)",
    "request less",
)
def _() -> Facts:
    nodes = node("small", labels={"pool": "small"}, gpus=4), node("big", gpus=8)
    return unscheduled(
        f"Insufficient nvidia.com/gpu, 1 {AFFINITY}",
        *nodes,
        needs={"nvidia.com/gpu": "8"},
        nodeSelector={"pool": "small"},
    )


row(
    "a node selector with a value that no node has",
    f"{NOT_SCHEDULED}no node has the label pool=h100 of its nodeSelector; nodes have pool=a100",
    "sed '/^  resourceVersion:/d; s#pool: h100$#pool: a100#'",
    lambda: unscheduled(AFFINITY, nodeSelector={"pool": "h100"}),
)
row(
    "a node selector with a label that no node has",
    (
        f"{NOT_SCHEDULED}no node has the label pol=a100 of its nodeSelector; no node has a label pol at all: did you mean"
        " pool?"
    ),
    "kubectl label node NODE pol=a100",
    lambda: unscheduled(AFFINITY, nodeSelector={"pol": "a100"}),
)


@stuck(
    "a node affinity that no node meets",
    f"{NOT_SCHEDULED}no node meets its required node affinity (pool In [h100]); nodes have pool=a100",
    "kubectl get nodes --show-labels",
)
def _() -> Facts:
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["h100"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return unscheduled(AFFINITY, affinity={"nodeAffinity": required})


row(
    "a scheduler that does not run",
    f"{NOT_SCHEDULED}no scheduler volcano looks at it",
    "sed '/^  resourceVersion:/d; s#schedulerName: volcano#schedulerName: default-scheduler#'",
    lambda: about_pod(schedulerName="volcano"),
)
row(
    "kube-scheduler does not run",
    f"{NOT_SCHEDULED}kube-scheduler has not looked at it",
    "component=kube-scheduler",
    lambda: about_pod(js=a_set()),
)
row(
    "a scheduling gate",
    f"Job train-workers-0: pod {POD} is held back by scheduling gate example.com/hold",
    "the controller that the gate is named after has to lift it",
    lambda: about_pod(gates=("example.com/hold",)),
)
row(
    "a pod that waits for the place of a spare, and nobody gives it",
    f"Job train-workers-0: pod {POD} is held back by scheduling gate jobset.sigs.k8s.io/spare-place",
    "the manager lifts it at once, if it runs with the feature gate JobSetSpares",
    lambda: about_pod(gates=("jobset.sigs.k8s.io/spare-place",)),
)


def claimed(claim: JSON | None, *classes: JSON) -> Facts:
    """A pod with the claim `data`; None: there is no such claim."""
    said = "pod has unbound immediate PersistentVolumeClaims. not found"
    found = None if claim is None else msgspec.convert({"spec": claim, "status": {"phase": "Pending"}}, SeenClaim)
    known = {
        "claims": {"data": found},
        "storage_classes": tuple(msgspec.convert(each, SeenStorageClass) for each in classes),
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return about_pod(unscheduled=f"0/2 nodes are available: {said}", known=known, volumes=volumes)


STANDARD = {"metadata": {"name": "standard"}, "provisioner": "example.com/disk"}


row(
    "a claim that is missing",
    f"{NOT_SCHEDULED}there is no PersistentVolumeClaim data",
    "kubectl get pvc -n team-a",
    lambda: claimed(None),
)
row(
    "a StorageClass that is missing",
    (
        f"{NOT_SCHEDULED}claim data is Pending: there is no StorageClass standards; there are: standard; did you mean"
        " standard?"
    ),
    "kubectl delete pvc data -n team-a",
    lambda: claimed({"storageClassName": "standards"}, STANDARD),
)
row(
    "a claim without StorageClass, and no default one",
    f"{NOT_SCHEDULED}claim data is Pending: it names no StorageClass, and none of the cluster is the default one",
    "kubectl patch storageclass standard",
    lambda: claimed({}, STANDARD),
)
row(
    "a claim whose provisioner makes no volume",
    (
        f"{NOT_SCHEDULED}claim data is Pending: StorageClass standard has not made a volume; that is done by"
        " example.com/disk"
    ),
    "kubectl describe pvc data -n team-a",
    lambda: claimed({"storageClassName": "standard"}, STANDARD),
)
row(
    "a claim for a volume without class",
    (
        f"{NOT_SCHEDULED}claim data is Pending: it asks for no StorageClass, and no volume without one is free and large"
        " enough"
    ),
    "kubectl get pv",
    lambda: claimed({"storageClassName": ""}, STANDARD),
)


def initializing(state: JSON) -> Facts:
    """A pod whose init container `download` is in that state."""
    js = a_set()
    job = started(js)
    pod = made(pod_of(job, node="node-1", phase="Pending", containers=[waiting("PodInitializing")]))
    pod["status"]["initContainerStatuses"] = [{"name": "download", "ready": False, **state}]
    return facts(js, [job], [pod], lease=lease())


row(
    "an init container that takes long",
    f"Job train-workers-0: 0 of 1 pod ready; pod {POD} is starting on node node-1: init container download runs",
    "jobset logs train -n team-a --job train-workers-0 -c download",
    lambda: initializing({"state": {"running": {"startedAt": at(MOMENT)}}}),
)


def not_ready(*, ready: bool = False, started: bool = True, **container: JSON) -> Facts:
    """A pod that runs and is not ready, without any stated cause."""
    status = {"name": "main", "ready": ready, "started": started, "state": {"running": {}}}
    gates = {"readinessGates": container.pop("readinessGates")} if "readinessGates" in container else {}
    return about_pod(node="node-1", statuses=[status], containers=({"name": "main", **container},), **gates)


for title, given, fix in (
    ("a readiness probe that fails", {"readinessProbe": {"exec": {}}}, "see the readiness probes"),
    (
        "a startup probe that has not succeeded yet",
        {"started": False, "startupProbe": {"exec": {}}, "readinessProbe": {"exec": {}}},
        "wait: the startup probe of container main has not succeeded yet",
    ),
    (
        "a readiness gate",
        {"ready": True, "readinessGates": [{"conditionType": "example.com/fabric"}]},
        "its readinessGate example.com/fabric is not True",
    ),
    ("a pod that is about to be ready", {}, f"kubectl describe pod -n team-a {POD} shows its conditions"),
):
    row(
        title,
        f"Job train-workers-0: 0 of 1 pod ready; pod {POD} is running, not ready",
        fix,
        partial(not_ready, **given),
    )


def kept_out(said: str, *holders: SeenPod) -> Facts:
    js = a_set(rjob())
    job = made(job_of(js, 0), active=1, ready=0)
    return facts(js, [job], [made(pod_of(job, unscheduled=said))], holder_pods=holders, lease=lease())


HOLDERS = held("j0", "n0"), held("j1", "n1")


@stuck(
    "exclusive Jobs around a pod that is not exclusive",
    f"{NOT_SCHEDULED}2 exclusive Jobs keep other pods of priority 0 out of their domains: team-b/j0, team-b/j1",
    "wait until one ends, add nodes, or give its ReplicatedJob a priorityClassName",
)
def _() -> Facts:
    said = "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    return kept_out(said, *HOLDERS)


row(
    "a port of the node that other pods have",
    f"{NOT_SCHEDULED}0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports",
    "do without hostPort in a new JobSet",
    lambda: kept_out("0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."),
)
row(
    "a volume in another zone",
    f"{NOT_SCHEDULED}0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity",
    "kubectl describe pv VOLUME",
    lambda: kept_out("0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."),
)


OWN = "Job train-workers-0: waits for a rack of its own: "


def exclusive_leader(*holders: SeenPod, jobs: int = 1, labels: JSON | None = None, on_pods: bool = False) -> Facts:
    js = a_set(exclusive(replicas=jobs, on_pods=on_pods))
    there = [made(job_of(js, index), active=1, ready=0) for index in range(jobs)]
    said = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules"
    leaders = [made(leader_of(job, unscheduled=said)) for job in there]
    nodes = {f"n{number}": {RACK: f"rack-{number}"} if labels is None else labels for number in range(2)}
    return facts(js, there, leaders, node_labels=nodes, holder_pods=holders, lease=lease())


row(
    "racks that other Jobs hold",
    f"{OWN}2 of 2 racks hold Jobs of equal priority (0): team-b/j0, team-b/j1",
    "wait until one ends, add a rack",
    lambda: exclusive_leader(*HOLDERS),
)
row(
    "more exclusive Jobs than racks",
    f"{OWN}this JobSet has 3 exclusive Jobs, the cluster has 2 racks: they never run all at once",
    "add nodes in new racks",
    lambda: exclusive_leader(jobs=3, on_pods=True),
)
row(
    "nodes without the topology label",
    f"{OWN}there is no rack: none of 2 nodes has the label rack",
    "kubectl label node NODE rack=",
    lambda: exclusive_leader(labels={}),
)
