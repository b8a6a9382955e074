"""What is wrong with a policy itself, beyond what the schema of its CRD says. Pure."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import msgspec

from api.keys import CONTROLLER_NAME
from kube.model.field import SPEC, ErrorType, FieldError, Path, Rule, Severity, by_path, quote, render_value
from kube.model.job_rules.resources import of_container
from kube.model.patterns import compiled
from kube.model.suggest import nearest
from kube.model.validation import byte_length, dns1123_subdomain, http_path, label_value, qualified_name
from policy.default_types import Defaults, DefaultToleration
from policy.defaults import each_default, refusals
from policy.judged import Namespace, form_of, read_limit
from policy.rule_types import (
    BackoffLimit,
    ImageRegistries,
    Limit,
    ManagedBy,
    MaxRestarts,
    MaxSeconds,
    MaxTotals,
    RequiredPair,
    ResourceLimit,
    Rules,
)
from policy.rules.words import source
from policy.types import DENY, WARN, JobSetPolicy, Requirement, Selector

MOST_LABELS = 64
MOST_OF_MANAGER = 63
"""Bytes of spec.managedBy of a JobSet."""
_SOURCE = source("README")


def _rule(name: str, kind: ErrorType, message: str, fix: str) -> Rule:
    return Rule(f"policy-invalid-{name}", kind, message, fix, _SOURCE)


NO_RULES = _rule("rules", ErrorType.REQUIRED, "", "add a rule, or defaults: without them the policy does nothing")
NO_DEFAULTS = _rule("defaults", ErrorType.REQUIRED, "", "add a default, or remove the field")
VALUE = _rule("value", ErrorType.INVALID, "{complaint}", "correct it")
TOLERATION = _rule("toleration", ErrorType.FORBIDDEN, "Exists compares with no value", "remove the value")
OWN_RULE = _rule(
    "own-default", ErrorType.FORBIDDEN, "rule {rule} of this policy refuses it", "change the default or the rule"
)
NO_ACTIONS = _rule("actions", ErrorType.REQUIRED, "", "write [Deny], [Warn] or [Audit], or leave it out for [Warn]")
DENY_AND_WARN = _rule(
    "deny-and-warn",
    ErrorType.INVALID,
    "Deny and Warn exclude each other: a refusal says it already",
    "keep one of them",
)
EMPTY = _rule("empty", ErrorType.REQUIRED, "an empty list", "name what is meant, or remove the rule")
NO_LIMIT = _rule("no-limit", ErrorType.REQUIRED, "", "write max, fromNamespaceLabel or fromNamespaceAnnotation")
NO_TOTAL = _rule("no-total", ErrorType.REQUIRED, "", "write pods, resources or resourceClaims")
AMOUNT = _rule("amount", ErrorType.INVALID, "{what}", 'write an amount such as 8, "500m" or "1Ti"')
COUNT = _rule("count", ErrorType.INVALID, "{what}", "write a whole number such as 8")
PATTERN = _rule("pattern", ErrorType.INVALID, "not an RE2 pattern: {why}", "correct it")
KEY = _rule("key", ErrorType.INVALID, "{complaint}", "a key is NAME or PREFIX/NAME, such as example.com/team")
VALUES = _rule("values", ErrorType.REQUIRED, "{operator} compares with values", "name at least one")
NO_VALUES = _rule("no-values", ErrorType.FORBIDDEN, "{operator} compares with no value", "remove the values")
REGISTRY = _rule(
    "registry",
    ErrorType.INVALID,
    "a registry, or a path in one, has no {what}",
    'write it like "registry.example.com/a"',
)
WILDCARD = _rule("wildcard", ErrorType.INVALID, "no wildcards: it is compared as it is", "{fix}")
MANAGER = _rule(
    "manager",
    ErrorType.INVALID,
    "no JobSet can have it in managedBy: {complaint}",
    "write the name of a controller, such as {own} for this one",
)
LOCKS_OUT = Rule(
    "policy-managed-by-locks-out",
    ErrorType.INVALID,
    "JobSets without managedBy break the rule: they are managed by {own}",
    "add that to the list, or keep it so if this controller is to manage none",
    source("managed-by"),
    severity=Severity.WARNING,
)
NO_RESOURCE = Rule(
    "policy-no-resource",
    ErrorType.INVALID,
    "no container can ask for a resource of this name",
    "{known}",
    _SOURCE,
    severity=Severity.WARNING,
)
NO_CLASS = Rule(
    "policy-no-priority-class",
    ErrorType.INVALID,
    "no PriorityClass can have this name: {complaint}",
    "correct it",
    source("priority-classes"),
    severity=Severity.WARNING,
)
TOO_MANY = _rule("too-many", ErrorType.TOO_MANY, f"must have at most {MOST_LABELS} labels", "remove some of them")


def faults(policy: JobSetPolicy) -> list[FieldError]:
    """All of them, by path, for a policy that the schema has accepted."""
    return by_path([*_actions(policy), *_rules(policy), *_walk(policy.spec, SPEC)])


def cautions(policy: JobSetPolicy) -> list[FieldError]:
    """Warnings about a policy without faults: what it does and was hardly meant to do."""
    managed, found = policy.spec.rules.managed_by, list(_unknown_names(policy.spec.rules))
    if managed is not None and CONTROLLER_NAME not in managed.allowed:
        found.append(LOCKS_OUT.at(SPEC.at("rules", "managedBy", "allowed"), list(managed.allowed), own=CONTROLLER_NAME))
    return found


def _unknown_names(rules: Rules) -> Iterator[FieldError]:
    """Names that no container or pod can have, so that the rule is about nothing, or refuses everything."""
    path = SPEC.at("rules")
    totals = rules.max_totals.resources if rules.max_totals else ()
    resources = [(path.at("maxTotals", "resources", i, "name"), limit.name) for i, limit in enumerate(totals)]
    for member, demand in (("requiredRequests", rules.required_requests), ("requiredLimits", rules.required_limits)):
        resources += [
            (path.at(member, "resources", i), name) for i, name in enumerate(demand.resources if demand else ())
        ]
    resources += [(path.at("allowedResources", i), name) for i, name in enumerate(rules.allowed_resources or ())]
    for place, name in resources:
        if any(of_container(place, name)):
            yield NO_RESOURCE.at(place, name, known=partial(_known_resource, name))
    allowed = rules.priority_classes.allowed if rules.priority_classes else ()
    for i, name in enumerate(allowed):
        for complaint in dns1123_subdomain(name):
            yield NO_CLASS.at(path.at("priorityClasses", "allowed", i), name, complaint=complaint)


def _known_resource(name: str) -> str:
    close = nearest(name, ("cpu", "memory", "ephemeral-storage"))
    return f"did you mean {quote(close)}?" if close else "write it with its domain, such as nvidia.com/gpu"


def _actions(policy: JobSetPolicy) -> Iterator[FieldError]:
    actions, path = policy.spec.validation_actions, SPEC.at("validationActions")
    if not actions:
        yield NO_ACTIONS.at(path)
    if DENY in actions and WARN in actions:
        yield DENY_AND_WARN.at(path, list(actions))


def _rules(policy: JobSetPolicy) -> Iterator[FieldError]:
    rules, defaults = policy.spec.rules, policy.spec.defaults
    if defaults is None and all(getattr(rules, field.name) == field.default for field in msgspec.structs.fields(rules)):
        yield NO_RULES.at(SPEC.at("rules"))
    for refusal in refusals(policy, policy, Namespace()):
        yield OWN_RULE.at(SPEC.at("defaults", *refusal.default.place), rule=refusal.rule)


def _walk(value: object, path: Path) -> Iterator[FieldError]:
    """Faults of a record and of all records in it."""
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _walk(item, path.at(i))
    if not isinstance(value, msgspec.Struct):
        return
    for kind, check in _CHECKS.items():
        if isinstance(value, kind):
            yield from check(value, path)
    for field in msgspec.structs.fields(value):
        member, place = getattr(value, field.name), path.at(field.encode_name)
        if member == () and field.default != () and field.name != "validation_actions":
            yield EMPTY.at(place)
        if field.name in _KEYS:
            yield from _keys(member, place)
        if field.name in _VALUES:
            yield from _wildcards(member, place, optional=field.default is None)
        yield from _walk(member, place)


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
"""Fields that hold what is compared as it is."""


def _wildcards(value: object, path: Path, *, optional: bool) -> Iterator[FieldError]:
    """Faults of texts that were meant as patterns. `optional`: without the field, everything is allowed."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, tuple) else ()
    for key, text in pairs:
        if isinstance(text, str) and _has_wildcard(text):
            fix = f"leave {path.parts[-1]} out to allow all" if optional and text == "*" else "name each that is meant"
            if path.parts[-2:] == ("imageRegistries", "allowed"):
                fix = _of_registry(text)
            yield WILDCARD.at(path.at(key), text, fix=fix)


