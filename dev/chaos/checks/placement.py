"""Checks that no list of all pods shows a domain of exclusive placement that two Jobs share."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from api import keys
from dev.chaos.checks.violation import Violation
from kube.model.meta import JSON

RULE = "domain shared"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The pods of exclusive Jobs that held a node at one time (seconds since 1970), each as (Job, node)."""

    at: float
    placed: Sequence[tuple[str, str]]


def snapshot_of(at: float, pods: Iterable[JSON]) -> Snapshot:
    """The snapshot for a list of pods. Pods that have ended hold no node."""
    placed = [
        (f"{pod['metadata']['namespace']}/{pod['metadata']['labels']['job-name']}", pod["spec"]["nodeName"])
        for pod in pods
        if keys.EXCLUSIVE_TOPOLOGY in (pod["metadata"].get("annotations") or {})
        and pod["spec"].get("nodeName")
        and (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}
    ]
    return Snapshot(at, placed)


def check(snapshots: Iterable[Snapshot], domains: Mapping[str, str]) -> list[Violation]:
    """A violation for each domain and set of Jobs that share it, at the first snapshot that shows them.

    `domains` has the domain of each node.
    """
    violations: dict[tuple[str, ...], Violation] = {}
    for snapshot in snapshots:
        jobs_by_domain = defaultdict(set)
        for job, node in snapshot.placed:
            jobs_by_domain[domains[node]].add(job)
        for domain, jobs in jobs_by_domain.items():
            if len(jobs) > 1:
                violation = Violation(RULE, domain, f"held by {', '.join(sorted(jobs))} at once", snapshot.at)
                violations.setdefault((domain, *sorted(jobs)), violation)
    return list(violations.values())
