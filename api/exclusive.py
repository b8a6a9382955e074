"""Exclusive placement: each child Job alone on one topology domain (docs/reference/pod-webhooks.md). Pure.

The pod with completion index 0 leads: it looks for a domain that no other Job of its priority has. The others follow it
by a node selector. All of this is about the affinity strategy; the node-selector strategy does not change pods.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from api import keys
from api.topology import Leader
from kube.model.jsontree import dig, items
from kube.model.meta import JSON

MAX_READ = 1000
"""ReplicatedJobs of a JobSet, as its user writes it, in which `is_exclusive` looks for the annotation."""

EXCLUDED_NAMESPACES = ("kube-system", keys.MANAGER_NAMESPACE)
"""Namespaces whose pods reach neither webhooks nor policies: what runs there must not depend on us."""
WITHOUT_INDEX = (
    "create the JobSet again with completionMode: Indexed and completions for this ReplicatedJob, or without the"
    f" annotation {keys.EXCLUSIVE_TOPOLOGY}"
)
"""The fix for pods without a completion index, as webhooks and policies say it."""
MADE_BY_HAND = (
    f"the Job of a JobSet gives it to its pods: take the annotation {keys.EXCLUSIVE_TOPOLOGY} off pods that you make"
    " yourself"
)
"""The fix for pods without what only a Job gives them, as webhooks and policies say it."""


class TermForm(enum.Enum):
    """How the leader's anti-affinity is written. Both mean the same to the scheduler."""

    LABEL_KEYS = "LabelKeys"
    """With matchLabelKeys and mismatchLabelKeys, which the API server writes out (GA in Kubernetes 1.33)."""
    EXPRESSIONS = "Expressions"
    """Written out by us, as the Go JobSet does."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Where a Job is: the value of the topology label of its leader's node."""

    value: str
    leader: str
    node: str


@dataclass(frozen=True, slots=True)
class NoDomain:
    """Why a Job's domain is not known: a sentence without a full stop.

    `leader` is empty when there is none, and `node` until it is bound.
    """

    why: str
    leader: str = ""
    node: str = ""


def topology_of(annotations: Mapping[str, str]) -> str | None:
    """The topology key of the exclusive placement of a pod with these annotations; None without exclusive placement."""
    if keys.JOBSET_NAME not in annotations or keys.NODE_SELECTOR_STRATEGY in annotations:
        return None
    return annotations.get(keys.EXCLUSIVE_TOPOLOGY)


def is_exclusive(obj: JSON) -> bool:
    """Whether a JobSet, as its user writes it, asks for exclusive Jobs, or a pod or its Job for one domain."""
    templates = (dig(rjob, "template") for rjob in items(obj, "spec", "replicatedJobs")[:MAX_READ])
    levels = (dig(each, "metadata", "annotations") for each in (obj, *templates))
    return any(dig(each, keys.EXCLUSIVE_TOPOLOGY) and not dig(each, keys.NODE_SELECTOR_STRATEGY) for each in levels)


def leads(annotations: Mapping[str, str]) -> bool:
    """Whether a pod with these annotations is its Job's leader."""
    return annotations.get(keys.COMPLETION_INDEX) == "0"


def priority_label(priority: int) -> str:
    """The value of the priority label: decimal, or `minus7` for -7, since no label value begins with a dash."""
    return str(priority) if priority >= 0 else f"minus{-priority}"


def affinity_term(topology: str, job_key: str) -> JSON:
    """Pod affinity of a leader: to the pods of its own Job, so that a new one comes back to its followers."""
    selector = {"matchExpressions": [{"key": keys.JOB_KEY, "operator": "In", "values": [job_key]}]}
    return {"labelSelector": selector, "topologyKey": topology, "namespaceSelector": {}}


def anti_affinity_term(topology: str, job_key: str, priority: str | None, form: TermForm) -> JSON:
    """Pod anti-affinity of a leader: against the pods of other Jobs of its priority, in all namespaces.

    `priority` is the value of the pod's priority label; without it (no Priority admission) the term excludes Jobs of
    every priority.
    """
    term: JSON = {"topologyKey": topology, "namespaceSelector": {}}
    exists = {"key": keys.JOB_KEY, "operator": "Exists"}
    if form is TermForm.LABEL_KEYS:
        term["labelSelector"] = {"matchExpressions": [exists]}
        term["matchLabelKeys"] = [keys.PRIORITY]
        term["mismatchLabelKeys"] = [keys.JOB_KEY]
        return term
    not_own = {"key": keys.JOB_KEY, "operator": "NotIn", "values": [job_key]}
    same = [] if priority is None else [{"key": keys.PRIORITY, "operator": "In", "values": [priority]}]
    term["labelSelector"] = {"matchExpressions": [exists, not_own, *same]}
    return term


def valid_leader(leaders: Iterable[Leader]) -> Leader | None:
    """The leader pod of a Job, from all that carry its UID: the one alive, of the newest attempt."""
    return _newest(leader for leader in leaders if leader.live)


def former_leader(leaders: Iterable[Leader]) -> Leader | None:
    """The leader pod that has succeeded.

    Its Job creates no other one, so followers that are created again use its domain.
    """
    return _newest(leader for leader in leaders if leader.succeeded)


def _newest(leaders: Iterable[Leader]) -> Leader | None:
    return max(leaders, key=lambda leader: (leader.attempt, leader.created, leader.name), default=None)
