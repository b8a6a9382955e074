"""Rules about where pods run, in CEL. Pure."""

from dataclasses import dataclass

from api import keys
from policy.compiled.cel import (
    Cel,
    Index,
    Place,
    Root,
    Say,
    added,
    conditional,
    of_pod,
    of_template,
    place,
    quoted,
    text,
    texts,
)
from policy.compiled.metadata import below
from policy.compiled.words import Compiled, allowed_are
from policy.judged import METADATA
from policy.rule_types import (
    AllowedToleration,
    ExclusiveTopologies,
    NodeLabel,
    NodeSelectors,
    PriorityClasses,
    Tolerations,
)
from policy.rules import placement as rules


def priority_classes(rule: PriorityClasses, say: Say) -> Compiled:
    name = "string(p.?priorityClassName.orValue(''))"
    at = of_pod("i", ".priorityClassName")
    other = say.at(rules.PRIORITY, *at, shown=quoted(Cel(name)), allowed=allowed_are(rule.allowed))
    missing = say.at(rules.NO_PRIORITY, *at, allowed=", ".join(rule.allowed))

    def found(root: Root) -> Cel:
        wrong = f"{name} != '' && !({name} in {texts(rule.allowed)})"
        lists = [Cel(f"{root.variable('changedPods')}.transformList(i, p, {wrong}, {other})")]
        if rule.required:
            lists.append(Cel(f"{root.variable('changedPods')}.transformList(i, p, {name} == '', {missing})"))
        return added(*lists)

    return Compiled(found)


_KEY = text(keys.EXCLUSIVE_TOPOLOGY)


def exclusive_topologies(rule: ExclusiveTopologies, say: Say) -> Compiled:
    """The topology is that of the Job template, else of the JobSet, else of the pod template."""
    of_job = f"j.?template.?metadata.?annotations[?{_KEY}]"
    of_pods = f"j.?template.?spec.?template.?metadata.?annotations[?{_KEY}]"
    at_job = of_template("i", f".template.metadata.annotations[{keys.EXCLUSIVE_TOPOLOGY}]")
    at_pod = of_template("i", f".template.spec.template.metadata.annotations[{keys.EXCLUSIVE_TOPOLOGY}]")
    at_set = place(str(METADATA.at("annotations", keys.EXCLUSIVE_TOPOLOGY)))

    def judged(value: str, at: Place) -> Cel:
        """A list of what is found about the topology at a place."""
        lists = []
        if rule.allowed is not None:
            shown = quoted(Cel(f"string({value})"))
            finding = say.at(rules.TOPOLOGY, *at, shown=shown, allowed=allowed_are(rule.allowed))
            lists.append(conditional(f"{value} != '' && !({value} in {texts(rule.allowed)})", finding))
        if rule.required:
            missing = say.at(rules.NO_TOPOLOGY, *at, allowed=", ".join(rule.allowed or ()) or "any")
            lists.append(conditional(f"{value} == ''", missing))
        return added(*lists)

    def found(root: Root) -> Cel:
        jobs, whole = root.variable("jobs"), f"{root.variable('annotations')}[?{_KEY}]"
        in_job = judged(f"{of_job}.orValue('')", at_job)
        own = Cel(f"{jobs}.transformList(i, j, {of_job}.hasValue(), {in_job}).flatten()")
        rest = f"{jobs}.exists(j, !{of_job}.hasValue())"
        in_set = judged(f"{whole}.orValue('')", at_set)
        of_set = f"({whole}.hasValue() && {rest} ? {in_set} : [])"
        in_pod = judged(f"{of_pods}.orValue('')", at_pod)
        nowhere = judged("''", at_job)
        others = (
            f"({whole}.hasValue() ? [] : {jobs}.transformList(i, j, !{of_job}.hasValue(),"
            f" {of_pods}.hasValue() ? {in_pod} : {nowhere}).flatten())"
        )
        return added(own, Cel(of_set), Cel(others))

    return Compiled(found)


