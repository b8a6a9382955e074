"""Rules of policies about where pods run: priorities, exclusive placement, selected nodes, tolerated taints. Pure."""

from collections.abc import Iterator, Mapping

from api import keys
from kube.model.field import ErrorType, FieldError, Path
from kube.model.meta import JSON
from kube.model.suggest import did_you_mean
from policy.judged import METADATA, Judged, Namespace, Template
from policy.rule_types import (
    AllowedToleration,
    ExclusiveTopologies,
    NodeLabel,
    NodeSelectors,
    PriorityClasses,
    Tolerations,
)
from policy.rules.words import PolicyRule, declared, of_jobs, of_pods, one_of

NO_PRIORITY = declared("priorityClasses", ErrorType.REQUIRED, "", "name one of {allowed}", "missing")
PRIORITY = declared("priorityClasses", ErrorType.NOT_SUPPORTED, "this priority class is not allowed", "{allowed}")
NO_TOPOLOGY = declared(
    "exclusiveTopologies", ErrorType.REQUIRED, "", "name the node label of a topology: {allowed}", "missing"
)
TOPOLOGY = declared("exclusiveTopologies", ErrorType.NOT_SUPPORTED, "this topology is not allowed", "{allowed}")
NODE_NAME = declared(
    "nodeSelectors", ErrorType.FORBIDDEN, "a node may not be named", "leave the choice to kube-scheduler", "node-name"
)
NODE_LABEL = declared("nodeSelectors", ErrorType.FORBIDDEN, "nodes may not be selected by {key}", "{allowed}", "key")
NODE_VALUE = declared(
    "nodeSelectors", ErrorType.FORBIDDEN, "nodes may be selected by {key} only for certain values", "{allowed}"
)
UNTAINTED = declared(
    "tolerations",
    ErrorType.FORBIDDEN,
    "a node may not be named: its taints would not be looked at",
    "leave the choice to kube-scheduler",
    "node-name",
)
TOLERATION = declared("tolerations", ErrorType.FORBIDDEN, "{what} may not be tolerated", "{allowed}")


