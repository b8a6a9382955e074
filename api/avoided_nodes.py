"""Keeps pods away from nodes that caused failures of a JobSet (`failurePolicy.avoidNodes`). Pure.

See docs/concepts/avoid-nodes.md.
"""

from collections.abc import Sequence

from api import keys
from api.exclusive import topology_of
from api.jobset import JobSet
from api.jobset_status import FailedNode
from kube.model.meta import JSON, age

GATE = "JobSetAvoidNodes"
"""The feature gate of `failurePolicy.avoidNodes`."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def recent_failures(js: JobSet, now: str) -> tuple[FailedNode, ...]:
    """The nodes whose last failure is less than `avoidNodes.forSeconds` ago, in the order of these failures."""
    policy = js.failure_policy.avoid_nodes
    if policy is None:
        return ()
    return tuple(node for node in js.status.failed_nodes if age(node.last_time, now) < policy.for_seconds)


def nodes_to_avoid(js: JobSet, now: str) -> tuple[FailedNode, ...]:
    """The nodes that the pods of new Jobs keep away from, in the order of their last failure."""
    policy = js.failure_policy.avoid_nodes
    if policy is None:
        return ()
    nodes = [node for node in recent_failures(js, now) if node.failures >= policy.after_failures]
    return tuple(nodes[-policy.max_nodes :])


def avoided_node_names(annotations: dict[str, str]) -> frozenset[str]:
    """Names of the nodes that the pods of a Job keep away from. `annotations`: those of the Job."""
    return frozenset(filter(None, annotations.get(keys.AVOIDED_NODES, "").split(",")))


def with_avoided_nodes(job: JSON, nodes: Sequence[FailedNode]) -> JSON:
    """The Job with a node affinity against these nodes and, in exclusive placement, against their topology domains."""
    if not nodes:
        return job
    meta, template = job["metadata"], job["spec"]["template"]
    affinity: JSON = template["spec"].get("affinity") or {}
    node_affinity: JSON = affinity.get("nodeAffinity") or {}
    required: JSON = node_affinity.get(_REQUIRED) or {}
    topology = topology_of(template["metadata"]["annotations"])
    domains = sorted({node.domain for node in nodes if node.domain and node.topology_key == topology})
    # The API server accepts one value in a requirement for a field. The requirements use the field metadata.name, since
    # the label kubernetes.io/hostname may have another value.
    fields: list[JSON] = [{"key": "metadata.name", "operator": "NotIn", "values": [node.name]} for node in nodes]
    labels: list[JSON] = [{"key": topology, "operator": "NotIn", "values": domains}] if domains else []
    terms = [_with_requirements(term, labels, fields) for term in required.get("nodeSelectorTerms") or [None]]
    spec = {
        **template["spec"],
        "affinity": {
            **affinity,
            "nodeAffinity": {**node_affinity, _REQUIRED: {**required, "nodeSelectorTerms": terms}},
        },
    }
    names = ",".join(node.name for node in nodes)
    return {
        **job,
        "metadata": {**meta, "annotations": {**meta["annotations"], keys.AVOIDED_NODES: names}},
        "spec": {**job["spec"], "template": {**template, "spec": spec}},
    }


def _with_requirements(term: JSON | None, labels: list[JSON], fields: list[JSON]) -> JSON:
    """The node selector term with these requirements about labels and fields added; a new term if `term` is None.

    Terms are alternatives. A term without requirements matches no node, so it is not changed.
    """
    if term is not None and not (term.get("matchExpressions") or term.get("matchFields")):
        return term
    user_term = term or {}
    expressions = [*(user_term.get("matchExpressions") or []), *labels]
    return {
        **user_term,
        **({"matchExpressions": expressions} if expressions else {}),
        "matchFields": [*(user_term.get("matchFields") or []), *fields],
    }
