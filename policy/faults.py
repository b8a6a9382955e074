"""Finds faults of a policy that the schema of its CRD cannot find. Pure.

A fault is an error that the author of the policy has to correct. The method `faults` of a record finds faults that only
this record can have. This file finds all other faults.
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
    errors = [*_action_faults(policy), *_rule_faults(policy)]
    for path, record in records(policy.spec, SPEC):
        if isinstance(record, CheckedRecord):
            errors += record.faults(path)
        errors += _field_faults(record, path)
    return by_path(errors)


def cautions(policy: JobSetPolicy) -> list[FieldError]:
    """Warnings about a policy without faults whose effects are probably not intended."""
    path = SPEC.at("rules")
    return [error for rule, demand in rules_in_force(policy) for error in rule.cautions(demand, path.at(rule.name))]


def _action_faults(policy: JobSetPolicy) -> Iterator[FieldError]:
    actions, path = policy.spec.validation_actions, SPEC.at("validationActions")
    if not actions:
        yield NO_ACTIONS.at(path)
    if DENY in actions and WARN in actions:
        yield DENY_AND_WARN.at(path, list(actions))


def _rule_faults(policy: JobSetPolicy) -> Iterator[FieldError]:
    if policy.spec.defaults is None and not any(rules_in_force(policy)):
        yield NO_RULES.at(SPEC.at("rules"))
    for refusal in refusals(policy, policy, Namespace()):
        yield OWN_RULE.at(SPEC.at("defaults", *refusal.default.location), rule=refusal.rule)


def _field_faults(record: msgspec.Struct, path: Path) -> Iterator[FieldError]:
    """Faults of the fields of one record: empty lists, invalid keys, wildcards."""
    for field in msgspec.structs.fields(record):
        value, field_path = getattr(record, field.name), path.at(field.encode_name)
        if value == () and field.default != () and field.name != "validation_actions":
            yield EMPTY.at(field_path)
        if field.name in _KEY_FIELDS:
            yield from _key_faults(value, field_path)
        if field.name in _VALUE_FIELDS:
            yield from _wildcard_faults(value, field_path, optional=field.default is None)


_KEY_FIELDS = {
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
_VALUE_FIELDS = {"allowed", "allowed_resources", "match_labels", "values"}
"""Fields with values that are compared literally."""


def _wildcard_faults(value: object, path: Path, *, optional: bool) -> Iterator[FieldError]:
    """Faults of texts with wildcards. `optional`: whether everything is allowed without the field."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, tuple) else ()
    for key, text in pairs:
        if isinstance(text, str) and has_wildcard(text):
            fix = f"leave {path.parts[-1]} out to allow all" if optional and text == "*" else "name each that is meant"
            if path.parts[-2:] == ("imageRegistries", "allowed"):
                fix = _registry_fix(text)
            yield WILDCARD.at(path.at(key), text, fix=fix)


def _registry_fix(entry: str) -> str:
    """How to correct an allowed registry with a wildcard."""
    folder = entry.rstrip("/*")
    if not folder:
        return "leave the rule out to allow all registries"
    return "name each registry" if has_wildcard(folder) else f"write {quote(folder)}: it allows what is below it"


def _key_faults(value: object, path: Path) -> Iterator[FieldError]:
    """Faults of a key, or of the keys in a list or map."""
    if isinstance(value, str):
        yield from _faults_of_key(value, path) if value or path.parts[-1] == "key" else ()
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _faults_of_key(item, path.at(i)) if isinstance(item, str) else ()
    elif isinstance(value, dict):
        for key in value:
            yield from _faults_of_key(key, path.at(key))


def _faults_of_key(key: str, path: Path) -> Iterator[FieldError]:
    return (KEY.at(path, key, complaint=complaint) for complaint in qualified_name(key))
