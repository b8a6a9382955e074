"""Compiles the defaults of a JobSetPolicy into a MutatingAdmissionPolicy and its binding. Pure.

The API server then sets the same defaults as `webhooks/jobset/policy_defaults.py`, and names them in the same
annotation.
In the CEL, `p` is the spec of a pod template, and `i` the index of its ReplicatedJob.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from api.features import FeatureGates
from kube.model.meta import JSON
from policy.cel import Cel, concat_texts, foreign, literal, text
from policy.compiled.policy import compiled_name, head, match_conditions, match_constraints
from policy.compiled.selectors import NAMESPACE_LABELS, OBJECT_LABELS, selector_conditions
from policy.defaults import DEADLINE_GATE, POD, Default, each_default, refusals
from policy.judged import Namespace
from policy.recorded import ANNOTATION, DEADLINE
from policy.types import FAIL, IGNORE, JobSetPolicy

_POD_POINTER = f"/{'/'.join(POD)}"
_TERMS = "requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms"


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _add(path: Cel, value: Cel | str) -> str:
    """CEL: a JSON patch operation. `path` and `value` are CEL, too."""
    return f"JSONPatch{{op: 'add', path: {path}, value: {value}}}"


def _unset(default: Default) -> str:
    """CEL: true if `p` has containers, and no value for the default."""
    return f"has(p.containers) && {_without(default)}"


def _without(default: Default) -> str:
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


def _absent(default: Default) -> str:
    """CEL: true if the JobSet, or for a default of pods at least one template, has no value for the default."""
    if default.of_pods:
        return f"variables.pods.exists(p, {_unset(default)})"
    *parents, key = default.parts
    return f"!object{''.join(f'.?{part}' for part in parents)}[?{text(key)}].hasValue()"


def _settling_policies(policy: JobSetPolicy, other_policies: Sequence[JobSetPolicy]) -> dict[str, list[JobSetPolicy]]:
    """For each default by name, the other policies that keep this policy from setting it in JobSets that both match.

    Such a policy refuses the value, or it sets another value and its name sorts first. Limits of namespaces are unknown
    here.
    """
    settling: dict[str, list[JobSetPolicy]] = {}
    values = {default.name: default.value for default in each_default(policy.spec.defaults)}
    for other in other_policies:
        if other.metadata.name != policy.metadata.name:
            names = {refusal.default.name for refusal in refusals(policy, other, Namespace())}
            if other.metadata.name < policy.metadata.name:
                other_values = {default.name: default.value for default in each_default(other.spec.defaults)}
                names |= {name for name, value in values.items() if other_values.get(name, value) != value}
            for name in names:
                settling.setdefault(name, []).append(other)
    return settling


def _match_expression(policy: JobSetPolicy) -> str:
    """CEL: true if the policy matches the JobSet."""
    match = policy.spec.match
    conditions = [
        *selector_conditions(match.namespace_selector, NAMESPACE_LABELS),
        *selector_conditions(match.object_selector, OBJECT_LABELS),
    ]
    return " && ".join(conditions) or "true"


def _jobset_operations(defaults: Sequence[Default], numbers: dict[str, int]) -> Iterator[str]:
    """CEL: lists of operations on fields of the JobSet outside its pod templates."""
    labels = [default for default in defaults if default.parts[:2] == ("metadata", "labels")]
    if labels:
        yield f"has(object.metadata.labels) ? [] : [{_add(text('/metadata/labels'), '{}')}]"
    for default in defaults:
        if not default.of_pods:
            path = text("/" + "/".join(map(_escape, default.parts)))
            yield f"variables.set{numbers[default.name]} ? [{_add(path, literal(default.value))}] : []"


def _pod_path(*parts: str) -> Cel:
    """CEL: the JSON pointer to these parts of `p`."""
    return concat_texts("/spec/replicatedJobs/", Cel("string(i)"), "/".join((_POD_POINTER, *parts)))


def _pod_operations(defaults: Sequence[Default], numbers: dict[str, int]) -> Iterator[str]:
    """CEL: lists of operations on all pod templates, a list for each field."""

    def wanted_expression(default: Default) -> str:
        """CEL: true if the default has to be set in `p`."""
        return f"(variables.set{numbers[default.name]} && {_unset(default)})"

    for field, empty in (("priorityClassName", ""), ("nodeSelector", "{}"), ("tolerations", "[]")):
        field_defaults = [default for default in defaults if default.of_pods and default.parts[0] == field]
        if not field_defaults:
            continue
        any_unset = " || ".join(map(wanted_expression, field_defaults))
        operations = [f"(!has(p.{field}) ? [{_add(_pod_path(field), empty)}] : [])"] if empty else []
        for default in field_defaults:
            parts = ("-",) if field == "tolerations" else tuple(map(_escape, default.parts[1:]))
            added = _add(_pod_path(field, *parts), literal(default.value))
            operations.append(f"({wanted_expression(default)} ? [{added}] : [])")
        yield f"variables.pods.transformList(i, p, {any_unset}, {' + '.join(operations)}).flatten()"


def _json_text(value: str) -> str:
    return msgspec.json.encode(value).decode()


def _annotation(policy: str, defaults: Sequence[Default]) -> Iterator[str]:
    """CEL: lists of operations that write the names of the defaults that were set into the annotation."""
    listed = " + ".join(f"(variables.set{i} ? [{text(_json_text(d.name))}] : [])" for i, d in enumerate(defaults))
    entry = f"{text(_json_text(policy) + ':[')} + ({listed}).join(',') + ']}}'"
    key = text(ANNOTATION)
    stored = f"object.metadata.?annotations[?{key}].orValue('')"
    has_entries = f"{stored}.startsWith('{{\"') && {stored}.endsWith(']}}')"
    value = f"({has_entries} ? {stored}.substring(0, {stored}.size() - 1) + ',' : '{{') + {entry}"
    any_set = " || ".join(f"variables.set{i}" for i in range(len(defaults)))
    path = text(f"/metadata/annotations/{_escape(ANNOTATION)}")
    parent = _add(text("/metadata/annotations"), "{}")
    yield f"has(object.metadata.annotations) || !({any_set}) ? [] : [{parent}]"
    yield f"({any_set}) ? [{_add(path, value)}] : []"


def _foreign(default: Default) -> Default:
    """A copy of the default whose value, and whose key if it is set in a map, are `Foreign` texts."""
    *parents, key = default.parts
    parts = (*parents, foreign(key)) if parents else default.parts
    return replace(default, parts=parts, value=foreign(default.value))


def mutating(policy: JobSetPolicy, other_policies: Sequence[JobSetPolicy], gates: FeatureGates) -> list[JSON]:
    """The MutatingAdmissionPolicy that sets the defaults of a policy, and its binding; empty if there are none.

    `other_policies`: all policies that are in force beside this one.
    """
    declared = each_default(policy.spec.defaults)
    defaults = [_foreign(default) for default in declared if default.name != DEADLINE or gates[DEADLINE_GATE]]
    if not defaults:
        return []
    name, numbers = policy.metadata.name, {default.name: i for i, default in enumerate(defaults)}
    settled = _settling_policies(policy, other_policies)
    pods = Cel("object.?spec.?replicatedJobs.orValue([]).map(j, j.?template.?spec.?template.?spec.orValue({}))")
    variables = [{"name": "pods", "expression": pods.text}]
    for i, default in enumerate(defaults):
        unless = "".join(f" && !({_match_expression(other)})" for other in settled.get(default.name, ()))
        variables.append({"name": f"set{i}", "expression": _absent(default) + unless})
    operations = [
        *_jobset_operations(defaults, numbers),
        *_pod_operations(defaults, numbers),
        *_annotation(name, defaults),
    ]
    patch = {"expression": " + ".join(f"({operation})" for operation in operations)}
    fails_closed = policy.spec.denies and policy.spec.failure_policy == FAIL
    conditions = list(match_conditions(policy))
    spec = {
        "failurePolicy": FAIL if fails_closed else IGNORE,
        "reinvocationPolicy": "Never",
        "matchConstraints": match_constraints(policy, ["CREATE"]),
        **({"matchConditions": conditions} if conditions else {}),
        "variables": variables,
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": patch}],
    }
    kind = "MutatingAdmissionPolicy"
    binding = {"policyName": compiled_name(name)}
    return [{**head(kind, name), "spec": spec}, {**head(f"{kind}Binding", name), "spec": binding}]