def priority_classes(rule: PriorityClasses, judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """Pods may name only certain priority classes.

    Pods without one get the default of the cluster, and pass. With `required` they have to name one.
    """
    for template in judged.templates:
        name, path = template.pod.get("priorityClassName"), template.at("priorityClassName")
        if name:
            yield from one_of(PRIORITY, path, name, rule.allowed)
        elif rule.required:
            yield NO_PRIORITY.at(path, allowed=lambda: ", ".join(rule.allowed))


def exclusive_topologies(rule: ExclusiveTopologies, judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """Exclusive placement may use only certain topologies, or has to be used.

    The topology is that of the annotation `alpha.jobset.sigs.k8s.io/exclusive-topology` of the Job template, else of
    the JobSet, else of the pod template. With `required` every ReplicatedJob needs one.
    """
    seen: set[Path] = set()
    for template in judged.templates:
        topology, place = _topology(judged, template)
        path = place.at("annotations", keys.EXCLUSIVE_TOPOLOGY)
        if path in seen:
            continue
        seen.add(path)
        if topology:
            yield from one_of(TOPOLOGY, path, topology, rule.allowed)
        elif rule.required:
            yield NO_TOPOLOGY.at(path, allowed=lambda: ", ".join(rule.allowed or ()) or "any")


def _topology(judged: Judged, template: Template) -> tuple[str, Path]:
    """The topology that is in force for the pods of a template, and the metadata that has it, or could."""
    of_job, of_pod = template.path.at("template", "metadata"), template.job_path.at("template", "metadata")
    whole, key = judged.js.metadata.annotations, keys.EXCLUSIVE_TOPOLOGY
    pod: JSON = (template.rjob.job_spec.get("template") or {}).get("metadata") or {}
    for annotations, place in (
        (template.rjob.annotations, of_job),
        (whole, METADATA),
        (pod.get("annotations") or {}, of_pod),
    ):
        if key in annotations:
            return annotations[key], place
    return "", of_job


def node_selectors(rule: NodeSelectors, judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """Pods may select nodes only by certain labels, and where these have `values`, only by those.

    Node selectors and node affinity are looked at, required and preferred. Where a label has `values`, an affinity has
    to select by `In`. A node may not be named, neither by `nodeName` nor by its field `metadata.name`. What exclusive
    placement adds by itself is not the author's, and passes.

    Affinity to pods selects the nodes where these run, and anti-affinity to pods of other namespaces those where they
    do not. So its `topologyKey` has to be an allowed label, too, without `values`: it cannot say which value it takes.
    Anti-affinity within the namespace and topologySpreadConstraints only spread pods, and pass.
    """
    allowed = {label.key: label for label in rule.allowed}
    for template in judged.templates:
        pod, path = template.pod, template.pod_path
        if pod.get("nodeName"):
            yield NODE_NAME.at(path.at("nodeName"), pod["nodeName"])
        for key, value in (pod.get("nodeSelector") or {}).items():
            yield from _selected(path.at("nodeSelector", key), allowed, key, (value,), value)
        affinity: JSON = (pod.get("affinity") or {}).get("nodeAffinity") or {}
        for place, term in _terms(affinity) if affinity else ():
            yield from _term(path.at("affinity", "nodeAffinity", *place), term, allowed)
        for place, term in _pod_terms(pod.get("affinity") or {}):
            key = term.get("topologyKey") or ""
            yield from _selected(path.at("affinity", *place, "topologyKey"), allowed, key, None, key)


_REQUIRED, _PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
_POD_KINDS = ("podAffinity", "podAntiAffinity")
_Terms = Iterator[tuple[tuple[str | int, ...], JSON]]


def _terms(affinity: JSON) -> _Terms:
    for i, term in enumerate((affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        yield (_REQUIRED, "nodeSelectorTerms", i), term
    for i, item in enumerate(affinity.get(_PREFERRED) or ()):
        yield (_PREFERRED, i, "preference"), item.get("preference") or {}


def _pod_terms(affinity: JSON) -> _Terms:
    """Terms that select the nodes where certain pods run, or where pods of other namespaces do not."""
    for kind in _POD_KINDS:
        terms: JSON = affinity.get(kind) or {}
        required = (((kind, _REQUIRED, i), term) for i, term in enumerate(terms.get(_REQUIRED) or ()))
        preferred = (
            ((kind, _PREFERRED, i, "podAffinityTerm"), item.get("podAffinityTerm") or {})
            for i, item in enumerate(terms.get(_PREFERRED) or ())
        )
        for place, term in (*required, *preferred):
            if kind == "podAffinity" or term.get("namespaces") or term.get("namespaceSelector") is not None:
                yield place, term


def _term(path: Path, term: JSON, allowed: Mapping[str, NodeLabel]) -> Iterator[FieldError]:
    for i, expression in enumerate(term.get("matchExpressions") or ()):
        chosen = tuple(expression.get("values") or ()) if expression.get("operator") == "In" else None
        yield from _selected(path.at("matchExpressions", i), allowed, expression.get("key") or "", chosen, expression)
    if term.get("matchFields"):
        yield NODE_NAME.at(path.at("matchFields"), term["matchFields"])


def _selected(
    path: Path, allowed: Mapping[str, NodeLabel], key: str, values: tuple[str, ...] | None, stated: object
) -> Iterator[FieldError]:
    """Nodes that are selected by a label: for these values, or in a way that names none (None).

    `stated`: all of what the author has written. It is not shown; an update that changes it is a new violation.
    """
    label = allowed.get(key)
    if label is None:
        yield NODE_LABEL.at(path, stated, key=key, allowed=lambda: did_you_mean(key, allowed, what="allowed are"))
        return
    known = label.values
    if known is not None and (values is None or any(value not in known for value in values)):
        yield NODE_VALUE.at(path, stated, key=key, allowed=lambda: f"allowed are: {', '.join(known)}")


def tolerations(rule: Tolerations, judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """Pods may tolerate only certain taints, by key, and where they are given by value and effect.

    A toleration without a key tolerates every taint, and is refused. One that has no effect tolerates all effects, and
    `Exists` all values: both are refused where the policy names certain ones, and so is a comparison of numbers. What
    exclusive placement adds by itself is not the author's, and passes. A pod with a `nodeName` passes by the scheduler,
    which looks at taints, and is refused.
    """
    allowed = {entry.key: entry for entry in rule.allowed}
    for template in judged.templates:
        if template.pod.get("nodeName"):
            yield UNTAINTED.at(template.at("nodeName"), template.pod["nodeName"])
        for i, toleration in enumerate(template.pod.get("tolerations") or ()):
            what = _untolerable(toleration, allowed.get(toleration.get("key") or ""))
            if what:
                path = template.at("tolerations", i)
                yield TOLERATION.at(path, toleration, what=what, allowed=lambda: taints(rule))


def _untolerable(toleration: JSON, entry: AllowedToleration | None) -> str:
    """What may not be tolerated, in words; empty when all of it may."""
    key = toleration.get("key") or ""
    if entry is None:
        return f"the taint {key}" if key else "every taint"
    effect, operator = toleration.get("effect") or "", toleration.get("operator") or "Equal"
    if entry.effects is not None and effect not in entry.effects:
        return f"{effect or 'every effect'} of the taint {key}"
    if entry.values is not None and (operator != "Equal" or (toleration.get("value") or "") not in entry.values):
        return f"{'every value' if operator == 'Exists' else 'this value'} of the taint {key}"
    return ""


def taints(rule: Tolerations) -> str:
    """The taints that may be tolerated, in words."""
    return "allowed are: " + ", ".join(
        entry.key
        + (f"={'|'.join(entry.values)}" if entry.values is not None else "")
        + (f":{'|'.join(entry.effects)}" if entry.effects is not None else "")
        for entry in rule.allowed
    )


_TOPOLOGIES = (
    "metadata.annotations{}",
    "spec.replicatedJobs[].template.metadata.annotations{}",
    *of_jobs("template.metadata.annotations{}"),
)
_TERMS = (
    f"nodeAffinity.{_REQUIRED}.nodeSelectorTerms[]",
    f"nodeAffinity.{_PREFERRED}[].preference",
)
_POD_TERMS = tuple(
    f"{kind}.{term}" for kind in _POD_KINDS for term in (f"{_REQUIRED}[]", f"{_PREFERRED}[].podAffinityTerm")
)
_SELECTIONS = of_pods(
    "nodeName",
    "nodeSelector{}",
    *(f"affinity.{term}.matchExpressions[].{part}" for term in _TERMS for part in ("key", "operator", "values[]")),
    *(f"affinity.{term}.matchFields[].key" for term in _TERMS),
    *(f"affinity.{term}.topologyKey" for term in _POD_TERMS),
)
_TOLERATIONS = of_pods("nodeName", *(f"tolerations[].{part}" for part in ("key", "operator", "value", "effect")))

RULES = (
    PolicyRule("priorityClasses", (NO_PRIORITY, PRIORITY), priority_classes, reads=of_pods("priorityClassName")),
    PolicyRule("exclusiveTopologies", (NO_TOPOLOGY, TOPOLOGY), exclusive_topologies, reads=_TOPOLOGIES),
    PolicyRule("nodeSelectors", (NODE_NAME, NODE_LABEL, NODE_VALUE), node_selectors, reads=_SELECTIONS),
    PolicyRule("tolerations", (UNTAINTED, TOLERATION), tolerations, reads=_TOLERATIONS),
)
