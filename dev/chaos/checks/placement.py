"""Exclusive domains are never shared, in any list of all pods."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from api import keys
from dev.chaos.checks.violation import Violation
from kube.model.meta import JSON

RULE = "domain shared"


@dataclass(frozen=True, slots=True)
class Look:
    """The pods of exclusive Jobs that held a node at one time: (Job, node) each."""

    at: float
    placed: Sequence[tuple[str, str]]


def look(at: float, pods: Iterable[JSON]) -> Look:
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
    """`domains` gives each node's. One violation for each domain and set of Jobs, at the first look that shows it."""
    found: dict[tuple[str, ...], Violation] = {}
    for one in looks:
        jobs = defaultdict(set)
        for job, node in one.placed:
            jobs[domains[node]].add(job)
        for domain, held in jobs.items():
            if len(held) > 1:
                sharing = sorted(held)
                violation = Violation(RULE, domain, f"held by {', '.join(sharing)} at once", one.at)
                found.setdefault((domain, *sharing), violation)
    return list(found.values())
