"""The rule `tolerations` of policies, about the taints that pods tolerate. Pure."""

from collections.abc import Iterator
from typing import Annotated

from kube.model.field import ErrorType, FieldError
from kube.model.meta import JSON, Base, doc
from policy.cel import Cel, Index, Root, Writer, concat_lists, pod_path, text, texts
from policy.fields import Word, list_of, map_by
from policy.judged import JudgedJobSet, Namespace
from policy.rule import PolicyRule, findings_only, pod_fields
from policy.sentences import sentence


class AllowedToleration(Base, frozen=True, kw_only=True):
    """A taint that pods may tolerate."""

    key: Annotated[str, doc("Key of the taint.", maxLength=317)]
    values: Annotated[tuple[Word, ...] | None, list_of("Values of the taint that may be tolerated. Absent: all.")] = (
        None
    )
    effects: Annotated[
        tuple[Annotated[str, doc("An effect.", enum=["NoSchedule", "PreferNoSchedule", "NoExecute"])], ...] | None,
        list_of("Effects of the taint that may be tolerated. Absent: all."),
    ] = None


class Tolerations(Base, frozen=True, kw_only=True):
    """Taints that pods may tolerate."""

    allowed: Annotated[tuple[AllowedToleration, ...], map_by("key", "Taints.")]


NODE_NAME = sentence(
    "tolerations",
    ErrorType.FORBIDDEN,
    "a node may not be named: its taints would not be looked at",
    "leave the choice to kube-scheduler",
    "node-name",
)
TOLERATION = sentence("tolerations", ErrorType.FORBIDDEN, "{what} may not be tolerated", "{allowed}")


def find_tolerations(rule: Tolerations, judged: JudgedJobSet, _: Namespace) -> Iterator[FieldError]:
    """Pods may tolerate only taints with certain keys, and only certain values and effects if the policy names them.

    A toleration without a key tolerates every taint, and is refused. A toleration without an effect tolerates all
    effects, and is refused if the policy names effects. `Exists` tolerates all values, and is refused, like
    comparisons of numbers, if the policy names values. The toleration that exclusive placement adds is allowed. A pod
    with a `nodeName` is refused, as it bypasses the scheduler, which checks taints.
    """
    allowed = {entry.key: entry for entry in rule.allowed}
    for template in judged.templates:
        if template.pod.get("nodeName"):
            yield NODE_NAME.at(template.at("nodeName"), template.pod["nodeName"])
        for i, toleration in enumerate(template.pod.get("tolerations") or ()):
            refused_part = _refused_part(toleration, allowed.get(toleration.get("key") or ""))
            if refused_part:
                path = template.at("tolerations", i)
                yield TOLERATION.at(path, toleration, what=refused_part, allowed=lambda: list_taints(rule))


def _refused_part(toleration: JSON, entry: AllowedToleration | None) -> str:
    """The part of a toleration that is not allowed, in words; empty if the toleration is allowed."""
    key = toleration.get("key") or ""
    if entry is None:
        return f"the taint {key}" if key else "every taint"
    effect, operator = toleration.get("effect") or "", toleration.get("operator") or "Equal"
    if entry.effects is not None and effect not in entry.effects:
        return f"{effect or 'every effect'} of the taint {key}"
    if entry.values is not None and (operator != "Equal" or (toleration.get("value") or "") not in entry.values):
        return f"{'every value' if operator == 'Exists' else 'this value'} of the taint {key}"
    return ""


def list_taints(rule: Tolerations) -> str:
    """The list of the taints that may be tolerated, for the end of a message."""
    return "allowed are: " + ", ".join(
        entry.key
        + (f"={'|'.join(entry.values)}" if entry.values is not None else "")
        + (f":{'|'.join(entry.effects)}" if entry.effects is not None else "")
        for entry in rule.allowed
    )


_TOLERATION_FIELDS = pod_fields(
    "nodeName", *(f"tolerations[].{part}" for part in ("key", "operator", "value", "effect"))
)


# In the CEL, `i` is the index of a ReplicatedJob, `p` its pod spec, and `t` the toleration with the index `k`.
@findings_only
def compile_tolerations(rule: Tolerations, writer: Writer, root: Root) -> Cel:
    at = pod_path("i", ".tolerations", Index("k"))
    stated = Cel(" + ' ' + ".join(f"string(t.?{field}.orValue(''))" for field in ("operator", "value", "effect")))
    finding = writer.at(TOLERATION, *at, suffix=stated, what=Cel("what"), allowed=list_taints(rule))
    keys = texts(entry.key for entry in rule.allowed)
    node = writer.at(NODE_NAME, *pod_path("i", ".nodeName"), suffix=Cel("string(p.nodeName)"))
    refused = f"!({_KEY} in {keys}) ? ({_KEY} == '' ? 'every taint' : 'the taint ' + {_KEY}) : "
    refused += "".join(f"{_KEY} == {text(entry.key)} ? {_cel_refused_part(entry)} : " for entry in rule.allowed) + "''"
    pods = root.variable("changedPods")
    toleration_findings = Cel(
        f"{pods}.transformList(i, p, has(p.tolerations), p.tolerations.transformList(k, t,"
        f" [{refused}].filter(what, what != '').map(what, {finding})).flatten()).flatten()"
    )
    return concat_lists(toleration_findings, Cel(f"{pods}.transformList(i, p, p.?nodeName.orValue('') != '', {node})"))


_KEY = "string(t.?key.orValue(''))"


def _cel_refused_part(entry: AllowedToleration) -> str:
    """An expression for the result of `_refused_part` about a toleration of the taint of `entry`."""
    of_taint, refused = text(f" of the taint {entry.key!s}"), "''"
    if entry.values is not None:
        operator, value = "t.?operator.orValue('')", "t.?value.orValue('')"
        exists = f"{operator} == 'Exists'"
        wrong = f"!({operator} in ['', 'Equal']) || !({value} in {texts(entry.values)})"
        refused = f"({wrong} ? ({exists} ? 'every value' : 'this value') + {of_taint} : '')"
    if entry.effects is not None:
        effect = "string(t.?effect.orValue(''))"
        effect_text = f"({effect} == '' ? 'every effect' : {effect}) + {of_taint}"
        refused = f"(!({effect} in {texts(entry.effects)}) ? {effect_text} : {refused})"
    return refused


TolerationsRule = Annotated[
    Tolerations | None,
    doc("Taints that pods may tolerate."),
    PolicyRule("tolerations", (NODE_NAME, TOLERATION), find_tolerations, compile_tolerations, reads=_TOLERATION_FIELDS),
]