_LISTED = "{}.?values.orValue([]).map(v, string(v)).join(',')"
"""The values of a requirement, as one text."""

_REQUIRED, _PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))


def node_selectors(rule: NodeSelectors, say: Say) -> Compiled:
    variables = (("terms", _terms), ("podTerms", _pod_terms))
    return Compiled(lambda root: added(*_selected(rule, root, say)), variables=variables)


def _terms(root: Root) -> Cel:
    """Each term of node affinity as a map: `j`, `k` its number, its place `a` and `z` around that, and `t`."""
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


def _pod_terms(root: Root) -> Cel:
    """Each term of affinity to pods, and of anti-affinity to those of other namespaces, as above. `e`: its kind."""
    elsewhere = "(e == 'podAffinity' || t.?namespaces.orValue([]).size() > 0 || t.?namespaceSelector.hasValue())"
    kind, item = "p.?affinity[?e]", "'j': dyn(i), 'k': dyn(k), 't': dyn(t)"
    required = (
        f"{kind}.?{_REQUIRED}.orValue([]).transformList(k, t, {elsewhere},"
        f" {{{item}, 'a': dyn(e + '.{_REQUIRED}'), 'z': dyn('')}})"
    )
    preferred = (
        f"{kind}.?{_PREFERRED}.orValue([]).map(w, w.podAffinityTerm).transformList(k, t, {elsewhere},"
        f" {{{item}, 'a': dyn(e + '.{_PREFERRED}'), 'z': dyn('.podAffinityTerm')}})"
    )
    return Cel(
        f"{root.variable('changedPods')}.transformList(i, p, has(p.affinity), ['podAffinity', 'podAntiAffinity']"
        f".map(e, {required} + {preferred}).flatten()).flatten()"
    )


def _selected(rule: NodeSelectors, root: Root, say: Say) -> list[Cel]:
    pods, terms = root.variable("changedPods"), root.variable("terms")
    name = say.at(rules.NODE_NAME, *of_pod("i", ".nodeName"), apart=Cel("string(p.nodeName)"))
    by_name = f"{pods}.transformList(i, p, p.?nodeName.orValue('') != '', {name})"
    path, key = of_pod("i")
    at = (Cel(f"({path}) + {below('.nodeSelector', 'key')}"), Cel(f"({key}) + {below('.nodeSelector', 'key')}"))
    in_map = f"p.?nodeSelector.orValue({{}}).transformList(key, value, {_label(rule, at, _BY_SELECTOR, say)}).flatten()"
    by_map = f"{pods}.transformList(i, p, has(p.nodeSelector), {in_map}).flatten()"
    term: tuple[str | Cel | Index, ...] = (
        ".affinity.nodeAffinity.",
        Cel("string(x.a)"),
        Index("x.k"),
        Cel("string(x.z)"),
    )
    expression = of_pod("x.j", *term, ".matchExpressions", Index("m"))
    judged = _label(rule, expression, _BY_AFFINITY, say)
    by_terms = (
        f"{terms}.map(x, x.t.?matchExpressions.orValue([]).transformList(m, e, [string(e.key)].map(key, {judged})"
        ".flatten()).flatten()).flatten()"
    )
    names = Cel(f"x.t.matchFields.map(f, {_LISTED.format('f')}).join(';')")
    field = say.at(rules.NODE_NAME, *of_pod("x.j", *term, ".matchFields"), apart=names)
    by_field = f"{terms}.filter(x, x.t.?matchFields.orValue([]).size() > 0).map(x, {field})"
    pods_at = of_pod("x.j", ".affinity.", Cel("string(x.a)"), Index("x.k"), Cel("string(x.z)"), ".topologyKey")
    beside = _label(rule, pods_at, _BY_PODS, say)
    by_pods = f"{root.variable('podTerms')}.map(x, [string(x.t.topologyKey)].map(key, {beside}).flatten()).flatten()"
    return [Cel(by_name), Cel(by_map), Cel(by_terms), Cel(by_field), Cel(by_pods)]


