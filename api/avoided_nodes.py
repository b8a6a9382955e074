"""Nodes that failed a JobSet, and the terms that keep pods away from them (`failurePolicy.avoidNodes`). Pure.

See docs/concepts/avoid-nodes.md.
"""

from collections.abc import Sequence

from api import keys
from api.exclusive import topology_of
from api.jobset import JobSet
from api.jobset_status import FailedNode
from api.policies import AvoidNodes
from kube.model.meta import JSON, age

GATE = "JobSetAvoidNodes"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def policy_of(js: JobSet) -> AvoidNodes | None:
    """The set's policy about nodes that failed it; None if it has none."""
    policy = js.spec.failure_policy
    return policy.avoid_nodes if policy is not None else None


def recent_failures(js: JobSet, now: str) -> tuple[FailedNode, ...]:
    """The nodes whose failure still counts, by the time of their last failure."""
    policy = policy_of(js)
    if policy is None:
        return ()
    return tuple(node for node in js.status.failed_nodes if age(node.last_time, now) < policy.for_seconds)


def nodes_to_avoid(js: JobSet, now: str) -> tuple[FailedNode, ...]:
    """The nodes that the pods of new Jobs keep away from, with the time of their last failure."""
    policy = policy_of(js)
    if policy is None:
        return ()
    found = [node for node in recent_failures(js, now) if node.failures >= policy.after_failures]
    return tuple(found[-policy.max_nodes :])


def avoided_by(annotations: dict[str, str]) -> frozenset[str]:
    """Names of the nodes that pods of a Job with these annotations keep away from."""
    return frozenset(filter(None, annotations.get(keys.AVOIDED_NODES, "").split(",")))


def away_from(job: JSON, nodes: Sequence[FailedNode]) -> JSON:
    """The Job with an affinity against these nodes; in exclusive placement, against their domains."""
    if not nodes:
        return job
    meta, template = job["metadata"], job["spec"]["template"]
    affinity: JSON = template["spec"].get("affinity") or {}
    of_nodes: JSON = affinity.get("nodeAffinity") or {}
    required: JSON = of_nodes.get(_REQUIRED) or {}
    topology = topology_of(template["metadata"]["annotations"])
    domains = sorted({node.domain for node in nodes if node.domain and node.topology_key == topology})
    # The API server takes one value for each requirement of a field. The names of nodes are those of their metadata:
    # the label kubernetes.io/hostname may have another value.
    fields: list[JSON] = [{"key": "metadata.name", "operator": "NotIn", "values": [node.name]} for node in nodes]
    labels: list[JSON] = [{"key": topology, "operator": "NotIn", "values": domains}] if domains else []
    terms = [_with(term, labels, fields) for term in required.get("nodeSelectorTerms") or [None]]
    spec = {
        **template["spec"],
        "affinity": {
            **affinity,
            "nodeAffinity": {**of_nodes, _REQUIRED: {**required, "nodeSelectorTerms": terms}},
        },
    }
    names = ",".join(node.name for node in nodes)
    return {
        **job,
        "metadata": {**meta, "annotations": {**meta["annotations"], keys.AVOIDED_NODES: names}},
        "spec": {**job["spec"], "template": {**template, "spec": spec}},
    }


def _with(term: JSON | None, labels: list[JSON], fields: list[JSON]) -> JSON:
    """The node selector term with these requirements added. None: the pods have no terms.

    Terms are alternatives. One without requirements matches no node, so it stays as it is.
    """
    have = {} if term is None else term
    if term is not None and not (have.get("matchExpressions") or have.get("matchFields")):
        return have
    expressions = [*(have.get("matchExpressions") or []), *labels]
    return {
        **have,
        **({"matchExpressions": expressions} if expressions else {}),
        "matchFields": [*(have.get("matchFields") or []), *fields],
    }
