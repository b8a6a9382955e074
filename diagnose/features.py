"""Features that a pod needs and no node declares. Pure."""

import re

from api.jobset import JobSet
from diagnose.case import Case
from diagnose.facts import SeenPod
from diagnose.finding import Finding, Level

SAID = re.compile("Pod's required features")
"""What the scheduler says of nodes that lack one."""
_SHOW = (
    "kubectl get nodes -o custom-columns='NODE:.metadata.name,VERSION:.status.nodeInfo.kubeletVersion,"
    "FEATURES:.status.declaredFeatures'"
)


def undeclared_feature(case: Case, pod: SeenPod) -> Finding | None:
    """What the pod needs that no node declares; None if the scheduler says something else, or it is not known."""
    said, nodes = pod.scheduling_failure, case.facts.node_offers
    if said is None or not SAID.search(said.message):
        return None
    for feature, field in pod.spec.features.items():
        if nodes is None or not nodes.declare(feature):
            who = "no node declares" if nodes is not None else "nodes that it may use do not declare"
            message = f"{who} the feature {feature}, which it needs for {field}"
            fix = _fix(case.facts.jobset, field)
            return Finding(Level.FAULT, "no-such-feature", message, fix=fix)
    return None


def _fix(js: JobSet, field: str) -> str:
    nodes = f"have an administrator of the cluster add nodes with a newer kubelet ({_SHOW} shows what they declare)"
    if js.restarts_in_place and "RestartAllContainers" in field:
        return f"write failurePolicy.agent.mode: MainContainer in a new JobSet, which needs no such feature; or {nodes}"
    return f"do without {field} in a new JobSet, or {nodes}"