def _has_wildcard(text: str) -> bool:
    return "*" in text or "?" in text


def _of_registry(entry: str) -> str:
    folder = entry.rstrip("/*")
    if not folder:
        return "leave the rule out to allow all registries"
    return "name each registry" if _has_wildcard(folder) else f"write {quote(folder)}: it allows what is below it"


def _keys(value: object, path: Path) -> Iterator[FieldError]:
    if isinstance(value, str):
        for complaint in qualified_name(value) if value or path.parts[-1] == "key" else ():
            yield KEY.at(path, value, complaint=complaint)
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            if isinstance(item, str):
                yield from (KEY.at(path.at(i), item, complaint=complaint) for complaint in qualified_name(item))
    elif isinstance(value, dict):
        for key in value:
            yield from (KEY.at(path.at(key), key, complaint=complaint) for complaint in qualified_name(key))


def _limit(limit: Limit, path: Path) -> Iterator[FieldError]:
    if limit.max is not None:
        rule = AMOUNT if isinstance(limit, ResourceLimit) else COUNT
        if str(limit.max).startswith("-"):
            yield rule.at(path.at("max"), limit.max, what="a limit is not negative")
        elif read_limit(limit, limit.max) is None:
            yield rule.at(path.at("max"), limit.max, what=f"{render_value(limit.max)} is no {form_of(limit)}")
    demands_more = (
        (isinstance(limit, MaxRestarts) and limit.forbid_unlimited_actions)
        or (isinstance(limit, MaxSeconds) and limit.required)
        or (isinstance(limit, BackoffLimit) and limit.zero_with_restarts)
    )
    if limit.max is None and not (limit.from_namespace_label or limit.from_namespace_annotation or demands_more):
        yield NO_LIMIT.at(path)


