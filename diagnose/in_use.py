"""Which JobSets hold what a pod lacks on the nodes that could take it. Pure."""

import re
from collections import defaultdict
from dataclasses import replace

from api.node_offers import in_words
from diagnose.case import Case
from diagnose.facts import SeenPod
from diagnose.finding import Finding, listed
from diagnose.nodes import Nodes, shape_of
from kube.model.requests import Amount

_INSUFFICIENT = re.compile(r"(\d+) Insufficient ([^\s,]*[^\s,.])")
"""What kube-scheduler says of a resource: on how many nodes too little of it is free."""
_NAMED = 3


def with_holders(case: Case, pod: SeenPod, in_use: Finding) -> Finding:
    """The finding that nodes are in use; with who holds most there of what the pod lacks, if that is known."""
    nodes, resource = case.facts.node_offers, lacking_resource(pod)
    if nodes is None or not resource:
        return in_use
    key = shape_of(pod.spec), resource
    if key not in case.in_use:
        case.in_use[key] = _with_holders(case, nodes, pod, resource, in_use)
    return case.in_use[key]


def _with_holders(case: Case, nodes: Nodes, pod: SeenPod, resource: str, in_use: Finding) -> Finding:
    takers, own = nodes.takers(pod.spec), case.facts.jobset.metadata
    held = defaultdict[str, Amount](int)
    for of in case.facts.placed or ():
        if of.node in takers and of.requests.get(resource):
            here = (of.namespace, of.jobset) == (own.namespace, own.name)
            held["this JobSet" if here else f"{of.namespace}/{of.jobset}"] += of.requests[resource]
    if not held:
        return in_use
    most = sorted(held.items(), key=lambda of: (-of[1], of[0]))
    named = listed([f"{name} ({_number(amount, resource)})" for name, amount in most], _NAMED)
    total, offered = _number(sum(held.values()), resource), in_words(nodes.offered(pod.spec, resource), resource)
    return replace(in_use, what=f"{in_use.what}; JobSets hold {total} of their {offered}: {named}")


def lacking_resource(pod: SeenPod) -> str:
    """Of the resources that it requests, the one of which too little is free on most nodes; empty without one."""
    said, needs = pod.unscheduled, pod.spec.requests()
    found = _INSUFFICIENT.findall(said.message if said is not None else "")
    of = [(int(nodes), "/" in name, name) for nodes, name in found if name in needs]
    return max(of)[2] if of else ""


def _number(amount: Amount, resource: str) -> str:
    return in_words(amount, resource).partition(" ")[0]
