"""Stuck situations of pods that nodes would take if they were free, and of groups, claims and features; see `tests/support/explain/stuck.py`."""

from dataclasses import replace
from typing import Any

import msgspec

from diagnose.facts import Facts, SeenClaim, SeenStorageClass
from diagnose.nodes import Nodes, SeenNode
from tests.support.explain.gangs import GANG, Played
from tests.support.explain.objects import held
from tests.support.explain.stuck import JSON, a_set, about_pod, node, row, started, stuck, unscheduled
from tests.support.explain.stuck_pods import NOT_SCHEDULED
from tests.support.objects.jobsets import rjob


def tainted(key: str, value: str = "", effect: str = "NoSchedule") -> Facts:
    taint = {"key": key, "value": value, "effect": effect}
    return unscheduled("node(s) had untolerated taint(s)", node("a", taint), node("b", taint))


TAINTED = f"{NOT_SCHEDULED}it does not tolerate the taints of 2 nodes that could hold it: "
row(
    "taints that it does not tolerate",
    f"{TAINTED}gpu=only:NoSchedule (2)",
    "kubectl taint node NODE gpu-",
    lambda: tainted("gpu", "only"),
)
row(
    "all nodes are cordoned",
    f"{TAINTED}cordoned (2)",
    "kubectl uncordon a b",
    lambda: tainted("node.kubernetes.io/unschedulable"),
)
row(
    "all nodes are not ready",
    f"{TAINTED}not ready (2)",
    "kubectl describe node a",
    lambda: tainted("node.kubernetes.io/not-ready", effect="NoExecute"),
)
row(
    "nodes that are in use",
    f"{NOT_SCHEDULED}2 of 2 nodes could take it, and too little is free there",
    "wait for other pods to end, or add nodes",
    lambda: unscheduled("Insufficient cpu", needs={"cpu": "32"}),
)


@stuck(
    "nodes that other JobSets hold",
    f"{NOT_SCHEDULED}2 of 2 nodes could take it, and too little is free there; JobSets hold 14 of their 16 nvidia.com/gpu:"
    " team-b/eval (8), team-c/tune (6)",
    "wait for other pods to end, or add nodes",
)
def _() -> Facts:
    placed = (("team-c", "tune", "node-0", 6), ("team-b", "eval", "node-1", 8))
    pods = [held(name, node, namespace=space, needs={"nvidia.com/gpu": gpus}) for space, name, node, gpus in placed]
    return replace(unscheduled("Insufficient nvidia.com/gpu", needs={"nvidia.com/gpu": "4"}), placed_pods=pods)


@stuck(
    "nodes that the set itself holds",
    f"{NOT_SCHEDULED}of the 3 pods of its ReplicatedJob only 2 fit on the nodes at once (1 per node); 2 pods of its"
    " own hold them now",
    "add nodes, or run fewer pods at once",
)
def _() -> Facts:
    js = a_set(rjob(replicas=3))
    others = [started(js, index, ready=1) for index in (1, 2)]
    return unscheduled("Insufficient nvidia.com/gpu", needs={"nvidia.com/gpu": "5"}, js=js, jobs=others)


@stuck(
    "most nodes are cordoned",
    f"{NOT_SCHEDULED}of the 3 pods of its ReplicatedJob only 1 fits on the nodes at once (1 per node); 1 pod of its own"
    " holds them now; 3 more nodes could hold it but for taints: cordoned (2), not ready (1)",
    "kubectl uncordon b c; or add nodes, or run fewer pods at once",
)
def _() -> Facts:
    js = a_set(rjob(replicas=3))
    cordoned, broken = (
        {"key": f"node.kubernetes.io/{key}", "effect": "NoSchedule"} for key in ("unschedulable", "not-ready")
    )
    nodes = node("a"), node("b", cordoned), node("c", cordoned), node("d", broken)
    said = "Insufficient nvidia.com/gpu, 2 node(s) were unschedulable, 1 node(s) had untolerated taint(s)"
    return unscheduled(said, *nodes, needs={"nvidia.com/gpu": "5"}, js=js, jobs=[started(js, 1, ready=1)])


