"""Rules about labels and annotations of the JobSet, in CEL. Pure."""

from kube.model.field import Rule
from policy.compiled.cel import Cel, Root, Say, added, conditional, quoted, text, texts
from policy.compiled.words import Compiled, allowed_are
from policy.judged import METADATA
from policy.rule_types import RequiredPair, RequiredQueue
from policy.rules import metadata as rules


def required_queue(rule: RequiredQueue, say: Say) -> Compiled:
    known = texts(rule.labels)
    first = text(str(METADATA.at("labels", str(rule.labels[0]))))
    missing = say.at(rules.NO_QUEUE, first, labels=" or ".join(rule.labels))

    def found(root: Root) -> Cel:
        labels = root.variable("labels")
        named = f"{labels}[?k].orValue('') != ''"
        none = conditional(f"!{known}.exists(k, {named})", missing)
        if rule.allowed is None:
            return none
        path, value = below("metadata.labels", "k"), quoted(Cel(f"string({labels}[k])"))
        other = say.at(rules.QUEUE, path, shown=value, allowed=allowed_are(rule.allowed))
        return added(
            none, Cel(f"{known}.filter(k, {named} && !({labels}[k] in {texts(rule.allowed)})).map(k, {other})")
        )

    return Compiled(found)


def below(path: str, key: str) -> Cel:
    """The place of a key, an expression, in the map at a path."""
    return Cel(f"({text(path)} + ({key}.contains('.') || {key}.contains('/') ? '[' + {key} + ']' : '.' + {key}))")


def _pairs(pairs: tuple[RequiredPair, ...], field: str, missing: Rule, wrong: Rule, say: Say) -> Compiled:
    def found(root: Root) -> Cel:
        return added(*(_pair(pair, field, root.variable(field), missing, wrong, say) for pair in pairs))

    return Compiled(found)


def _pair(pair: RequiredPair, field: str, values: Cel, missing: Rule, wrong: Rule, say: Say) -> Cel:
    path, key = text(str(METADATA.at(field, str(pair.key)))), text(pair.key)
    form = f" with a value that matches '{pair.pattern!s}'" if pair.pattern else ""
    none = conditional(f"!({key} in {values})", say.at(missing, path, key=pair.key, form=form))
    if not pair.pattern:
        return none
    whole, value = text(f"^(?:{pair.pattern!s})$"), quoted(Cel(f"string({values}[{key}])"))
    unfit = say.at(wrong, path, shown=value, pattern=pair.pattern)
    return added(none, conditional(f"{key} in {values} && !string({values}[{key}]).matches({whole})", unfit))


def required_labels(rule: tuple[RequiredPair, ...], say: Say) -> Compiled:
    return _pairs(rule, "labels", rules.NO_LABEL, rules.LABEL, say)


def required_annotations(rule: tuple[RequiredPair, ...], say: Say) -> Compiled:
    return _pairs(rule, "annotations", rules.NO_ANNOTATION, rules.ANNOTATION, say)
