"""Rules about containers, in CEL. Pure."""

from collections.abc import Callable, Mapping
from functools import partial

from kube.model.field import Rule
from kube.model.requests import is_of_pods
from policy.compiled.cel import Cel, Index, Place, Root, Say, added, literal, of_pod, of_template, text, texts
from policy.compiled.metadata import below
from policy.compiled.resources import claims
from policy.compiled.words import Compiled
from policy.rule_types import RequiredResources
from policy.rules import containers as rules
from policy.rules.node_uses import ITEM, USES, Field, Holder, Use


def required_requests(rule: RequiredResources, say: Say) -> Compiled:
    return _missing_amounts(rule, rules.REQUEST, ("requests", "limits"), say)


def required_limits(rule: RequiredResources, say: Say) -> Compiled:
    return _missing_amounts(rule, rules.LIMIT, ("limits",), say)


def _missing_amounts(rule: RequiredResources, missing: Rule, kinds: tuple[str, ...], say: Say) -> Compiled:
    """Findings about containers that do not state a resource in any of these ways."""
    of_pods = texts(filter(is_of_pods, rule.resources))

    def stated(holder: str) -> str:
        return " || ".join(f"{holder}.?resources.?{kind}[?r].hasValue()" for kind in kinds)

    def found(root: Root) -> Cel:
        at = below(f".resources.{kinds[0]}", "r")
        finding = say.at(missing, *_in_container(at), resource=Cel("r"))
        whole = f"(r in {of_pods} && ({stated('x.p')}))" if any(map(is_of_pods, rule.resources)) else "false"
        containers = root.variable("containers")
        return Cel(
            f"{texts(rule.resources)}.map(r, {containers}.filter(x, !({stated('x.c')} || {whole})).map(x, {finding}))"
            ".flatten()"
        )

    return Compiled(found)


def _in_container(*rest: str | Cel | Index) -> Place:
    return of_pod("x.j", ".", Cel("string(x.f)"), Index("x.k"), *rest)


def forbid(rule: tuple[str, ...], say: Say) -> Compiled:
    return Compiled(lambda root: added(*(_FORBIDDEN[what](root, say) for what in rule)))


def _field(field: Field, use: Use, root: Root, say: Say) -> Cel:
    """Findings about the values of a field that are not harmless."""
    items, holder, at = _HOLDERS[field.holder]
    listed, _, rest = " ".join(field.parts).partition(f" {ITEM}")
    value = f"{holder}{''.join(f'.?{part}' for part in listed.split())}"
    if ITEM not in field.parts:
        finding = _finding(field, use, say, f"{value}.value()", *at, f".{'.'.join(field.parts)}")
        return Cel(f"{items(root)}.filter(x, {_harmful(value, field)}).map(x, {finding})")
    chosen = f"optional.of(v){''.join(f'.?{part}' for part in rest.split())}"
    inside = "".join(f".{part}" for part in rest.split())
    finding = _finding(field, use, say, f"{chosen}.value()", *at, f".{listed.replace(' ', '.')}", Index("q"), inside)
    each = f"{value}.orValue([]).transformList(q, v, {_harmful(chosen, field)}, {finding})"
    return Cel(f"{items(root)}.filter(x, {value}.hasValue()).map(x, {each}).flatten()")


def _finding(field: Field, use: Use, say: Say, value: str, *place: str | Cel | Index) -> Cel:
    apart = Cel(f"string({value})") if field.harmless else None
    return say.at(rules.FORBIDDEN, *of_pod("x.j", *place), apart=apart, what=use.what, fix=use.fix)


def _harmful(value: str, field: Field) -> str:
    """Whether an optional value is there and is none of the harmless ones."""
    known = ", ".join(str(literal(each)) for each in field.harmless)
    return f"{value}.hasValue()" + (f" && !({value}.value() in [{known}])" if known else "")


def _pods(root: Root) -> Cel:
    return Cel(f"{root.variable('changedPods')}.transformList(i, p, {{'j': dyn(i), 'p': dyn(p)}})")


_HOLDERS: Mapping[Holder, tuple[Callable[[Root], Cel], str, tuple[str | Cel | Index, ...]]] = {
    Holder.POD: (_pods, "x.p", ()),
    Holder.CONTAINER: (lambda root: root.variable("containers"), "x.c", (".", Cel("string(x.f)"), Index("x.k"))),
    Holder.VOLUME: (lambda root: root.variable("volumes"), "x.v", (".volumes", Index("x.k"))),
}
"""For each holder: its list, what an item `x` of that has for it, and the place of that."""


def _uses(what: str, root: Root, say: Say) -> Cel:
    use = USES[what]
    return added(*(_field(field, use, root, say) for field in use.fields))


def _app_armor(root: Root, say: Say) -> Cel:
    use = USES["appArmor"]
    path, key = of_template("i", ".template.spec.template")
    inside = below(".metadata.annotations", "key")
    where = (Cel(f"({path}) + {inside}"), Cel(f"({key}) + {inside}"))
    finding = say.at(rules.FORBIDDEN, *where, apart=Cel("string(value)"), what=use.what, fix=use.fix)
    local = f"value.startsWith({text(rules.APP_ARMOR_LOCAL)})"
    harmful = f"key.startsWith({text(rules.APP_ARMOR)}) && !(value in {texts(rules.APP_ARMOR_HARMLESS)} || {local})"
    annotations = "j.?template.?spec.?template.?metadata.?annotations.orValue({})"
    by_annotation = f"{annotations}.transformList(key, value, {harmful}, {finding})"
    return added(
        _uses("appArmor", root, say), Cel(f"{root.variable('jobs')}.transformList(i, j, {by_annotation}).flatten()")
    )


def _resource_claims(root: Root, say: Say) -> Cel:
    fix = "remove it, and request a resource that counts them"
    return claims(root, lambda at: say.at(rules.FORBIDDEN, *at, what="a claim for devices", fix=fix))


_FORBIDDEN: Mapping[str, Callable[[Root, Say], Cel]] = {
    **{what: partial(_uses, what) for what in USES},
    "appArmor": _app_armor,
    "resourceClaims": _resource_claims,
}