RACK_LABEL = "example.com/rack"
IN_A_RACK: JSON = {"schedulingPolicy": GANG, "schedulingConstraints": {"topology": [{"key": RACK_LABEL}]}}
ROOT = Played(IN_A_RACK).name("jobset")
WAITS = f"PodGroup {ROOT}, 3 Jobs: 0 of 6 pods bound; all 6 pods have to fit at once, in one rack: "


def gang(said: str, *racks: str, gpus: int = 1, **known: object) -> Facts:
    """Three Jobs of two pods that are to be in one rack; a node of eight GPUs in each of these racks."""
    played = Played(IN_A_RACK, rjob(replicas=3, parallelism=2, completions=2))
    played.refuse_all(said)
    for pod in played.pods.values():
        pod["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}]
    labels = ({RACK_LABEL: rack} if rack else {} for rack in racks)
    nodes = [node(f"node-{number}", labels=found) for number, found in enumerate(labels)]
    return played.facts(node_offers=Nodes(msgspec.convert(nodes, list[SeenNode])), **known)


row(
    "a gang whose topology label no node has",
    f"{WAITS}no node has a label {RACK_LABEL} at all",
    f"kubectl label node NODE {RACK_LABEL}=VALUE",
    lambda: gang("no feasible placements found", "", ""),
)
row(
    "a gang that is larger than any rack",
    f"{WAITS}the largest rack holds 4 of its 6 pods: it never fits",
    "add nodes to one rack, or in a new JobSet run fewer pods",
    lambda: gang("0/1 nodes are available: 1 Insufficient nvidia.com/gpu", "a", "a", "b", gpus=4),
)


@stuck(
    "exclusive Jobs that hold the racks of a gang",
    f"{WAITS}pod train-workers-0-0 and 5 more are not scheduled: 2 exclusive Jobs keep other pods of priority 0 out of"
    " their domains: team-b/j0, team-b/j1",
    "wait until one ends, add nodes, or give its ReplicatedJob a priorityClassName",
)
def _() -> Facts:
    jobs = held("j0", "node-0"), held("j1", "node-1")
    return gang("0/1 nodes are available: 1 Insufficient nvidia.com/gpu", "a", "b", holder_pods=jobs)


def own_claim(claim: JSON, provisioner: str = "example.com/disk", **spec: Any) -> Facts:
    """A pod with the claim `data-train` of its set's own volumeClaimPolicies, and the StorageClass `standard`."""
    policies = [{"templates": [{"metadata": {"name": "data"}, "spec": claim}]}]
    classes = {"metadata": {"name": "standard"}, "provisioner": provisioner}
    known = {
        "claims": {"data-train": msgspec.convert({"spec": claim, "status": {"phase": "Pending"}}, SeenClaim)},
        "storage_classes": (msgspec.convert(classes, SeenStorageClass),),
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-train"}}]
    said = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
    return about_pod(js=a_set(volumeClaimPolicies=policies), unscheduled=said, known=known, volumes=volumes, **spec)


row(
    "a StorageClass that is missing, of a claim that the set makes",
    f"{NOT_SCHEDULED}claim data-train is Pending: there is no StorageClass nfs; there are: standard",
    "write another storageClassName at spec.volumeClaimPolicies[0].templates[0].spec in a new JobSet",
    lambda: own_claim({"storageClassName": "nfs"}),
)


@stuck(
    "a StorageClass that makes no volumes",
    f"{NOT_SCHEDULED}claim data-train is Pending: no PersistentVolume of StorageClass standard is free and fits"
    " (ReadWriteMany, 1Gi), and this class makes none",
    "kubectl get pv lists the volumes; have an administrator of the cluster create one that fits",
)
def _() -> Facts:
    asks: JSON = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return own_claim({"storageClassName": "standard", **asks}, "kubernetes.io/no-provisioner")


@stuck(
    "a feature that no node declares",
    f"{NOT_SCHEDULED}no node declares the feature RestartAllContainersOnContainerExits, which it needs for"
    " restartPolicyRules with action RestartAllContainers",
    "write failurePolicy.agent.mode: MainContainer in a new JobSet",
)
def _() -> Facts:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]
    agent = {"name": "jobset-agent", "restartPolicy": "Always", "restartPolicyRules": rules}
    js = a_set(failurePolicy={"restartStrategy": "InPlaceRestart", "maxRestarts": 3})
    return unscheduled("node(s) didn't match Pod's required features", js=js, initContainers=[agent])