@dataclass(frozen=True, slots=True)
class _Selection:
    """A way to select nodes by the label `key`: whether it names values, and which. `stated`: what the author wrote."""

    by_value: Cel
    values: Cel
    stated: Cel


_BY_SELECTOR = _Selection(Cel("true"), Cel("[value]"), Cel("string(value)"))
_BY_AFFINITY = _Selection(
    Cel("e.operator == 'In'"),
    Cel("e.?values.orValue([])"),
    Cel(f"string(e.operator) + ' ' + {_LISTED.format('e')}"),
)
_BY_PODS = _Selection(Cel("false"), Cel("[key]"), Cel("string(key)"))


def _label(rule: NodeSelectors, at: Place, chosen: _Selection, say: Say) -> Cel:
    """A list of what is found about nodes that are selected by the label `key`."""
    allowed = texts(label.key for label in rule.allowed)
    words = allowed_are([label.key for label in rule.allowed])
    unknown = say.at(rules.NODE_LABEL, *at, apart=chosen.stated, key=Cel("string(key)"), allowed=words)
    other = f"!(key in {allowed}) ? [{unknown}] : "
    for label in rule.allowed:
        if label.values is not None:
            other += _value(label, at, chosen, say)
    return Cel(f"({other}[])")


def _value(label: NodeLabel, at: Place, chosen: _Selection, say: Say) -> str:
    known = label.values or ()
    words = f"allowed are: {', '.join(known)}"
    wrong = say.at(rules.NODE_VALUE, *at, apart=chosen.stated, key=label.key, allowed=words)
    good = f"{chosen.by_value} && {chosen.values}.all(v, v in {texts(known)})"
    return f"key == {text(label.key)} && !({good}) ? [{wrong}] : "


def tolerations(rule: Tolerations, say: Say) -> Compiled:
    at = of_pod("i", ".tolerations", Index("k"))
    stated = Cel(" + ' ' + ".join(f"string(t.?{field}.orValue(''))" for field in ("operator", "value", "effect")))
    finding = say.at(rules.TOLERATION, *at, apart=stated, what=Cel("what"), allowed=rules.taints(rule))
    known = texts(entry.key for entry in rule.allowed)
    node = say.at(rules.UNTAINTED, *of_pod("i", ".nodeName"), apart=Cel("string(p.nodeName)"))
    what = f"!({_TAINT} in {known}) ? ({_TAINT} == '' ? 'every taint' : 'the taint ' + {_TAINT}) : "
    what += "".join(f"{_TAINT} == {text(entry.key)} ? {_untolerable(entry)} : " for entry in rule.allowed) + "''"

    def found(root: Root) -> Cel:
        pods = root.variable("changedPods")
        of_pods = Cel(
            f"{pods}.transformList(i, p, has(p.tolerations), p.tolerations.transformList(k, t,"
            f" [{what}].filter(what, what != '').map(what, {finding})).flatten()).flatten()"
        )
        return added(of_pods, Cel(f"{pods}.transformList(i, p, p.?nodeName.orValue('') != '', {node})"))

    return Compiled(found)


_TAINT = "string(t.?key.orValue(''))"


def _untolerable(entry: AllowedToleration) -> str:
    """What may not be tolerated of a taint, in words; empty when all of it may."""
    of_taint, what = text(f" of the taint {entry.key!s}"), "''"
    if entry.values is not None:
        operator, value = "t.?operator.orValue('')", "t.?value.orValue('')"
        exists = f"{operator} == 'Exists'"
        wrong = f"!({operator} in ['', 'Equal']) || !({value} in {texts(entry.values)})"
        what = f"({wrong} ? ({exists} ? 'every value' : 'this value') + {of_taint} : '')"
    if entry.effects is not None:
        effect = "string(t.?effect.orValue(''))"
        named = f"({effect} == '' ? 'every effect' : {effect}) + {of_taint}"
        what = f"(!({effect} in {texts(entry.effects)}) ? {named} : {what})"
    return what
