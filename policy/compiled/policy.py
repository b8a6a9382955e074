"""Compiles the rules of a JobSetPolicy into a ValidatingAdmissionPolicy and its binding. Pure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from api.keys import GROUP as JOBSET_GROUP
from api.keys import PLURAL, VERSION
from kube.model.meta import JSON
from policy.cel import NEW, OLD, Cel, Expression, Writer, concat_lists, concat_texts, foreign, texts, variable_names
from policy.compiled.exceptions import exception_condition, unexpired_exceptions
from policy.compiled.selectors import OBJECT_LABELS, as_json, selector_conditions
from policy.compiled.variables import SHARED
from policy.evaluate import rules_in_force
from policy.exception_types import JobSetPolicyException
from policy.kinds import GROUP
from policy.limits import exceeded_limits
from policy.rule import NO_FINDINGS, Compiled
from policy.types import JobSetPolicy

API_VERSION: Final = "admissionregistration.k8s.io/v1"
LABEL: Final = f"{GROUP}/compiled"
"""Label of compiled objects."""

MAX_SHOWN = 8
"""At most this many findings are in one message: the API server accepts messages of 5 KiB."""
MAX_TEXT = 600
"""At most this many characters of a finding are in a message."""
_LONGEST_NAME = 253


def compiled_name(policy: str) -> str:
    """The name of the objects that are compiled from the policy of this name."""
    name = f"jobset-policy-{policy}"
    digest = hashlib.sha256(policy.encode()).hexdigest()[:8]
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 9]}-{digest}"


@dataclass(slots=True)
class _Draft:
    """The variables of an admission policy. A variable comes after the variables that it reads."""

    variables: dict[str, Cel] = field(default_factory=dict)

    def add(self, name: str, expression: Cel) -> Cel:
        """Add a variable; returns the expression that reads it."""
        self.variables[name] = expression
        return Cel(f"variables.{name}")

    def add_both(self, name: str, write: Expression) -> tuple[Cel, Cel]:
        """Add two variables with lists: one about the JobSet, and one about the JobSet before an update.

        On creation the second list is empty. Returns the expressions that read the variables, in this order.
        """
        before = self.add(f"{name}{OLD.suffix}", Cel(f"oldObject == null ? [] : {write(OLD)}"))
        return self.add(name, write(NEW)), before

    def variables_of(self, expression: Cel) -> list[JSON]:
        """The variables that an expression reads, directly or by other variables, as objects of the API."""
        needed = variable_names(expression)
        needed_variables: dict[str, Cel] = {}
        for name, value in reversed(self.variables.items()):
            if name in needed:
                needed_variables[name] = value
                needed |= variable_names(value)
        return [{"name": name, "expression": needed_variables[name].text} for name in reversed(needed_variables)]


def _add_rule(draft: _Draft, name: str, compiled: Compiled, writer: Writer, unless: str) -> Cel:
    """Add the variable with the violations of one rule, without violations that existed before an update.

    `unless`: the condition under which the rule does not count; empty if there is none.
    """
    for variable, shared in compiled.variables:
        draft.add_both(variable, shared)
    lists = []
    if compiled.findings(NEW) != NO_FINDINGS:
        lists.append(_new_findings(*draft.add_both(f"{name}Found", compiled.findings)))
    for i, numbers in enumerate(compiled.numbers):
        now, before = draft.add_both(f"{name}Numbers{i or ''}", numbers.numbers)
        lists.append(exceeded_limits(numbers, now, before, writer))
    violations = concat_lists(*lists)
    return draft.add(name, Cel(f"{unless} ? [] : {violations}") if unless else violations)


def _new_findings(now: Cel, before: Cel) -> Cel:
    """An expression for the findings that an update adds.

    Findings with the same key and message are new only if there are more of them than before the update. In the CEL,
    `m` has the findings that are in `now` only, and `b` those that are in `before` only.
    """
    only_now, only_before = f"{now}.filter(f, !(f in {before}))", f"{before}.filter(f, !(f in {now}))"
    has_same_key = "g[0] == f[0] && g[2] == f[2]"
    is_surplus = f"m.slice(0, i + 1).filter(g, {has_same_key}).size() > b.filter(g, {has_same_key}).size()"
    return Cel(
        f"({before}.size() == 0 ? {now} : {now} == {before} ? [] :"
        f" [{only_now}].map(m, [{only_before}].map(b, m.transformList(i, f, {is_surplus}, f))[0])[0])"
    )


def match_constraints(policy: JobSetPolicy, operations: Sequence[str]) -> JSON:
    """The requests that an admission policy for a JobSetPolicy matches."""
    rule = {
        "apiGroups": [JOBSET_GROUP],
        "apiVersions": [VERSION],
        "operations": list(operations),
        "resources": [PLURAL],
        "scope": "Namespaced",
    }
    return {
        "matchPolicy": "Equivalent",
        "namespaceSelector": as_json(policy.spec.match.namespace_selector),
        "objectSelector": {},
        "resourceRules": [rule],
    }


def match_conditions(policy: JobSetPolicy) -> list[JSON]:
    """At most one condition, for the object selector of a policy. It reads the labels of the new object."""
    conditions = selector_conditions(policy.spec.match.object_selector, OBJECT_LABELS)
    return [{"name": "object-selector", "expression": " && ".join(conditions)}] if conditions else []


def policy_and_binding(kind: str, policy: JobSetPolicy, spec: JSON, **binding: Any) -> list[JSON]:
    """An admission policy for a JobSetPolicy, and its binding, with these fields in their specs."""
    name = compiled_name(policy.metadata.name)
    metadata = {"name": name, "labels": {LABEL: "true"}}
    return [
        {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec},
        {
            "apiVersion": API_VERSION,
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "spec": {"policyName": name, **binding},
        },
    ]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The facts besides a policy from which it is compiled.

    `trusted`: names of users, such as controllers of queues, whose updates of JobSets are not checked.
    """

    trusted: Sequence[str]
    exceptions: Sequence[JobSetPolicyException]
    now: datetime


