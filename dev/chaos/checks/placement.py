"""Checks that no list of all pods shows a domain of exclusive placement that two Jobs share."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from api import keys
from dev.chaos.checks.violation import Violation
from kube.model.meta import JSON

RULE = "domain shared"


@dataclass(frozen=True, slots=True)
class Look:
    """The pods of exclusive Jobs that held a node at one time, each as (Job, node)."""

    at: float
    placed: Sequence[tuple[str, str]]


def pods_look(at: float, pods: Iterable[JSON]) -> Look:
    """The record of a list of pods. Pods that have ended hold no node."""
    placed = [
        (f"{pod['metadata']['namespace']}/{pod['metadata']['labels']['job-name']}", pod["spec"]["nodeName"])
        for pod in pods
        if keys.EXCLUSIVE_TOPOLOGY in (pod["metadata"].get("annotations") or {})
        and pod["spec"].get("nodeName")
        and (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}
    ]
    return Look(at, placed)


def check(looks: Iterable[Look], domains: Mapping[str, str]) -> list[Violation]:
    """A violation for each domain and set of Jobs that share it, at the first look that shows them.

    `domains` has the domain of each node.
    """
    violations: dict[tuple[str, ...], Violation] = {}
    for look in looks:
        jobs = defaultdict(set)
        for job, node in look.placed:
            jobs[domains[node]].add(job)
        for domain, domain_jobs in jobs.items():
            if len(domain_jobs) > 1:
                job_names = sorted(domain_jobs)
                violation = Violation(RULE, domain, f"held by {', '.join(job_names)} at once", look.at)
                violations.setdefault((domain, *job_names), violation)
    return list(violations.values())
