"""Stuck situations of pods that nodes would take if they were free and in order; see `tests/support/explain/stuck.py`."""

from __future__ import annotations

from dataclasses import replace

from diagnose.facts import Facts, PlacedPod
from tests.support.explain.stuck import a_set, node, row, started, stuck, unscheduled
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
    pods = tuple(PlacedPod(space, name, node, {"nvidia.com/gpu": gpus}) for space, name, node, gpus in placed)
    return replace(unscheduled("Insufficient nvidia.com/gpu", needs={"nvidia.com/gpu": "4"}), placed=pods)


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
