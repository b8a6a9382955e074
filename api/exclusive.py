"""Exclusive placement: each child Job has a topology domain of its own (docs/reference/pod-webhooks.md). Pure.

The leader, which is the pod with completion index 0, looks for a domain that no other Job of its priority has. The
other pods of the Job follow the leader by a node selector. This module is about the affinity strategy; the
node-selector strategy does not change pods.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from api import keys
from api.topology import Leader
from kube.model.jsontree import dig, items
from kube.model.meta import JSON

MAX_READ_REPLICATED_JOBS = 1000
"""`is_exclusive` looks for the annotation in at most this many ReplicatedJobs of a manifest."""

EXCLUDED_NAMESPACES = ("kube-system", keys.MANAGER_NAMESPACE)
"""Namespaces whose pods no webhook or policy reviews, since pods there must not depend on this program."""
WITHOUT_INDEX = (
    "create the JobSet again with completionMode: Indexed and completions for this ReplicatedJob, or without the"
    f" annotation {keys.EXCLUSIVE_TOPOLOGY}"
)
"""The fix for pods without a completion index, in messages of webhooks and policies."""
MADE_BY_HAND = (
    f"the Job of a JobSet gives it to its pods: take the annotation {keys.EXCLUSIVE_TOPOLOGY} off pods that you make"
    " yourself"
)
"""The fix for pods without labels that only a Job gives them, in messages of webhooks and policies."""


class TermForm(enum.Enum):
    """The form of the leader's anti-affinity. Both forms mean the same to kube-scheduler."""

    LABEL_KEYS = "LabelKeys"
    """matchLabelKeys and mismatchLabelKeys, which the API server turns into expressions (GA in Kubernetes 1.33)."""
    EXPRESSIONS = "Expressions"
    """Expressions, as in the Go JobSet."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The domain of a Job. `value`: the value of the topology label of its leader's node."""

    value: str
    leader: str
    node: str


@dataclass(frozen=True, slots=True)
class NoDomain:
    """Why a Job's domain is not known, as a sentence without a full stop.

    `leader` is empty if there is no leader, and `node` is empty if the leader is not bound.
    """

    reason: str
    leader: str = ""
    node: str = ""


def topology_of(annotations: Mapping[str, str]) -> str | None:
    """The topology key of the exclusive placement of a pod with these annotations; None without exclusive placement."""
    if keys.JOBSET_NAME not in annotations or keys.NODE_SELECTOR_STRATEGY in annotations:
        return None
    return annotations.get(keys.EXCLUSIVE_TOPOLOGY)


def is_exclusive(obj: JSON) -> bool:
    """Whether the manifest of a JobSet, Job or pod asks for exclusive placement by affinity, not by node selectors."""
    jobs = [dig(rjob, "template") for rjob in items(obj, "spec", "replicatedJobs")[:MAX_READ_REPLICATED_JOBS]]
    pods = [dig(job, "spec", "template") for job in jobs]
    levels = (dig(manifest, "metadata", "annotations") for manifest in (obj, *jobs, *pods))
    return any(
        dig(annotations, keys.EXCLUSIVE_TOPOLOGY) and not dig(annotations, keys.NODE_SELECTOR_STRATEGY)
        for annotations in levels
    )


def leads(annotations: Mapping[str, str]) -> bool:
    """Whether a pod with these annotations is the leader of its Job."""
    return annotations.get(keys.COMPLETION_INDEX) == "0"


def priority_label(priority: int) -> str:
    """The value of the priority label: decimal, or `minus7` for -7, since no label value begins with a dash."""
    return str(priority) if priority >= 0 else f"minus{-priority}"


def affinity_term(topology: str, job_key: str) -> JSON:
    """Pod affinity of a leader to the pods of its own Job, so that a new leader comes back to its followers.

    `job_key`: the hash of the Job's namespace and name, which its pods have as a label.
    """
    selector = {"matchExpressions": [{"key": keys.JOB_KEY, "operator": "In", "values": [job_key]}]}
    return {"labelSelector": selector, "topologyKey": topology, "namespaceSelector": {}}


def anti_affinity_term(topology: str, job_key: str, priority: str | None, form: TermForm) -> JSON:
    """Pod anti-affinity of a leader against the pods of other Jobs of its priority, in all namespaces.

    `priority` is the value of the pod's priority label. If it is None, as without Priority admission, the leader keeps
    away from the pods of all other Jobs.
    """
    term: JSON = {"topologyKey": topology, "namespaceSelector": {}}
    exists = {"key": keys.JOB_KEY, "operator": "Exists"}
    if form is TermForm.LABEL_KEYS:
        term["labelSelector"] = {"matchExpressions": [exists]}
        term["matchLabelKeys"] = [keys.PRIORITY]
        term["mismatchLabelKeys"] = [keys.JOB_KEY]
        return term
    not_own = {"key": keys.JOB_KEY, "operator": "NotIn", "values": [job_key]}
    same_priority = [] if priority is None else [{"key": keys.PRIORITY, "operator": "In", "values": [priority]}]
    term["labelSelector"] = {"matchExpressions": [exists, not_own, *same_priority]}
    return term


def valid_leader(leaders: Iterable[Leader]) -> Leader | None:
    """The valid leader among the leader pods of a Job: it is live, and of the newest attempt."""
    return _newest(leader for leader in leaders if leader.is_live)


def former_leader(leaders: Iterable[Leader]) -> Leader | None:
    """The leader pod that has succeeded.

    The Job creates no other leader, so followers that are created again use the domain of this one.
    """
    return _newest(leader for leader in leaders if leader.succeeded)


def _newest(leaders: Iterable[Leader]) -> Leader | None:
    return max(leaders, key=lambda leader: (leader.attempt, leader.created, leader.name), default=None)
