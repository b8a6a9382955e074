"""For each field that a rule of policies declares to read: what a policy demands, and a value there that breaks it.

The same cases are judged by the rules (tests/policy/test_every_field.py) and by an API server that has what
is compiled of them (tests/integration/test_policy_export.py).
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.engine import crd_schema
from policy.registry import RULES
from policy.rules.node_uses import USES
from tests.support.objects.jobsets import jobset, rjob

JSON = dict[str, Any]
_JOB = "spec.replicatedJobs[].template.spec."
_POD = f"{_JOB}template.spec."
_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
SAME = "same"
_FREE = "RestartJobSetAndIgnoreMaxRestarts"
_ELSEWHERE = {"namespaceSelector": {}, "labelSelector": {}}


@dataclass(frozen=True)
class Case:
    """A JobSet without a finding of the rule, and the value at `path` with which it has one. `beside`: more values."""

    rule: str
    path: str
    demand: Any
    value: Any
    beside: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.rule}-{self.path.removeprefix(_POD)}"

    def jobset(self, *, bad: bool = True, namespace: str = "default") -> JSON:
        js = jobset(rjob("workers"), namespace=namespace)
        for path, value in {**self.beside, **({self.path: self.value} if bad else {})}.items():
            put(js, path, copy.deepcopy(value))
        return js


def put(js: JSON, path: str, value: Any) -> None:
    """Write a value at a path of the schema, into the first item of each list; what must stand beside it comes, too."""
    schema, node, parts = crd_schema(), js, path.removesuffix("{}").split(".")
    for i, part in enumerate(parts):
        name, is_list = part.removesuffix("[]"), part.endswith("[]")
        schema = schema.get("properties", {}).get(name, {})
        if i == len(parts) - 1:
            node[name] = [value] if is_list else value
            return
        if is_list:
            schema = schema["items"]
            found = node.setdefault(name, [{}])
            node = found[0] if found else found.append({}) or found[0]
        else:
            node = node.setdefault(name, {})
        for needed in schema.get("required", ()):
            node.setdefault(needed, _plain(schema["properties"][needed]))


def _plain(schema: JSON) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    kinds: dict[str, Any] = {"string": "x", "integer": 1, "object": {}, "array": [], "boolean": False}
    found = kinds[schema.get("type", "integer")]
    if found == {}:
        found = {needed: _plain(schema["properties"][needed]) for needed in schema.get("required", ())}
    return found


@dataclass(frozen=True)
class _Example:
    """For fields whose path ends with `end`: what is demanded, the value that breaks it, and what stands beside it.

    In `beside` the path `SAME` is that of the field.
    """

    end: str
    demand: Any
    value: Any
    beside: Mapping[str, Any] = field(default_factory=dict)


_AGENT = {"spec.failurePolicy.restartStrategy": "InPlaceRestart"}
_GOOD = f"registry.example.com/x@sha256:{'0' * 64}"
_IMAGES = {f"{_POD}containers[].image": _GOOD, **_AGENT}
_CPU, _MEMORY = ({"resources": [{"name": name, "max": 1}]} for name in ("cpu", "memory"))
_CLAIMED, _SOURCES = {"resourceClaims": {"max": 0}}, ("resourceClaimName", "resourceClaimTemplateName")
_TARGETS = {"spec.scheduling.replicatedJobs[].targetReplicatedJobs": ["workers"]}
_PODS = {"pods": {"max": 4}}
_STARTED = {f"{_POD}{kind}[].resources": {"requests": {"cpu": 1}} for kind in ("containers", "initContainers")}
_UNLIMITED = {"forbidUnlimitedActions": True}
_PAIR = [{"key": "a", "pattern": "x"}]
_POOLS = {"allowed": [{"key": "pool", "values": ["a", "b"]}, {"key": "free"}]}
_SELECTED = {"key": "pool", "operator": "In", "values": ["a"]}
_REQUIRED = f"{_POD}affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[]"
_PREFERRED = f"{_POD}affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[].preference"
_EXPRESSIONS = {f"{term}.matchExpressions[]": _SELECTED for term in (_REQUIRED, _PREFERRED)}
_ELSEWHERE = {
    f"{_POD}affinity.podAntiAffinity.{term}.namespaceSelector": {}
    for term in (
        "requiredDuringSchedulingIgnoredDuringExecution[]",
        "preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm",
    )
}
_NO_KEYS = {path.replace("namespaceSelector", "topologyKey"): "free" for path in _ELSEWHERE} | _ELSEWHERE
_TAINTS = {"allowed": [{"key": "gpu", "values": ["a"], "effects": ["NoSchedule"]}]}
_TOLERATED = {f"{_POD}tolerations[]": {"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"}}
_RACK = {"allowed": ["rack"]}
_AMOUNT, _OF_CPU = {"cpu": 1}, {"resources": ["cpu"]}
_STATED = {f"{_POD}containers[].resources": {"requests": _AMOUNT, "limits": _AMOUNT}}

_STATING = (
    *(
        _Example(f"initContainers[].resources.{kind}{{}}", _OF_CPU, {}, {**_STATED, SAME: _AMOUNT})
        for kind in ("requests", "limits")
    ),
    _Example("", _OF_CPU, {}, {SAME: _AMOUNT}),
)
EXAMPLES: Mapping[str, tuple[_Example, ...]] = {
    "requiredQueue": (_Example("", {"labels": ["q"], "allowed": ["a"]}, {"q": "b"}, {SAME: {"q": "a"}}),),
    "requiredLabels": (_Example("", _PAIR, {"a": "y"}, {SAME: {"a": "x"}}),),
    "requiredAnnotations": (_Example("", _PAIR, {"a": "y"}, {SAME: {"a": "x"}}),),
    "maxTotals": (
        _Example("replicas", _PODS, 5),
        _Example("parallelism", _PODS, 5, {f"{_JOB}completions": 9}),
        _Example("completions", _PODS, 5, {f"{_JOB}parallelism": 9}),
        _Example("restartPolicy", _CPU, "Always", _STARTED),
        _Example(f"{_POD}resources.requests{{}}", _MEMORY, {"memory": "1Gi"}),
        _Example(f"{_POD}resources.limits{{}}", _MEMORY, {"memory": "1Gi"}),
        _Example("{}", _CPU, {"cpu": "1500m"}),
        *(
            _Example(f"spec.scheduling.replicatedJobs[].job.resourceClaims[].{source}", _CLAIMED, "a", _TARGETS)
            for source in _SOURCES
        ),
        *(_Example(source, _CLAIMED, "a") for source in _SOURCES),
    ),
    "allowedResources": (_Example("", ["cpu"], {"memory": 1}),),
    "maxReplicatedJobs": (_Example("", {"max": 0}, "workers", {"spec.replicatedJobs": []}),),
    "maxJobs": (_Example("", {"max": 4}, 5),),
    "maxRestarts": (
        _Example("spec.failurePolicy.maxRestarts", {"max": 3}, 4),
        _Example("maxRestarts", {"max": 3}, 4, {"spec.failurePolicy.rules[].action": _FREE}),
        _Example("action", _UNLIMITED, _FREE),
    ),
    "ttl": (_Example("", {"max": "7d"}, 604801),),
    "activeDeadline": (_Example("", {"max": 10}, 11),),
    "priorityClasses": (_Example("", {"allowed": ["a"]}, "b"),),
    "exclusiveTopologies": (_Example("", _RACK, {_TOPOLOGY: "zone"}),),
    "imageRegistries": (_Example("", {"allowed": ["registry.example.com"]}, "evil.example/x", _IMAGES),),
    "imagesByDigest": (_Example("", True, "registry.example.com/x:1", _IMAGES),),
    "requiredRequests": _STATING,
    "requiredLimits": _STATING,
    "nodeSelectors": (
        _Example("nodeName", _POOLS, "n"),
        _Example("nodeSelector{}", _POOLS, {"other": "x"}),
        _Example("matchExpressions[].key", _POOLS, "other", _EXPRESSIONS),
        _Example("operator", _POOLS, "Exists", _EXPRESSIONS),
        _Example("values[]", _POOLS, "c", _EXPRESSIONS),
        _Example("matchFields[].key", _POOLS, "metadata.name"),
        _Example("topologyKey", _POOLS, "other", _NO_KEYS),
    ),
    "tolerations": (
        _Example("nodeName", _TAINTS, "n"),
        _Example("key", _TAINTS, "other", _TOLERATED),
        _Example("operator", _TAINTS, "Gt", _TOLERATED),
        _Example("value", _TAINTS, "b", _TOLERATED),
        _Example("effect", _TAINTS, "NoExecute", _TOLERATED),
    ),
    "forbid": (
        _Example("annotations{}", ["appArmor"], {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}),
        *(
            _Example(path, [what], {bool: True, int: 7, str: "Other"}[type(each.harmless[0])])
            for what, use in USES.items()
            for each in use.fields
            for path in each.paths
            if each.harmless
        ),
        _Example("hostPath", ["hostPath"], {"path": "/"}),
        *(_Example(source, ["resourceClaims"], "a") for source in _SOURCES),
        _Example("{}", ["resourceClaims"], {"deviceclass.resource.kubernetes.io/gpu": 1}),
    ),
    "backoffLimit": (
        _Example("maxRestarts", {"zeroWithRestarts": True}, 1),
        _Example("PerIndex", {"max": 6}, 7),
        _Example("backoffLimit", {"max": 6}, 7),
    ),
    "networkDNS": (_Example("", "Enabled", False, {"spec.network.enableDNSHostnames": True}),),
    "managedBy": (_Example("", {"allowed": ["jobset.sigs.k8s.io/jobset-controller"]}, "example.com/x"),),
    "restartStrategies": (_Example("", {"allowed": ["Recreate"]}, "BlockingRecreate"),),
}
"""By rule; of several that fit a path the first counts."""


_HUB = {"allowed": ["docker.io"]}
_AGENT_IMAGE = "spec.failurePolicy.agent.image"
_STEP = "spec.failurePolicy.rules[].then[].action"
_MAIN = f"{_POD}containers[]"
WAYS_AROUND = (
    Case("imageRegistries", f"{_MAIN}.image", _HUB, "EVIL/foo", {}),
    Case("imageRegistries", f"{_MAIN}.image", _HUB, "localhost/foo", {}),
    Case("imageRegistries", f"{_MAIN}.image", _HUB, "evil:5000/foo", {f"{_MAIN}.image": "index.docker.io/foo"}),
    Case(
        "imageRegistries",
        _AGENT_IMAGE,
        _HUB,
        "EVIL/agent",
        {**_AGENT, "spec.failurePolicy.agent.mode": "MainContainer"},
    ),
    Case(
        "imageRegistries",
        _AGENT_IMAGE,
        _HUB,
        "EVIL/agent",
        {**_AGENT, "spec.failurePolicy.agent.mode": "MainContainer", "spec.failurePolicy.agent.imageVolume": True},
    ),
    Case("maxTotals", _AGENT_IMAGE, {"resources": [{"name": "memory", "max": "1Mi"}]}, "x", _AGENT),
    Case("maxTotals", _AGENT_IMAGE, {"resources": [{"name": "cpu", "max": "9m"}]}, "x", _AGENT),
    Case(
        "maxRestarts",
        "spec.failurePolicy.rules[].maxRestarts",
        {"max": 3},
        2,
        {_STEP: _FREE, "spec.failurePolicy.maxRestarts": 2},
    ),
    Case("forbid", f"{_MAIN}.securityContext.capabilities.add", ["capabilities"], ["CHOWN", "NET_ADMIN"], {}),
    Case("forbid", f"{_POD}initContainers[].securityContext.procMount", ["procMount"], "Unmasked", {}),
    Case("forbid", f"{_POD}securityContext.sysctls[].name", ["sysctls"], "kernel.msgmax", {}),
    Case("tolerations", f"{_POD}tolerations[].operator", _TAINTS, "Lt", _TOLERATED),
)
"""What went by a rule once, or could."""
_HOSTILE = "x' || true || 'y\"\\ ) || (true"
HOSTILE = (
    Case("priorityClasses", f"{_POD}priorityClassName", {"allowed": [_HOSTILE]}, "b", {}),
    Case("imageRegistries", f"{_MAIN}.image", {"allowed": [_HOSTILE, "docker.io"]}, "evil.example/x", {}),
    Case(
        "nodeSelectors",
        f"{_POD}nodeSelector{{}}",
        {"allowed": [{"key": _HOSTILE, "values": [_HOSTILE]}]},
        {"a": "b"},
        {},
    ),
    Case("tolerations", f"{_POD}tolerations[].key", {"allowed": [{"key": _HOSTILE, "values": [_HOSTILE]}]}, "b", {}),
    Case(
        "requiredLabels",
        "metadata.labels{}",
        [{"key": "a", "pattern": "x|' || true || '[)]"}],
        {"a": "y"},
        {"metadata.labels{}": {"a": "x"}},
    ),
    Case(
        "managedBy",
        "spec.managedBy",
        {"allowed": [_HOSTILE, "jobset.sigs.k8s.io/jobset-controller"]},
        "b.example/c",
        {},
    ),
)
"""Texts of policies that would be expressions, were they not quoted."""


def cases() -> Iterator[Case]:
    """One for each field of each rule."""
    for rule in RULES.values():
        for path in rule.reads:
            example = next((each for each in EXAMPLES.get(rule.name, ()) if path.endswith(each.end)), None)
            assert example, f"no example for {path} of {rule.name}: what a policy demands, and what breaks it"
            beside = {path if place == SAME else place: value for place, value in example.beside.items()}
            yield Case(rule.name, path, example.demand, example.value, beside)
    yield from WAYS_AROUND
    yield from HOSTILE
