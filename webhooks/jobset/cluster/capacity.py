"""Whether a new JobSet needs more at once than all nodes of the cluster have together. Warnings.

The requests of the pods, and the domains of the exclusive Jobs, of a ReplicatedJob or of ReplicatedJobs that start
together are compared with all nodes while idle. Only checks with the user's own rights have this warning: in a cluster
with an autoscaler it would be wrong for many sets that will run.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from api.children import placement_annotations
from api.jobset import JobSet
from api.keys import EXCLUSIVE_TOPOLOGY, NODE_SELECTOR_STRATEGY
from api.node_offers import format_amount, format_number
from kube.model.field import ErrorType, FieldError, Path
from kube.model.requests import Amounts, exceeding_resources
from policy.judged import JudgedJobSet, Template
from webhooks.jobset.cluster.quota import alone_or_together, needed_by
from webhooks.jobset.cluster.verdict import warning

NODES_TOO_FEW = warning(
    "nodes-too-few",
    "needs {amount} at once, all nodes offer {offered}: its pods never run all at once",
    "run fewer pods at once, or add nodes",
    kind=ErrorType.TOO_MANY,
)
DOMAINS_TOO_FEW = warning(
    "exclusive-domains-too-few",
    "{jobs} exclusive Jobs at once, nodes have {values} of {topology}: they never run all at once",
    "lower replicas, or label nodes with more values",
    kind=ErrorType.TOO_MANY,
)


def exclusive(judged: JudgedJobSet) -> bool:
    """Whether Jobs of the set have exclusive placement."""
    return any(template.jobs and _topology(judged.js, template) for template in judged.templates)


def too_few_nodes(judged: JudgedJobSet, total: Amounts) -> Iterator[FieldError]:
    """`total`: what all nodes offer together."""
    return alone_or_together(judged, partial(_node_shortage, total))


def too_few_domains(judged: JudgedJobSet, domains: Mapping[str, int]) -> Iterator[FieldError]:
    """`domains`: how many values nodes have of each label."""
    return alone_or_together(judged, partial(_domain_shortage, judged.js, domains))


def _node_shortage(total: Amounts, path: Path, templates: Sequence[Template]) -> FieldError | None:
    """The first resource, by name, of which all nodes offer too little; `nodes.py` reports those that none offers."""
    needs = needed_by(templates)
    name = min(exceeding_resources(needs, total), default="")
    if not name:
        return None
    offered = format_number(total[name], name)
    return NODES_TOO_FEW.at(path, None, amount=format_amount(needs[name], name), offered=offered)


def _domain_shortage(
    js: JobSet, domains: Mapping[str, int], path: Path, templates: Sequence[Template]
) -> FieldError | None:
    """More exclusive Jobs of one priority than domains. `needs.py` reports a label that no node has."""
    wanted = Counter[tuple[str, str]]()
    for template in templates:
        if topology := _topology(js, template):
            wanted[topology, str(template.pod.get("priorityClassName") or "")] += template.jobs
    for (topology, _), jobs in wanted.items():
        if jobs > domains.get(topology, jobs):
            values = "1 value" if domains[topology] == 1 else f"{domains[topology]} values"
            return DOMAINS_TOO_FEW.at(path, None, jobs=jobs, values=values, topology=topology)
    return None


def _topology(js: JobSet, template: Template) -> str:
    """The topology label of its exclusive Jobs; empty without, and for the node-selector strategy."""
    found = placement_annotations(js, template.rjob)
    return "" if NODE_SELECTOR_STRATEGY in found else found.get(EXCLUSIVE_TOPOLOGY, "")