def validating_objects(policy: JobSetPolicy, circumstances: Circumstances) -> list[JSON]:
    """The ValidatingAdmissionPolicy for a policy, and its binding; empty if the policy has no rules."""
    exceptions = unexpired_exceptions(circumstances.exceptions, policy, circumstances.now)
    name, draft, writer = policy.metadata.name, _Draft(), Writer(foreign(policy.metadata.name))
    for variable, shared in SHARED.items():
        draft.add_both(variable, shared)
    violations_by_rule: dict[str, Cel] = {}
    for rule, demanded in rules_in_force(policy):
        compiled, unless = rule.compile(foreign(demanded), writer), exception_condition(rule.name, exceptions, policy)
        violations_by_rule[rule.name] = _add_rule(draft, rule.name, compiled, writer, unless)
    if not violations_by_rule:
        return []
    all_violations = draft.add("found", concat_lists(*violations_by_rule.values()))
    conditions = [
        {"name": "not-in-deletion", "expression": "!has(object.metadata.deletionTimestamp)"},
        *match_conditions(policy),
    ]
    if circumstances.trusted:
        by_trusted = f"request.userInfo.username in {texts(circumstances.trusted)}"
        conditions.append({"name": "not-by-queues", "expression": f"oldObject == null || !({by_trusted})"})
    spec: dict[str, Any] = {
        "failurePolicy": policy.spec.failure_policy,
        "matchConstraints": match_constraints(policy, ["CREATE", "UPDATE"]),
        "matchConditions": conditions,
        "variables": draft.variables_of(all_violations),
        "validations": [
            {
                "expression": f"{all_violations}.size() == 0",
                "message": f"policy {name}: a rule is broken: {', '.join(violations_by_rule)}",
                "messageExpression": _message(all_violations).text,
                "reason": "Invalid",
            }
        ],
    }
    actions = list(policy.spec.validation_actions)
    return policy_and_binding("ValidatingAdmissionPolicy", policy, spec, validationActions=actions)


def _message(findings: Cel) -> Cel:
    """An expression for the findings as one text, in the form of the answers of admission."""
    size = f"{findings}.size()"
    first = f"({size} > {MAX_SHOWN} ? {findings}.slice(0, {MAX_SHOWN}) : {findings})"
    cut = f"t.size() > {MAX_TEXT} ? t.substring(0, {MAX_TEXT - 3}) + '...' : t"
    joined = f"{first}.map(f, f[1] + ': ' + f[2]).map(t, {cut}).join(', ')"
    more = concat_texts(", and ", Cel(f"string({size} - {MAX_SHOWN})"), " more")
    in_brackets = f"'[' + {joined} + ({size} > {MAX_SHOWN} ? {more} : '') + ']'"
    return Cel(f"{size} == 1 ? {joined} : {in_brackets}")
