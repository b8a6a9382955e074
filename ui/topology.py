"""Which Job is in which domain (rack, node pool, host): the map of exclusive placement and gangs. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from diagnose.domains import domain_word
from kube.model.meta import JSON
from ui.records import PlacedPod, SeenNode

MAX_DOMAINS = 400
"""Domains of one map."""
MAX_JOBS = 16
"""Jobs that are listed for a domain; the others are counted."""

JobKey = tuple[str, str, str]
"""Namespace, JobSet, Job."""


@dataclass(slots=True)
class _PodCounts:
    """Numbers of pods of one Job in one domain."""

    pods: int = 0
    ready: int = 0


@dataclass(slots=True)
class _Domain:
    nodes: int = 0
    jobs: dict[JobKey, _PodCounts] = field(default_factory=lambda: defaultdict(_PodCounts))


def domain_map(
    topology: str,
    nodes: Iterable[SeenNode],
    pods: Iterable[PlacedPod],
    focus: tuple[str, str] | None = None,
    *,
    scope: str = "",
) -> JSON:
    """The domains of a node label, and the Jobs that have pods there. `scope`: the namespace of the pods, or empty.

    `waiting` has the Jobs with pods that have no node yet, or a node without the label. With `focus` (namespace,
    JobSet), the domains of this JobSet come first, and `waiting` has only its Jobs.
    """
    domain_names = {node.metadata.name: node.metadata.labels.get(topology) for node in nodes}
    domains: dict[str, _Domain] = defaultdict(_Domain)
    for domain_name in domain_names.values():
        if domain_name is not None:
            domains[domain_name].nodes += 1
    waiting = _Domain()
    for pod in pods:
        if not pod.is_unfinished:
            continue
        domain_name = domain_names.get(pod.node)
        if domain_name is None and focus is not None and focus != (pod.namespace, pod.jobset):
            continue
        pods_of_job = (waiting if domain_name is None else domains[domain_name]).jobs[
            pod.namespace, pod.jobset, pod.job
        ]
        pods_of_job.pods += 1
        pods_of_job.ready += pod.state == "Ready"
    names = sorted(domains, key=lambda name: (not _has_pods_of(domains[name], focus), _natural_sort_key(name)))
    return {
        "topology": topology,
        "noun": domain_word(topology),
        "scope": scope,
        "domains": [_domain_json(domains[name], focus) | {"name": name} for name in names[:MAX_DOMAINS]],
        "domainsLeftOut": max(len(names) - MAX_DOMAINS, 0),
        "nodesWithoutLabel": sum(domain_name is None for domain_name in domain_names.values()),
        "waiting": _domain_json(waiting, focus),
    }


def _has_pods_of(domain: _Domain, focus: tuple[str, str] | None) -> bool:
    return any((namespace, jobset) == focus for namespace, jobset, _ in domain.jobs)


def _domain_json(domain: _Domain, focus: tuple[str, str] | None) -> JSON:
    jobs = sorted(domain.jobs, key=lambda job: (job[:2] != focus, job[:2], _natural_sort_key(job[2])))
    return {
        "nodes": domain.nodes,
        "jobs": [_job(job, domain.jobs, focus) for job in jobs[:MAX_JOBS]],
        "jobsLeftOut": max(len(jobs) - MAX_JOBS, 0),
    }


def _job(job: JobKey, jobs: Mapping[JobKey, _PodCounts], focus: tuple[str, str] | None) -> JSON:
    namespace, jobset, name = job
    pods_of_job = jobs[job]
    return {
        "namespace": namespace,
        "jobset": jobset,
        "job": name,
        "pods": pods_of_job.pods,
        "ready": pods_of_job.ready,
        "own": focus is None or (namespace, jobset) == focus,
    }


def _natural_sort_key(text: str) -> list[tuple[int, int, str]]:
    """A key by which rack-2 comes before rack-10."""
    parts = re.findall(r"([0-9]+)|([^0-9]+)", text)
    return [(0, int(number[:18]), "") if number else (1, 0, word) for number, word in parts]
