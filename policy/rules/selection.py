"""The rule `nodeSelectors` of policies, about the nodes that pods select. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from kube.model.field import ErrorType, FieldError, Path
from kube.model.meta import JSON, Base, doc
from kube.model.suggest import did_you_mean
from policy.cel import Cel, CelPath, Index, Root, Writer, concat_lists, key_path, pod_path, text, texts
from policy.fields import Word, list_of, map_by
from policy.judged import JudgedJobSet, Namespace
from policy.rule import Compiled, PolicyRule, list_allowed, pod_fields
from policy.sentences import sentence


class NodeLabel(Base, frozen=True, kw_only=True):
    """A label of nodes by which pods may select them."""

    key: Annotated[str, doc("The key.", maxLength=317)]
    values: Annotated[tuple[Word, ...] | None, list_of("Values that may be selected. Absent: all.")] = None


class NodeSelectors(Base, frozen=True, kw_only=True):
    """Labels by which pods may select nodes."""

    allowed: Annotated[tuple[NodeLabel, ...], map_by("key", "Labels of nodes.")]


NODE_NAME = sentence(
    "nodeSelectors", ErrorType.FORBIDDEN, "a node may not be named", "leave the choice to kube-scheduler", "node-name"
)
NODE_LABEL = sentence("nodeSelectors", ErrorType.FORBIDDEN, "nodes may not be selected by {key}", "{allowed}", "key")
NODE_VALUE = sentence(
    "nodeSelectors", ErrorType.FORBIDDEN, "nodes may be selected by {key} only for certain values", "{allowed}"
)


def find_node_selectors(rule: NodeSelectors, judged: JudgedJobSet, _: Namespace) -> Iterator[FieldError]:
    """Pods may select nodes only by certain labels, and only by certain values of a label that has `values`.

    The rule checks node selectors and node affinity, required and preferred. If a label has `values`, an affinity has
    to select by `In`. A pod must not name a node, neither by `nodeName` nor by the field `metadata.name`. The node
    selectors that exclusive placement adds are allowed.

    Affinity to pods selects the nodes where these pods run. Anti-affinity to pods of other namespaces selects the nodes
    where these pods do not run. So their `topologyKey` has to be an allowed label without `values`, because a
    `topologyKey` names no value. Anti-affinity within the namespace and topologySpreadConstraints are allowed, because
    they only spread pods.
    """
    allowed = {label.key: label for label in rule.allowed}
    for template in judged.templates:
        pod, path = template.pod, template.pod_path
        if pod.get("nodeName"):
            yield NODE_NAME.at(path.at("nodeName"), pod["nodeName"])
        for key, value in (pod.get("nodeSelector") or {}).items():
            yield from _check_label(path.at("nodeSelector", key), allowed, key, (value,), value)
        affinity: JSON = (pod.get("affinity") or {}).get("nodeAffinity") or {}
        for term_path, term in _terms(affinity) if affinity else ():
            yield from _check_term(path.at("affinity", "nodeAffinity", *term_path), term, allowed)
        for term_path, term in _pod_terms(pod.get("affinity") or {}):
            key = term.get("topologyKey") or ""
            yield from _check_label(path.at("affinity", *term_path, "topologyKey"), allowed, key, None, key)


_REQUIRED, _PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
_POD_KINDS = ("podAffinity", "podAntiAffinity")
_Terms = Iterator[tuple[tuple[str | int, ...], JSON]]


def _terms(affinity: JSON) -> _Terms:
    """The terms of node affinity, required and preferred, each after its path."""
    for i, term in enumerate((affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        yield (_REQUIRED, "nodeSelectorTerms", i), term
    for i, item in enumerate(affinity.get(_PREFERRED) or ()):
        yield (_PREFERRED, i, "preference"), item.get("preference") or {}


def _pod_terms(affinity: JSON) -> _Terms:
    """The terms of affinity to pods, and of anti-affinity to pods of other namespaces, each after its path."""
    for kind in _POD_KINDS:
        terms: JSON = affinity.get(kind) or {}
        required = (((kind, _REQUIRED, i), term) for i, term in enumerate(terms.get(_REQUIRED) or ()))
        preferred = (
            ((kind, _PREFERRED, i, "podAffinityTerm"), item.get("podAffinityTerm") or {})
            for i, item in enumerate(terms.get(_PREFERRED) or ())
        )
        for term_path, term in (*required, *preferred):
            if kind == "podAffinity" or term.get("namespaces") or term.get("namespaceSelector") is not None:
                yield term_path, term


def _check_term(path: Path, term: JSON, allowed: Mapping[str, NodeLabel]) -> Iterator[FieldError]:
    """Findings about a term of node affinity."""
    for i, expression in enumerate(term.get("matchExpressions") or ()):
        key, is_in = expression.get("key") or "", expression.get("operator") == "In"
        selected_values = tuple(expression.get("values") or ()) if is_in else None
        yield from _check_label(path.at("matchExpressions", i), allowed, key, selected_values, expression)
    if term.get("matchFields"):
        yield NODE_NAME.at(path.at("matchFields"), term["matchFields"])


def _check_label(
    path: Path, allowed: Mapping[str, NodeLabel], key: str, values: tuple[str, ...] | None, stated: object
) -> Iterator[FieldError]:
    """Findings about the selection of nodes by a label.

    - `values`: the selected values; None for a selection without values.
    - `stated`: the selection in the manifest. It is compared, so that an update that changes it is a new violation.
    """
    label = allowed.get(key)
    if label is None:
        yield NODE_LABEL.at(path, stated, key=key, allowed=lambda: did_you_mean(key, allowed, intro="allowed are"))
        return
    allowed_values = label.values
    if allowed_values is not None and (values is None or any(value not in allowed_values for value in values)):
        yield NODE_VALUE.at(path, stated, key=key, allowed=lambda: f"allowed are: {', '.join(allowed_values)}")


_TERM_FIELDS = (f"nodeAffinity.{_REQUIRED}.nodeSelectorTerms[]", f"nodeAffinity.{_PREFERRED}[].preference")
_POD_TERM_FIELDS = tuple(
    f"{kind}.{term}" for kind in _POD_KINDS for term in (f"{_REQUIRED}[]", f"{_PREFERRED}[].podAffinityTerm")
)
_SELECTION_FIELDS = pod_fields(
    "nodeName",
    "nodeSelector{}",
    *(
        f"affinity.{term}.matchExpressions[].{part}"
        for term in _TERM_FIELDS
        for part in ("key", "operator", "values[]")
    ),
    *(f"affinity.{term}.matchFields[].key" for term in _TERM_FIELDS),
    *(f"affinity.{term}.topologyKey" for term in _POD_TERM_FIELDS),
)
_JOINED_VALUES = "{}.?values.orValue([]).map(v, string(v)).join(',')"
"""A template for the values of a requirement as one text, in CEL."""


def compile_node_selectors(rule: NodeSelectors, writer: Writer) -> Compiled:
    variables = (("terms", _cel_terms), ("podTerms", _cel_pod_terms))
    return Compiled(lambda root: _cel_findings(rule, root, writer), variables=variables)


def _cel_terms(root: Root) -> Cel:
    """A list of the terms of node affinity, each as a map with five keys.

    `t` is the term, `j` the index of the ReplicatedJob, and `k` the index of the term. The path of the term below the
    affinity consists of the text `a`, the index `k`, and the text `z`.
    """
    affinity = "p.?affinity.?nodeAffinity"
    required = (
        f"{affinity}.?{_REQUIRED}.?nodeSelectorTerms.orValue([]).transformList(k, t,"
        f" {{'j': dyn(i), 'k': dyn(k), 'a': dyn('{_REQUIRED}.nodeSelectorTerms'), 'z': dyn(''), 't': dyn(t)}})"
    )
    preferred = (
        f"{affinity}.?{_PREFERRED}.orValue([]).transformList(k, t,"
        f" {{'j': dyn(i), 'k': dyn(k), 'a': dyn('{_PREFERRED}'), 'z': dyn('.preference'),"
        " 't': dyn(t.?preference.orValue({}))})"
    )
    pods = root.variable("changedPods")
    return Cel(
        f"{pods}.transformList(i, p, {affinity}.hasValue(), {required}).flatten()"
        f" + {pods}.transformList(i, p, {affinity}.hasValue(), {preferred}).flatten()"
    )


def _cel_pod_terms(root: Root) -> Cel:
    """A list of the terms of affinity and anti-affinity of `_pod_terms`, in the form of `_cel_terms`."""
    selects_nodes = "(e == 'podAffinity' || t.?namespaces.orValue([]).size() > 0 || t.?namespaceSelector.hasValue())"
    kind, item = "p.?affinity[?e]", "'j': dyn(i), 'k': dyn(k), 't': dyn(t)"
    required = (
        f"{kind}.?{_REQUIRED}.orValue([]).transformList(k, t, {selects_nodes},"
        f" {{{item}, 'a': dyn(e + '.{_REQUIRED}'), 'z': dyn('')}})"
    )
    preferred = (
        f"{kind}.?{_PREFERRED}.orValue([]).map(w, w.podAffinityTerm).transformList(k, t, {selects_nodes},"
        f" {{{item}, 'a': dyn(e + '.{_PREFERRED}'), 'z': dyn('.podAffinityTerm')}})"
    )
    return Cel(
        f"{root.variable('changedPods')}.transformList(i, p, has(p.affinity), ['podAffinity', 'podAntiAffinity']"
        f".map(e, {required} + {preferred}).flatten()).flatten()"
    )


def _cel_findings(rule: NodeSelectors, root: Root, writer: Writer) -> Cel:
    """Findings about nodeName, nodeSelector, expressions and fields of node affinity, and affinity to pods.

    In the CEL, `i` is the index of a ReplicatedJob, `p` its pod spec, and `x` an item of the lists of `_cel_terms` and
    `_cel_pod_terms`.
    """
    pods, terms = root.variable("changedPods"), root.variable("terms")
    name_finding = writer.at(NODE_NAME, *pod_path("i", ".nodeName"), suffix=Cel("string(p.nodeName)"))
    by_name = f"{pods}.transformList(i, p, p.?nodeName.orValue('') != '', {name_finding})"
    path, key = pod_path("i")
    member = key_path(".nodeSelector", "key")
    selector_path = (Cel(f"({path}) + {member}"), Cel(f"({key}) + {member}"))
    selector_findings = _cel_label_findings(rule, selector_path, _BY_SELECTOR, writer)
    in_map = f"p.?nodeSelector.orValue({{}}).transformList(key, value, {selector_findings}).flatten()"
    by_map = f"{pods}.transformList(i, p, has(p.nodeSelector), {in_map}).flatten()"
    term_path = (Cel("string(x.a)"), Index("x.k"), Cel("string(x.z)"))
    expression_path = pod_path("x.j", ".affinity.nodeAffinity.", *term_path, ".matchExpressions", Index("m"))
    key_findings = _cel_label_findings(rule, expression_path, _BY_AFFINITY, writer)
    by_terms = (
        f"{terms}.map(x, x.t.?matchExpressions.orValue([]).transformList(m, e, [string(e.key)].map(key, {key_findings})"
        ".flatten()).flatten()).flatten()"
    )
    names = Cel(f"x.t.matchFields.map(f, {_JOINED_VALUES.format('f')}).join(';')")
    fields_path = pod_path("x.j", ".affinity.nodeAffinity.", *term_path, ".matchFields")
    field_finding = writer.at(NODE_NAME, *fields_path, suffix=names)
    by_field = f"{terms}.filter(x, x.t.?matchFields.orValue([]).size() > 0).map(x, {field_finding})"
    topology_path = pod_path("x.j", ".affinity.", *term_path, ".topologyKey")
    findings = _cel_label_findings(rule, topology_path, _BY_PODS, writer)
    by_pods = f"{root.variable('podTerms')}.map(x, [string(x.t.topologyKey)].map(key, {findings}).flatten()).flatten()"
    return concat_lists(Cel(by_name), Cel(by_map), Cel(by_terms), Cel(by_field), Cel(by_pods))


@dataclass(frozen=True, slots=True)
class _Selection:
    """A way to select nodes by the label `key`, in CEL.

    `by_value`: whether the selection names values. `values`: these values. `stated`: the selection in the manifest.
    """

    by_value: Cel
    values: Cel
    stated: Cel


_BY_SELECTOR = _Selection(Cel("true"), Cel("[value]"), Cel("string(value)"))
_BY_AFFINITY = _Selection(
    Cel("e.operator == 'In'"),
    Cel("e.?values.orValue([])"),
    Cel(f"string(e.operator) + ' ' + {_JOINED_VALUES.format('e')}"),
)
_BY_PODS = _Selection(Cel("false"), Cel("[key]"), Cel("string(key)"))


def _cel_label_findings(rule: NodeSelectors, at: CelPath, selection: _Selection, writer: Writer) -> Cel:
    """A list of the findings about a selection of nodes by the label `key`, as in `_check_label`."""
    allowed = texts(label.key for label in rule.allowed)
    allowed_text = list_allowed([label.key for label in rule.allowed])
    key_finding = writer.at(NODE_LABEL, *at, suffix=selection.stated, key=Cel("string(key)"), allowed=allowed_text)
    conditional = f"!(key in {allowed}) ? [{key_finding}] : "
    for label in rule.allowed:
        if label.values is not None:
            allowed_text = f"allowed are: {', '.join(label.values)}"
            finding = writer.at(NODE_VALUE, *at, suffix=selection.stated, key=label.key, allowed=allowed_text)
            is_allowed = f"{selection.by_value} && {selection.values}.all(v, v in {texts(label.values)})"
            conditional += f"key == {text(label.key)} && !({is_allowed}) ? [{finding}] : "
    return Cel(f"({conditional}[])")


NodeSelectorsRule = Annotated[
    NodeSelectors | None,
    doc("Nodes that pods may select."),
    PolicyRule(
        "nodeSelectors",
        (NODE_NAME, NODE_LABEL, NODE_VALUE),
        find_node_selectors,
        compile_node_selectors,
        reads=_SELECTION_FIELDS,
    ),
]
