"""Which JobSets hold what a pod lacks on the nodes that could take it. Pure."""

import re
from collections import defaultdict
from dataclasses import replace

from api.node_offers import in_words, number_in_words
from diagnose.case import Case
from diagnose.facts import SeenPod
from diagnose.finding import Finding, join_names
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
    for placed in case.facts.placed or ():
        if placed.node in takers and placed.requests.get(resource):
            here = (placed.namespace, placed.jobset) == (own.namespace, own.name)
            held["this JobSet" if here else f"{placed.namespace}/{placed.jobset}"] += placed.requests[resource]
    if not held:
        return in_use
    most = sorted(held.items(), key=lambda pod: (-pod[1], pod[0]))
    named = join_names([f"{name} ({number_in_words(amount, resource)})" for name, amount in most], _NAMED)
    total, offered = (
        number_in_words(sum(held.values()), resource),
        in_words(nodes.offered_amount(pod.spec, resource), resource),
    )
    return replace(in_use, message=f"{in_use.message}; JobSets hold {total} of their {offered}: {named}")


def lacking_resource(pod: SeenPod) -> str:
    """Of the resources that it requests, the one of which too little is free on most nodes; empty without one."""
    said, needs = pod.scheduling_failure, pod.spec.requests()
    found = _INSUFFICIENT.findall(said.message if said is not None else "")
    shortages = [(int(nodes), "/" in name, name) for nodes, name in found if name in needs]
    return max(shortages)[2] if shortages else ""
