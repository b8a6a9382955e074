"""Admission policies that replace the pod webhooks of exclusive placement inside the API server.

With these policies, pods of JobSets start while no replica of the manager answers. The leader of a Job is its pod with
index 0, the other pods are followers. A policy sees only the pod and does not know where the leader is. So every
follower gets the scheduling gate, which the controller lifts, or, in the variant that needs no manager, an affinity to
its leader. Terms and keys come from `api/`, so that policies and webhooks give the same result. The policies need
MutatingAdmissionPolicy of admissionregistration.k8s.io/v1 (Kubernetes 1.36).
"""

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from api import keys
from api.exclusive import MADE_BY_HAND, WITHOUT_INDEX, TermForm, affinity_term, anti_affinity_term
from kube.model.meta import JSON
from manifests.admission import webhooks
from manifests.naming import Object, obj
from policy.cel import Cel

Followers = Literal["gate", "affinity"]
"""What followers get: our scheduling gate, or a required affinity to their leader."""

_API = "admissionregistration.k8s.io/v1"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _cel_literal(value: Any) -> str:
    """JSON as a CEL literal. Values of maps are declared dynamic, since CEL does not compile maps of mixed types."""
    match value:
        case Cel():
            return value.text
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case Mapping():
            return "{" + ", ".join(f"{_cel_literal(k)}: dyn({_cel_literal(v)})" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(_cel_literal(item) for item in value) + "]"
    raise TypeError(f"{type(value).__name__} cannot be written as a CEL literal here")


PRIORITY_TEXT = "(object.spec.priority < 0 ? 'minus' + string(-object.spec.priority) : string(object.spec.priority))"
"""CEL expression with the same result as `api.exclusive.priority_label`."""
_NOT_BOUND = {"name": "not-bound", "expression": "!has(object.spec.nodeName) || object.spec.nodeName == ''"}
"""A match condition. The API server refuses gates on a pod that is bound already."""

_TOPOLOGY: Any = Cel("variables.topology")
_JOB_KEY: Any = Cel("variables.jobKey")
_PRIORITY: Any = Cel("variables.priority")
_VARIABLES = {
    "topology": f"object.metadata.annotations['{keys.EXCLUSIVE_TOPOLOGY}']",
    "jobKey": f"object.metadata.?labels['{keys.JOB_KEY}'].orValue('')",
    "priority": f"has(object.spec.priority) ? {PRIORITY_TEXT} : ''",
    "gathering": f"object.spec.?affinity.?podAffinity.?{_REQUIRED}.orValue([])",
    "spreading": f"object.spec.?affinity.?podAntiAffinity.?{_REQUIRED}.orValue([])",
}


def _named_expressions(expressions: Mapping[str, str]) -> list[Object]:
    return [{"name": name, "expression": expression} for name, expression in expressions.items()]


def _variables(*names: str, **terms: JSON) -> list[Object]:
    """The variables with these names, followed by `terms`, whose expressions may use the variables."""
    return _named_expressions(
        {name: _VARIABLES[name] for name in names} | {name: _cel_literal(term) for name, term in terms.items()}
    )


@cache
def _condition(name: str) -> Object:
    """A match condition of the pod webhooks, or for `leader` the opposite of `follower`."""
    if name == "leader":
        return {"name": name, "expression": f"!({_condition('follower')['expression']})"}
    return next(each for hook in webhooks().values() for each in hook["matchConditions"] if each["name"] == name)


def _policy(kind: str, name: str, conditions: list[Object], **spec: Any) -> Object:
    """A policy for pods of exclusive placement for which all conditions hold. The pod webhooks select the same pods."""
    hook = webhooks()["mpod.kb.io"]
    selectors = {key: hook[key] for key in ("objectSelector", "namespaceSelector")}
    base_spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": hook["rules"], **selectors},
        "matchConditions": [_condition("of-a-jobset"), _condition("not-by-node-selector"), *conditions],
    }
    return obj(_API, kind, name, spec=copy.deepcopy(base_spec | spec))


def _mutating_policy(name: str, conditions: list[Object], mutation: Object, **more: Any) -> list[Object]:
    """A policy and its binding. The policy runs again if a webhook changes the pod after it."""
    kind = "MutatingAdmissionPolicy"
    policy = _policy(kind, name, conditions, reinvocationPolicy="IfNeeded", **more, mutations=[mutation])
    return [policy, obj(_API, f"{kind}Binding", name, spec={"policyName": name})]


def _apply_patch(expression: str) -> Object:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def _json_patch(*operations: str) -> Object:
    """A JSON patch of CEL expressions, each of which yields a list of operations."""
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": " +\n".join(f"({each})" for each in operations)}}


def _add_operation(path: tuple[str, ...], value: str, *, unless: str) -> str:
    return f"{unless} ? [] : [JSONPatch{{op: 'add', path: '/{'/'.join(path)}', value: {value}}}]"


def _add_parent_operation(path: tuple[str, ...], empty: str) -> str:
    """An expression that adds an empty object ("{}") or list ("[]") if the path is absent."""
    return _add_operation(path, empty, unless=f"object.{'.?'.join(path)}.hasValue()")


def _append_term_operations(kind: str, term: str, *, unless: str) -> tuple[str, ...]:
    """Expressions that append a required term, after adding the list and its parents if they are absent."""
    affinity = ("spec", "affinity")
    terms = (*affinity, kind, _REQUIRED)
    parents = (
        _add_parent_operation(affinity, "{}"),
        _add_parent_operation((*affinity, kind), "{}"),
        _add_parent_operation(terms, "[]"),
    )
    return (*parents, _add_operation((*terms, "-"), f"variables.{term}", unless=unless))


