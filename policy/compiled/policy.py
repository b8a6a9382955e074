"""A JobSetPolicy as ValidatingAdmissionPolicy and its binding. Pure."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from api.keys import GROUP as JOBSET_GROUP
from api.keys import PLURAL, VERSION
from kube.model.meta import JSON
from policy.cel import NEW, OLD, Cel, Say, concat_lists, concat_texts, foreign, names_in, texts
from policy.compiled.exceptions import exception_condition, unexpired_exceptions
from policy.compiled.selectors import OBJECT_LABELS, as_json, selector_conditions
from policy.compiled.variables import SHARED
from policy.evaluate import rules_in_force
from policy.exception_types import JobSetPolicyException
from policy.kinds import GROUP
from policy.limits import exceeded_limits
from policy.rule import NOTHING, Compiled
from policy.types import JobSetPolicy

API_VERSION: Final = "admissionregistration.k8s.io/v1"
LABEL: Final = f"{GROUP}/compiled"
"""Label of compiled objects."""

MAX_SHOWN = 8
MAX_TEXT = 600
"""Findings in one message, and characters of each: the API server takes messages of 5 KiB."""
_LONGEST_NAME = 253


def compiled_name(policy: str) -> str:
    name = f"jobset-policy-{policy}"
    digest = hashlib.sha256(policy.encode()).hexdigest()[:8]
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 9]}-{digest}"


@dataclass(slots=True)
class _Draft:
    """Variables of a policy, each after those that it reads."""

    variables: dict[str, Cel] = field(default_factory=dict)

    def add(self, name: str, expression: Cel) -> Cel:
        self.variables[name] = expression
        return Cel(f"variables.{name}")

    def both(self, name: str, new: Cel, old: Cel) -> tuple[Cel, Cel]:
        """A variable about the JobSet, and one about the JobSet before an update: an empty list on creation."""
        before = self.add(f"{name}{OLD.suffix}", Cel(f"oldObject == null ? [] : {old}"))
        return self.add(name, new), before

    def read_by(self, expression: Cel) -> list[JSON]:
        """The variables that an expression needs."""
        needed = names_in(expression)
        kept: dict[str, Cel] = {}
        for name, own in reversed(self.variables.items()):
            if name in needed:
                kept[name] = own
                needed |= names_in(own)
        return [{"name": name, "expression": kept[name].text} for name in reversed(kept)]


def _rule(draft: _Draft, name: str, compiled: Compiled, say: Say, unless: str) -> Cel:
    """The variable with the violations of one rule by a JobSet, without those before an update.

    `unless`: the condition under which the rule does not count, or nothing.
    """
    for own, shared in compiled.variables:
        draft.both(own, shared(NEW), shared(OLD))
    lists = []
    found = compiled.findings(NEW)
    if found != NOTHING:
        lists.append(_new(*draft.both(f"{name}Found", found, compiled.findings(OLD))))
    for i, numbers in enumerate(compiled.numbers):
        now, before = draft.both(f"{name}Numbers{i or ''}", numbers.numbers(NEW), numbers.numbers(OLD))
        lists.append(exceeded_limits(numbers, now, before, say))
    found = concat_lists(*lists)
    return draft.add(name, Cel(f"{unless} ? [] : {found}") if unless else found)


def _new(now: Cel, before: Cel) -> Cel:
    """The findings that an update adds: more with one key than before, whatever their indexes."""
    new, gone = f"{now}.filter(f, !(f in {before}))", f"{before}.filter(f, !(f in {now}))"
    same = "g[0] == f[0] && g[2] == f[2]"
    surplus = f"m.slice(0, i + 1).filter(g, {same}).size() > b.filter(g, {same}).size()"
    return Cel(
        f"({before}.size() == 0 ? {now} : {now} == {before} ? [] :"
        f" [{new}].map(m, [{gone}].map(b, m.transformList(i, f, {surplus}, f))[0])[0])"
    )


def match_constraints(policy: JobSetPolicy, operations: Sequence[str]) -> JSON:
    """Requests that a compiled policy matches."""
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


def match_conditions(policy: JobSetPolicy) -> Iterator[JSON]:
    """Conditions that match the JobSets to which a policy applies, by their present labels."""
    chosen = selector_conditions(policy.spec.match.object_selector, OBJECT_LABELS)
    if chosen:
        yield {"name": "object-selector", "expression": " && ".join(chosen)}


def head(kind: str, policy: str) -> JSON:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": compiled_name(policy), "labels": {LABEL: "true"}},
    }


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Data for a verdict beyond the policy: users whose updates are not judged, exceptions, and the time."""

    trusted: Sequence[str]
    exceptions: Sequence[JobSetPolicyException]
    now: datetime


def validating(policy: JobSetPolicy, circumstances: Circumstances) -> list[JSON]:
    """The ValidatingAdmissionPolicy of a policy and its binding; nothing for one without rules."""
    exceptions = unexpired_exceptions(circumstances.exceptions, policy, circumstances.now)
    name, draft, say = policy.metadata.name, _Draft(), Say(foreign(policy.metadata.name))
    for variable, shared in SHARED.items():
        draft.both(variable, shared(NEW), shared(OLD))
    rules = [
        (
            rule.name,
            _rule(
                draft,
                rule.name,
                rule.compile(foreign(demanded), say),
                say,
                exception_condition(rule.name, exceptions, policy),
            ),
        )
        for rule, demanded in rules_in_force(policy)
    ]
    if not rules:
        return []
    found = draft.add("found", concat_lists(*(variable for _, variable in rules)))
    conditions = [
        {"name": "not-in-deletion", "expression": "!has(object.metadata.deletionTimestamp)"},
        *match_conditions(policy),
    ]
    if circumstances.trusted:
        by_trusted = f"request.userInfo.username in {texts(circumstances.trusted)}"
        conditions.append({"name": "not-by-queues", "expression": f"oldObject == null || !({by_trusted})"})
    names = ", ".join(rule for rule, _ in rules)
    spec: dict[str, Any] = {
        "failurePolicy": policy.spec.failure_policy,
        "matchConstraints": match_constraints(policy, ["CREATE", "UPDATE"]),
        "matchConditions": conditions,
        "variables": draft.read_by(found),
        "validations": [
            {
                "expression": f"{found}.size() == 0",
                "message": f"policy {name}: a rule is broken: {names}",
                "messageExpression": _message(found).text,
                "reason": "Invalid",
            }
        ],
    }
    binding = {"policyName": compiled_name(name), "validationActions": list(policy.spec.validation_actions)}
    kind = "ValidatingAdmissionPolicy"
    return [{**head(kind, name), "spec": spec}, {**head(f"{kind}Binding", name), "spec": binding}]


def _message(found: Cel) -> Cel:
    """The findings as one text, written as in the answers of admission."""
    size = f"{found}.size()"
    first = f"({size} > {MAX_SHOWN} ? {found}.slice(0, {MAX_SHOWN}) : {found})"
    cut = f"t.size() > {MAX_TEXT} ? t.substring(0, {MAX_TEXT - 3}) + '...' : t"
    listed = f"{first}.map(f, f[1] + ': ' + f[2]).map(t, {cut}).join(', ')"
    more = concat_texts(", and ", Cel(f"string({size} - {MAX_SHOWN})"), " more")
    several = f"'[' + {listed} + ({size} > {MAX_SHOWN} ? {more} : '') + ']'"
    return Cel(f"{size} == 1 ? {listed} : {several}")