def _totals(totals: MaxTotals, path: Path) -> Iterator[FieldError]:
    if totals.pods is None and totals.resource_claims is None and not totals.resources:
        yield NO_TOTAL.at(path)


def _pair(pair: RequiredPair, path: Path) -> Iterator[FieldError]:
    if pair.pattern and isinstance(why := compiled(pair.pattern), str):
        yield PATTERN.at(path.at("pattern"), pair.pattern, why=why)


def _registries(registries: ImageRegistries, path: Path) -> Iterator[FieldError]:
    for i, entry in enumerate(registries.allowed):
        what = "scheme" if "://" in entry else "digest" if "@" in entry else ""
        if not what and ":" in entry.partition("/")[2]:
            what = "tag"
        if not _has_wildcard(entry) and (what or not entry.strip("/")):
            yield REGISTRY.at(path.at("allowed", i), entry, what=what or "empty name")


def _managers(managers: ManagedBy, path: Path) -> Iterator[FieldError]:
    for i, name in enumerate(managers.allowed):
        host, _, rest = name.partition("/")
        form = [*dns1123_subdomain(host), *http_path(rest)]
        if not host or not rest:
            form = ['must be a domain-prefixed path (such as "acme.io/foo")']
        if byte_length(name) > MOST_OF_MANAGER:
            form.append(f"may not be more than {MOST_OF_MANAGER} bytes")
        if form and not _has_wildcard(name):
            yield MANAGER.at(path.at("allowed", i), name, complaint=form[0], own=CONTROLLER_NAME)


def _requirement(requirement: Requirement, path: Path) -> Iterator[FieldError]:
    if requirement.operator in {"In", "NotIn"} and not requirement.values:
        yield VALUES.at(path.at("values"), operator=requirement.operator)
    elif requirement.operator in {"Exists", "DoesNotExist"} and requirement.values:
        yield NO_VALUES.at(path.at("values"), operator=requirement.operator)


def _selector(selector: Selector, path: Path) -> Iterator[FieldError]:
    if len(selector.match_labels) > MOST_LABELS:
        yield TOO_MANY.at(path.at("matchLabels"), len(selector.match_labels))


def _defaults(defaults: Defaults, path: Path) -> Iterator[FieldError]:
    if not any(each_default(defaults)):
        yield NO_DEFAULTS.at(path)
    for name, labels in (("labels", defaults.labels), ("nodeSelector", defaults.node_selector)):
        if len(labels) > MOST_LABELS:
            yield TOO_MANY.at(path.at(name), len(labels))
        for key, value in labels.items():
            yield from (VALUE.at(path.at(name, key), value, complaint=complaint) for complaint in label_value(value))
    name = defaults.priority_class_name
    for complaint in dns1123_subdomain(name) if name else ():
        yield VALUE.at(path.at("priorityClassName"), name, complaint=complaint)


def _toleration(toleration: DefaultToleration, path: Path) -> Iterator[FieldError]:
    if toleration.operator == "Exists" and toleration.value:
        yield TOLERATION.at(path.at("value"))
    for complaint in label_value(toleration.value):
        yield VALUE.at(path.at("value"), toleration.value, complaint=complaint)


_CHECKS: Mapping[type, Callable[..., Iterator[FieldError]]] = {
    DefaultToleration: _toleration,
    Defaults: _defaults,
    ImageRegistries: _registries,
    Limit: _limit,
    ManagedBy: _managers,
    MaxTotals: _totals,
    RequiredPair: _pair,
    Requirement: _requirement,
    Selector: _selector,
}
