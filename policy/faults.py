"""Finds faults of a policy that the schema of its CRD cannot find. Pure.

The method `faults` of a record finds faults that only this record can have. This file finds all others.
"""

from collections.abc import Iterator

import msgspec

from kube.model.field import SPEC, ErrorType, FieldError, Path, by_path, quote
from kube.model.validation import qualified_name
from policy.defaults import refusals
from policy.evaluate import rules_in_force
from policy.fields import CheckedRecord, has_wildcard, records
from policy.judged import Namespace
from policy.sentences import invalid
from policy.types import DENY, WARN, JobSetPolicy

NO_RULES = invalid("rules", ErrorType.REQUIRED, "", "add a rule, or defaults: without them the policy does nothing")
OWN_RULE = invalid(
    "own-default", ErrorType.FORBIDDEN, "rule {rule} of this policy refuses it", "change the default or the rule"
)
NO_ACTIONS = invalid("actions", ErrorType.REQUIRED, "", "write [Deny], [Warn] or [Audit], or leave it out for [Warn]")
DENY_AND_WARN = invalid(
    "deny-and-warn",
    ErrorType.INVALID,
    "Deny and Warn exclude each other: a refusal says it already",
    "keep one of them",
)
EMPTY = invalid("empty", ErrorType.REQUIRED, "an empty list", "name what is meant, or remove the rule")
KEY = invalid("key", ErrorType.INVALID, "{complaint}", "a key is NAME or PREFIX/NAME, such as example.com/team")
WILDCARD = invalid("wildcard", ErrorType.INVALID, "no wildcards: it is compared as it is", "{fix}")


def faults(policy: JobSetPolicy) -> list[FieldError]:
    """All faults of a policy that the schema has accepted, sorted by path."""
    errors = [*_actions(policy), *_rules(policy)]
    for path, record in records(policy.spec, SPEC):
        if isinstance(record, CheckedRecord):
            errors += record.faults(path)
        errors += _fields(record, path)
    return by_path(errors)


def cautions(policy: JobSetPolicy) -> list[FieldError]:
    """Warnings about a policy without faults whose effects are probably not intended."""
    path = SPEC.at("rules")
    return [error for rule, demand in rules_in_force(policy) for error in rule.cautions(demand, path.at(rule.name))]


def _actions(policy: JobSetPolicy) -> Iterator[FieldError]:
    actions, path = policy.spec.validation_actions, SPEC.at("validationActions")
    if not actions:
        yield NO_ACTIONS.at(path)
    if DENY in actions and WARN in actions:
        yield DENY_AND_WARN.at(path, list(actions))


def _rules(policy: JobSetPolicy) -> Iterator[FieldError]:
    if policy.spec.defaults is None and not any(rules_in_force(policy)):
        yield NO_RULES.at(SPEC.at("rules"))
    # The rules of the policy, applied to its own defaults.
    for refusal in refusals(policy, policy, Namespace()):
        yield OWN_RULE.at(SPEC.at("defaults", *refusal.default.location), rule=refusal.rule)


def _fields(record: msgspec.Struct, path: Path) -> Iterator[FieldError]:
    """Faults of the fields of one record: empty lists, keys, wildcards."""
    for field in msgspec.structs.fields(record):
        member, field_path = getattr(record, field.name), path.at(field.encode_name)
        if member == () and field.default != () and field.name != "validation_actions":
            yield EMPTY.at(field_path)
        if field.name in _KEYS:
            yield from _keys(member, field_path)
        if field.name in _VALUES:
            yield from _wildcards(member, field_path, optional=field.default is None)


_KEYS = {
    "allowed_resources",
    "from_namespace_annotation",
    "from_namespace_label",
    "key",
    "labels",
    "match_labels",
    "node_selector",
    "resources",
}
"""Fields that hold keys of labels, annotations, taints or resources."""
_VALUES = {"allowed", "allowed_resources", "match_labels", "values"}
"""Fields with values that are compared literally."""


def _wildcards(value: object, path: Path, *, optional: bool) -> Iterator[FieldError]:
    """Faults of texts with wildcards. `optional`: whether a policy without the field allows everything."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, tuple) else ()
    for key, text in pairs:
        if isinstance(text, str) and has_wildcard(text):
            fix = f"leave {path.parts[-1]} out to allow all" if optional and text == "*" else "name each that is meant"
            if path.parts[-2:] == ("imageRegistries", "allowed"):
                fix = _registry_fix(text)
            yield WILDCARD.at(path.at(key), text, fix=fix)


def _registry_fix(entry: str) -> str:
    folder = entry.rstrip("/*")
    if not folder:
        return "leave the rule out to allow all registries"
    return "name each registry" if has_wildcard(folder) else f"write {quote(folder)}: it allows what is below it"


def _keys(value: object, path: Path) -> Iterator[FieldError]:
    if isinstance(value, str):
        yield from _key(value, path) if value or path.parts[-1] == "key" else ()
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _key(item, path.at(i)) if isinstance(item, str) else ()
    elif isinstance(value, dict):
        for key in value:
            yield from _key(key, path.at(key))


def _key(key: str, path: Path) -> Iterator[FieldError]:
    return (KEY.at(path, key, complaint=complaint) for complaint in qualified_name(key))
