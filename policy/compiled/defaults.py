"""Compiles the defaults of a JobSetPolicy into a MutatingAdmissionPolicy and its binding. Pure.

The API server then sets the same defaults as `webhooks/jobset/policy_defaults.py`, and names them in the same
annotation. A `Foreign` text comes from the policy, so it is quoted wherever it is put into an expression.

In the CEL, `p` is the spec of a pod template, and `i` the index of its ReplicatedJob. `conditions` has, by the name of
each default, the CEL of whether the default has to be set.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from api.features import FeatureGates
from kube.model.field import Path
from kube.model.meta import JSON
from policy.cel import Cel, concat_texts, foreign, literal, text
from policy.compiled.policy import match_conditions, match_constraints, policy_and_binding
from policy.compiled.selectors import NAMESPACE_LABELS, OBJECT_LABELS, selector_conditions
from policy.defaults import DEADLINE_GATE, POD, Default, each_default, refusals
from policy.judged import Namespace
from policy.recorded import ANNOTATION, DEADLINE
from policy.types import FAIL, IGNORE, JobSetPolicy

_TERMS = "requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms"


def _add_operation(path: Cel, value: Cel | str) -> str:
    """CEL: a JSON patch operation. `path` and `value` are CEL, too."""
    return f"JSONPatch{{op: 'add', path: {path}, value: {value}}}"


def _is_unset_in_pod(default: Default) -> str:
    """CEL: true if `p` has containers, and no value for the default."""
    return f"has(p.containers) && {_has_no_value(default)}"


def _has_no_value(default: Default) -> str:
    """CEL: true if `p` has no value for the default."""
    field = default.parts[0]
    if field == "tolerations":
        key = text(default.value["key"])
        return f"!p.?tolerations.orValue([]).exists(t, t.?key.orValue('') in ['', {key}])"
    if field == "nodeSelector":
        key = text(default.parts[1])
        terms = f"p.?affinity.?nodeAffinity.?{_TERMS}.orValue([])"
        by_affinity = f"{terms}.exists(t, t.?matchExpressions.orValue([]).exists(e, e.key == {key}))"
        return f"!p.?nodeSelector[?{key}].hasValue() && p.?nodeName.orValue('') == '' && !{by_affinity}"
    return f"p.?{field}.orValue('') == ''"


def _is_unset(default: Default) -> str:
    """CEL: true if the JobSet, or for a default of pods at least one template, has no value for the default."""
    if default.of_pods:
        return f"variables.pods.exists(p, {_is_unset_in_pod(default)})"
    *parents, key = default.parts
    return f"!object{''.join(f'.?{part}' for part in parents)}[?{text(key)}].hasValue()"


def _overruling_policies(policy: JobSetPolicy, other_policies: Sequence[JobSetPolicy]) -> dict[str, list[JobSetPolicy]]:
    """For each default by name, the other policies that keep this policy from setting it in JobSets that both match.

    Such a policy refuses the value, or it sets another value and its name sorts first. Limits of namespaces are unknown
    here.
    """
    overruling_policies: dict[str, list[JobSetPolicy]] = {}
    values = {default.name: default.value for default in each_default(policy.spec.defaults)}
    for other in other_policies:
        if other.metadata.name != policy.metadata.name:
            names = {refusal.default.name for refusal in refusals(policy, other, Namespace())}
            if other.metadata.name < policy.metadata.name:
                other_values = {default.name: default.value for default in each_default(other.spec.defaults)}
                names |= {name for name, value in values.items() if other_values.get(name, value) != value}
            for name in names:
                overruling_policies.setdefault(name, []).append(other)
    return overruling_policies


def _match_expression(policy: JobSetPolicy) -> str:
    """CEL: true if the policy matches the JobSet."""
    match = policy.spec.match
    conditions = [
        *selector_conditions(match.namespace_selector, NAMESPACE_LABELS),
        *selector_conditions(match.object_selector, OBJECT_LABELS),
    ]
    return " && ".join(conditions) or "true"


def _jobset_operations(defaults: Sequence[Default], conditions: dict[str, str]) -> Iterator[str]:
    """CEL: lists of operations on fields of the JobSet outside its pod templates."""
    labels = [default for default in defaults if default.parts[:2] == ("metadata", "labels")]
    if labels:
        yield f"has(object.metadata.labels) ? [] : [{_add_operation(text('/metadata/labels'), '{}')}]"
    for default in defaults:
        if not default.of_pods:
            path = text(Path(default.parts).pointer)
            yield f"{conditions[default.name]} ? [{_add_operation(path, literal(default.value))}] : []"


def _pod_path(*parts: str) -> Cel:
    """CEL: the JSON pointer to these parts of `p`."""
    return concat_texts("/spec/replicatedJobs/", Cel("string(i)"), Path((*POD, *parts)).pointer)


def _pod_operations(defaults: Sequence[Default], conditions: dict[str, str]) -> Iterator[str]:
    """CEL: lists of operations on all pod templates, a list for each field."""

    def has_to_be_set(default: Default) -> str:
        return f"({conditions[default.name]} && {_is_unset_in_pod(default)})"

    for field, empty in (("priorityClassName", ""), ("nodeSelector", "{}"), ("tolerations", "[]")):
        field_defaults = [default for default in defaults if default.of_pods and default.parts[0] == field]
        if not field_defaults:
            continue
        any_unset = " || ".join(map(has_to_be_set, field_defaults))
        operations = [f"(!has(p.{field}) ? [{_add_operation(_pod_path(field), empty)}] : [])"] if empty else []
        for default in field_defaults:
            parts = ("-",) if field == "tolerations" else default.parts[1:]
            added = _add_operation(_pod_path(field, *parts), literal(default.value))
            operations.append(f"({has_to_be_set(default)} ? [{added}] : [])")
        yield f"variables.pods.transformList(i, p, {any_unset}, {' + '.join(operations)}).flatten()"


def _json_text(value: str) -> str:
    return msgspec.json.encode(value).decode()


def _annotation_operations(policy: str, conditions: dict[str, str]) -> Iterator[str]:
    """CEL: lists of operations that write the names of the defaults that were set into the annotation."""
    set_names = " + ".join(f"({is_set} ? [{text(_json_text(name))}] : [])" for name, is_set in conditions.items())
    entry = f"{text(_json_text(policy) + ':[')} + ({set_names}).join(',') + ']}}'"
    key = text(ANNOTATION)
    earlier_text = f"object.metadata.?annotations[?{key}].orValue('')"
    has_entries = f"{earlier_text}.startsWith('{{\"') && {earlier_text}.endsWith(']}}')"
    value = f"({has_entries} ? {earlier_text}.substring(0, {earlier_text}.size() - 1) + ',' : '{{') + {entry}"
    any_set = " || ".join(conditions.values())
    path = text(Path(("metadata", "annotations", ANNOTATION)).pointer)
    parent = _add_operation(text("/metadata/annotations"), "{}")
    yield f"has(object.metadata.annotations) || !({any_set}) ? [] : [{parent}]"
    yield f"({any_set}) ? [{_add_operation(path, value)}] : []"


def _with_foreign(default: Default) -> Default:
    """A copy of the default whose value, and whose key if it is set in a map, are `Foreign` texts."""
    *parents, key = default.parts
    parts = (*parents, foreign(key)) if parents else default.parts
    return replace(default, parts=parts, value=foreign(default.value))


def mutating_objects(policy: JobSetPolicy, other_policies: Sequence[JobSetPolicy], gates: FeatureGates) -> list[JSON]:
    """The MutatingAdmissionPolicy that sets the defaults of a policy, and its binding; empty if there are none.

    `other_policies`: all policies that are in force beside this one.
    """
    all_defaults = each_default(policy.spec.defaults)
    defaults = [_with_foreign(default) for default in all_defaults if default.name != DEADLINE or gates[DEADLINE_GATE]]
    if not defaults:
        return []
    overruling_policies = _overruling_policies(policy, other_policies)
    pods = "object.?spec.?replicatedJobs.orValue([]).map(j, j.?template.?spec.?template.?spec.orValue({}))"
    variables, conditions = [{"name": "pods", "expression": pods}], {}
    for i, default in enumerate(defaults):
        unless = "".join(f" && !({_match_expression(other)})" for other in overruling_policies.get(default.name, ()))
        variables.append({"name": f"set{i}", "expression": _is_unset(default) + unless})
        conditions[default.name] = f"variables.set{i}"
    operations = [
        *_jobset_operations(defaults, conditions),
        *_pod_operations(defaults, conditions),
        *_annotation_operations(policy.metadata.name, conditions),
    ]
    patch = {"expression": " + ".join(f"({operation})" for operation in operations)}
    fails_closed = policy.spec.denies and policy.spec.failure_policy == FAIL
    match = match_conditions(policy)
    spec = {
        "failurePolicy": FAIL if fails_closed else IGNORE,
        "reinvocationPolicy": "Never",
        "matchConstraints": match_constraints(policy, ["CREATE"]),
        **({"matchConditions": match} if match else {}),
        "variables": variables,
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": patch}],
    }
    return policy_and_binding("MutatingAdmissionPolicy", policy, spec)
