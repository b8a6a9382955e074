"""Whether a new JobSet needs more at once than all nodes of the cluster have together. Warnings.

The requests of the pods, and the domains of exclusive Jobs, are compared with all nodes as if the nodes were idle: of
each ReplicatedJob, and of ReplicatedJobs that start together. Only checks with the rights of the JobSet's author give
these warnings, since admission would give wrong warnings in a cluster with an autoscaler.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from api.children import affinity_topology
from api.jobset import JobSet
from api.node_offers import format_amount, format_number
from kube.model.field import ErrorType, FieldError, Path
from kube.model.requests import Amounts, exceeding_resources
from policy.judged import JudgedJobSet, Template
from webhooks.jobset.cluster.quota import findings_alone_or_together, total_requests
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


def has_exclusive_jobs(judged: JudgedJobSet) -> bool:
    """Whether Jobs of the set have exclusive placement by affinity."""
    return any(template.job_count and affinity_topology(judged.js, template.rjob) for template in judged.templates)


def node_shortage_warnings(judged: JudgedJobSet, total: Amounts) -> Iterator[FieldError]:
    """Warnings about requests of more than all nodes offer together (`total`)."""
    return findings_alone_or_together(judged, partial(_node_shortage, total))


def domain_shortage_warnings(judged: JudgedJobSet, domains: Mapping[str, int]) -> Iterator[FieldError]:
    """Warnings about more exclusive Jobs than domains. `domains`: by key of a label, how many values the nodes have."""
    return findings_alone_or_together(judged, partial(_domain_shortage, judged.js, domains))


def _node_shortage(total: Amounts, path: Path, templates: Sequence[Template]) -> FieldError | None:
    """A warning about the first resource, by name, of which all nodes offer too little.

    `nodes.py` reports resources that no node offers.
    """
    needs = total_requests(templates)
    name = min(exceeding_resources(needs, total), default="")
    if not name:
        return None
    offered = format_number(total[name], name)
    return NODES_TOO_FEW.at(path, None, amount=format_amount(needs[name], name), offered=offered)


def _domain_shortage(
    js: JobSet, domains: Mapping[str, int], path: Path, templates: Sequence[Template]
) -> FieldError | None:
    """A warning about more exclusive Jobs of one priority than domains. `needs.py` reports labels that no node has."""
    job_counts = Counter[tuple[str, str]]()
    for template in templates:
        if topology := affinity_topology(js, template.rjob):
            job_counts[topology, str(template.pod.get("priorityClassName") or "")] += template.job_count
    for (topology, _), jobs in job_counts.items():
        if jobs > domains.get(topology, jobs):
            values = "1 value" if domains[topology] == 1 else f"{domains[topology]} values"
            return DOMAINS_TOO_FEW.at(path, None, jobs=jobs, values=values, topology=topology)
    return None
