"""Exclusive placement: each Job has a topology domain for itself (docs/reference/pod-webhooks.md). Pure.

A topology domain is all nodes with the same value of a label, such as a rack. An annotation with the key of the label
asks for exclusive placement. The leader of a Job is its pod with completion index 0. kube-scheduler finds a domain for
the leader by anti-affinity to other Jobs of the same priority. The other pods of the Job, its followers, get a node
selector for the domain of the leader.

This module is about this affinity strategy. In the other strategy, a second annotation makes the controller add a node
selector to each Job, and users label the nodes.
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
    """How a leader's anti-affinity is written. kube-scheduler places pods in the same way with both forms."""

    LABEL_KEYS = "LabelKeys"
    """With matchLabelKeys and mismatchLabelKeys, which become expressions when stored (GA in Kubernetes 1.33)."""
    EXPRESSIONS = "Expressions"
    """With matchExpressions, as in the Go JobSet."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The domain of a Job: the value of the topology label, and the names of the leader and its node."""

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
    """The term of pod affinity by which a new leader of a Job goes to the domain of the Job's other pods.

    `job_key`: the hash of the Job's namespace and name, which its pods have as a label.
    """
    selector = {"matchExpressions": [{"key": keys.JOB_KEY, "operator": "In", "values": [job_key]}]}
    return {"labelSelector": selector, "topologyKey": topology, "namespaceSelector": {}}


def anti_affinity_term(topology: str, job_key: str, priority: str | None, form: TermForm) -> JSON:
    """The term of pod anti-affinity by which a leader avoids the domains of other Jobs, in all namespaces.

    `priority`: the value of the leader's priority label. The leader avoids Jobs with the same priority, and all other
    Jobs if `priority` is None because no priority admission has run.
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
    """The leader pod that the followers of a Job follow: the newest one that has not ended and is not being deleted."""
    return _newest(leader for leader in leaders if leader.is_live)


def former_leader(leaders: Iterable[Leader]) -> Leader | None:
    """The newest leader pod that has succeeded.

    Its Job does not create another leader, so new followers use the domain of this leader.
    """
    return _newest(leader for leader in leaders if leader.succeeded)


def _newest(leaders: Iterable[Leader]) -> Leader | None:
    return max(leaders, key=lambda leader: (leader.attempt, leader.created, leader.name), default=None)
