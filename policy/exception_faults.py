"""Finds faults of an exception that the schema of its CRD cannot find. Pure; the caller passes the time."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from kube.model.field import SPEC, ErrorType, FieldError, Rule, Severity, by_path
from kube.model.suggest import did_you_mean
from kube.model.validation import dns1123_subdomain
from policy.evaluate import as_warning, rules_in_force
from policy.exception_types import JobSetPolicyException
from policy.exceptions import format_time, standing, time_of
from policy.fields import has_wildcard
from policy.judged import Namespace
from policy.sentences import source
from policy.types import JobSetPolicy

_SOURCE = source("exceptions")


def _rule(name: str, kind: ErrorType, message: str, fix: str, severity: Severity = Severity.ERROR) -> Rule:
    return Rule(f"policy-exception-{name}", kind, message, fix, _SOURCE, severity=severity)


NO_RULES = _rule("rules", ErrorType.REQUIRED, "", "name the rules that are not to count")
NO_NAMES = _rule("names", ErrorType.REQUIRED, "an empty list", "name JobSets, or remove the field")
WILDCARD = _rule(
    "wildcard",
    ErrorType.INVALID,
    "names are exact, without wildcards",
    "select JobSets by their labels, with match.objectSelector",
)
NAME = _rule("name", ErrorType.INVALID, "no JobSet can have this name: {complaint}", "correct it")
NO_TIME = _rule("time", ErrorType.INVALID, "no such time", "write a time such as 2030-01-31T12:00:00Z")
EXPIRED = _rule("expired", ErrorType.INVALID, "the time is over", "write a later time")
TOO_LONG = _rule(
    "too-long", ErrorType.INVALID, "policy {policy} allows at most {most}", "write {latest} or an earlier time"
)
OVER = _rule(
    "over", ErrorType.INVALID, "it ended at {end}: policy {policy} allows at most {most}", "create another exception"
)
NOT_ALLOWED = _rule(
    "not-allowed",
    ErrorType.FORBIDDEN,
    "{why}",
    "ask the owner of the policy to allow it in its spec, such as by {example}",
)
NO_POLICY = _rule(
    "policy", ErrorType.NOT_FOUND, "there is no such policy, so nothing is excepted", "{known}", Severity.WARNING
)
UNUSED = _rule(
    "unused",
    ErrorType.NOT_FOUND,
    "policy {policy} has no rule {rule}, so nothing is excepted from it",
    "{known}",
    Severity.WARNING,
)


def exception_faults(
    exception: JobSetPolicyException, policies: Mapping[str, JobSetPolicy], namespace: Namespace, now: datetime
) -> list[FieldError]:
    """All faults of an exception that the schema has accepted, sorted by path. `policies`: all in force, by name."""
    return by_path([*own_faults(exception), *_policy_faults(exception, policies, namespace, now)])


def exception_warnings(
    exception: JobSetPolicyException, policies: Mapping[str, JobSetPolicy], namespace: Namespace | None, now: datetime
) -> list[FieldError]:
    """Warnings that an exception does not count, or not for its whole time, for commands that continue nevertheless.

    `namespace`: None if its labels are not known.
    """
    meta = exception.metadata
    name = f"exception {meta.namespace}/{meta.name}" if meta.namespace else f"exception {meta.name}"
    return by_path(
        replace(error, detail=f"{name}: {error.detail}", rule=error.rule and as_warning(error.rule))
        for error in _policy_faults(exception, policies, namespace, now)
    )


def own_faults(exception: JobSetPolicyException) -> list[FieldError]:
    """Faults of an exception that depend neither on policies nor on the time."""
    spec, faults = exception.spec, []
    if not spec.rules:
        faults.append(NO_RULES.at(SPEC.at("rules")))
    if spec.match.names == ():
        faults.append(NO_NAMES.at(SPEC.at("match", "names")))
    for i, name in enumerate(spec.match.names or ()):
        name_path = SPEC.at("match", "names", i)
        if has_wildcard(name):
            faults.append(WILDCARD.at(name_path, name))
        else:
            faults += [NAME.at(name_path, name, complaint=complaint) for complaint in dns1123_subdomain(name)]
    if time_of(spec.expires_at) is None:
        faults.append(NO_TIME.at(SPEC.at("expiresAt"), spec.expires_at))
    return faults


def _policy_faults(
    exception: JobSetPolicyException, policies: Mapping[str, JobSetPolicy], namespace: Namespace | None, now: datetime
) -> Iterator[FieldError]:
    name, expires = exception.spec.policy, time_of(exception.spec.expires_at)
    if expires is not None and expires <= now:
        yield EXPIRED.at(SPEC.at("expiresAt"), exception.spec.expires_at)
    policy = policies.get(name)
    if policy is None:
        yield NO_POLICY.at(SPEC.at("policy"), name, known=lambda: did_you_mean(name, policies, intro="policies are"))
        return
    rules_of_policy = {rule.name for rule, _ in rules_in_force(policy)}
    for i, rule in enumerate(exception.spec.rules):
        if rule not in rules_of_policy:
            suggestion = did_you_mean(rule, sorted(rules_of_policy), intro="its rules are")
            yield UNUSED.at(SPEC.at("rules", i), rule, policy=name, rule=rule, known=suggestion)
    current_standing = standing(exception, policy, namespace, now)
    end, allowed = current_standing.end_time, policy.spec.exceptions
    if end is None and expires is not None:
        yield NOT_ALLOWED.at(SPEC.at("policy"), why=current_standing.why_not, example=_example(namespace))
    if allowed is not None and end is not None and expires is not None and end < expires:
        expiry_path, expires_at, max_duration = SPEC.at("expiresAt"), exception.spec.expires_at, allowed.max_duration
        end_text = format_time(end.replace(microsecond=0))
        if now < end:
            yield TOO_LONG.at(expiry_path, expires_at, policy=name, most=max_duration, latest=end_text)
        elif now < expires:
            yield OVER.at(expiry_path, expires_at, policy=name, most=max_duration, end=end_text)


def _example(namespace: Namespace | None) -> str:
    """An example of the part of a policy's spec that would allow the exception."""
    label = f"matchLabels: {{kubernetes.io/metadata.name: {namespace.name}}}" if namespace and namespace.name else ""
    return f"exceptions: {{allowedNamespaces: {{{label}}}, maxDuration: 7d}}"
