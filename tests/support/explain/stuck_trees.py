"""Stuck situations of sets with `spec.scheduling`; see `tests/support/explain/stuck.py`."""

from __future__ import annotations

import msgspec

from diagnose.facts import Facts, Holder
from diagnose.nodes import Nodes, SeenNode
from tests.support.explain.gangs import GANG, Played
from tests.support.explain.stuck import JSON, node, row, stuck
from tests.support.objects.jobsets import rjob

RACK = "example.com/rack"
IN_A_RACK: JSON = {"schedulingPolicy": GANG, "schedulingConstraints": {"topology": [{"key": RACK}]}}
ROOT = Played(IN_A_RACK).name("jobset")
WAITS = f"PodGroup {ROOT}, 3 Jobs: 0 of 6 pods bound; all 6 pods have to fit at once, in one rack: "


def gang(said: str, *racks: str, gpus: int = 1, **known: object) -> Facts:
    """Three Jobs of two pods that are to be in one rack; a node of eight GPUs in each of these racks."""
    played = Played(IN_A_RACK, rjob(replicas=3, parallelism=2, completions=2))
    played.refuse_all(said)
    for pod in played.pods.values():
        pod["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}]
    labels = ({RACK: rack} if rack else {} for rack in racks)
    nodes = [node(f"node-{number}", labels=found) for number, found in enumerate(labels)]
    return played.facts(node_offers=Nodes(msgspec.convert(nodes, list[SeenNode])), **known)


row(
    "a gang whose topology label no node has",
    f"{WAITS}no node has a label {RACK} at all",
    f"kubectl label node NODE {RACK}=VALUE",
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
    jobs = (Holder("team-b", f"j{n}", f"u{n}", 0, f"node-{n}", exclusive=True, ending=False) for n in range(2))
    return gang("0/1 nodes are available: 1 Insufficient nvidia.com/gpu", "a", "b", holders=tuple(jobs))