def _priority_policy() -> list[Object]:
    """The policy that adds the label by which a leader avoids domains of other Jobs of its priority."""
    labels = f"{{'{keys.PRIORITY}': {PRIORITY_TEXT}}}"
    label = _apply_patch(f"Object{{metadata: Object.metadata{{labels: {labels}}}}}")
    return _mutating_policy("jobset-pod-priority", [_condition("priority-label-missing-or-wrong")], label)


def _leader_policy() -> list[Object]:
    """The policy that adds two affinity terms, by which a leader gets a domain that no other Job uses."""
    own = affinity_term(_TOPOLOGY, _JOB_KEY)
    foreign_terms = {form: anti_affinity_term(_TOPOLOGY, _JOB_KEY, _PRIORITY, form) for form in TermForm}
    variables = _variables(
        *("topology", "jobKey", "priority", "gathering", "spreading"),
        own=own,
        others=foreign_terms[TermForm.LABEL_KEYS],
        othersInFull=foreign_terms[TermForm.EXPRESSIONS],
    )
    has_term = "variables.spreading.exists(term, term in [variables.others, variables.othersInFull])"
    _, *spread = _append_term_operations("podAntiAffinity", "others", unless=has_term)
    gather = _append_term_operations("podAffinity", "own", unless="variables.own in variables.gathering")
    conditions = [_condition("exclusive"), _condition("leader")]
    return _mutating_policy("jobset-pod-leader", conditions, _json_patch(*gather, *spread), variables=variables)


def _gate_policy() -> list[Object]:
    """The policy that adds the scheduling gate, and the label by which the controller finds pods with this gate."""
    metadata = f"Object.metadata{{labels: {{'{keys.AWAITS_LEADER}': 'true'}}}}"
    spec = f"Object.spec{{schedulingGates: [Object.spec.schedulingGates{{name: '{keys.PLACEMENT_GATE}'}}]}}"
    gate = _apply_patch(f"Object{{metadata: {metadata}, spec: {spec}}}")
    return _mutating_policy("jobset-pod-follower", [_condition("exclusive"), _condition("follower"), _NOT_BOUND], gate)


def _affinity_policy() -> list[Object]:
    """The policy that adds an affinity term, which keeps a follower pending until its leader is bound.

    Then the term allows only the domain of the leader.
    """
    selector = [
        {"key": keys.JOB_KEY, "operator": "In", "values": [_JOB_KEY]},
        {"key": keys.COMPLETION_INDEX, "operator": "In", "values": ["0"]},
    ]
    leader = {"labelSelector": {"matchExpressions": selector}, "topologyKey": _TOPOLOGY}
    variables = _variables("topology", "jobKey", "gathering", leader=leader)
    follow = _append_term_operations("podAffinity", "leader", unless="variables.leader in variables.gathering")
    conditions = [_condition("exclusive"), _condition("follower")]
    return _mutating_policy("jobset-pod-follower", conditions, _json_patch(*follow), variables=variables)


_INDEXED = (
    "the pod has no completion index: its Job is not Indexed, so that none of its pods is the leader and exclusive"
    f" placement has no domain for it; {WITHOUT_INDEX}"
)
_STRANDED = (
    "follower pod node selector not set, and the pod has no scheduling gate by which it could wait for it: see whether"
    f" the policy jobset-pod-follower is in force, a webhook takes away the gate {keys.PLACEMENT_GATE}, or the pod"
    " template sets nodeName"
)


def _check_policy(followers: Followers) -> list[Object]:
    """The policy that refuses a pod that could not be placed, with the reason and the fix."""
    checks = {
        f"'{keys.JOB_KEY}' in object.metadata.labels": f"pod missing label: {keys.JOB_KEY}: {MADE_BY_HAND}",
        f"'{keys.COMPLETION_INDEX}' in object.metadata.annotations": _INDEXED,
        "!variables.follower || variables.owned": f"follower pod has no owner reference: {MADE_BY_HAND}",
    }
    variables = {
        "follower": _condition("follower")["expression"],
        "owned": "object.metadata.?ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false))",
    }
    if followers == "gate":
        checks["!variables.follower || !variables.withoutDomain || !variables.notGated"] = _STRANDED
        stranded = {"withoutDomain": "without-domain", "notGated": "not-gated"}
        variables |= {name: _condition(condition)["expression"] for name, condition in stranded.items()}
    kind, name = "ValidatingAdmissionPolicy", "jobset-pod-checks"
    spec = {
        "variables": _named_expressions(variables),
        "validations": [{"expression": e, "message": text, "reason": "Forbidden"} for e, text in checks.items()],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        _policy(kind, name, [_condition("exclusive")], **spec),
        obj(_API, f"{kind}Binding", name, spec=binding),
    ]


def pod_policies(followers: Followers = "gate") -> list[Object]:
    """The policies and their bindings that replace the webhooks of pods.

    With "gate", a follower waits for the manager, as with the webhooks. With "affinity", it waits only for its leader.
    """
    follower_policies = _gate_policy() if followers == "gate" else _affinity_policy()
    return [*_priority_policy(), *_leader_policy(), *follower_policies, *_check_policy(followers)]
