"""What admission makes of a pod of a JobSet, as one table: the webhooks and the policies are both held to it.

Each row is a pod as the Job controller creates it while its Job has no domain yet, and what the stored pod shows, with
the terms as the API server writes them out. Expectations are spelt out here, so that they do not follow the code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dev.cluster.cluster import Cluster
from tests.support.cluster.requests import request
from tests.support.objects.jobsets import JSON, jobset
from tests.support.objects.pods import exclusive, pod_of

PRIORITY_CLASSES = {"urgent": 1000000000, "low": -7}
NAMESPACES = ("default", "kube-system", "jobset-system")

PRIORITY = "jobset.sigs.k8s.io/priority"
AWAITS = "jobset.sigs.k8s.io/awaits-leader"
GATE = "jobset.sigs.k8s.io/exclusive-placement"
JOB_KEY = "jobset.sigs.k8s.io/job-key"
INDEX = "batch.kubernetes.io/job-completion-index"
TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
BY_NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

_LEADER = pod_of(exclusive(), 0)
_FOLLOWER = pod_of(exclusive(), 1)
_NOT_INDEXED = pod_of(exclusive(), None)
_PLAIN = pod_of(jobset(), 0)
KEY: str = _LEADER["metadata"]["labels"][JOB_KEY]

OWN_JOB = {
    "labelSelector": {"matchExpressions": [{"key": JOB_KEY, "operator": "In", "values": [KEY]}]},
    "topologyKey": "rack",
    "namespaceSelector": {},
}
OWN_LEADER = {
    "labelSelector": {
        "matchExpressions": [
            {"key": INDEX, "operator": "In", "values": ["0"]},
            {"key": JOB_KEY, "operator": "In", "values": [KEY]},
        ]
    },
    "topologyKey": "rack",
}
USERS = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "zone"}
"""A required term of the user's."""
SOFT = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": USERS}]}
SHORT = {
    "labelSelector": {"matchExpressions": [{"key": JOB_KEY, "operator": "Exists"}]},
    "matchLabelKeys": [PRIORITY],
    "mismatchLabelKeys": [JOB_KEY],
    "topologyKey": "rack",
    "namespaceSelector": {},
}
"""The anti-affinity in its short form, as we write it."""


def other_jobs(priority: int | str = 0) -> JSON:
    """The anti-affinity of a leader, written out, with its expressions in order."""
    return {
        "labelSelector": {
            "matchExpressions": [
                {"key": JOB_KEY, "operator": "Exists"},
                {"key": JOB_KEY, "operator": "NotIn", "values": [KEY]},
                {"key": PRIORITY, "operator": "In", "values": [str(priority)]},
            ]
        },
        "topologyKey": "rack",
        "namespaceSelector": {},
    }


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a stored pod shows of placement; `refused` are parts of the refusal's text, where it is not stored."""

    priority: str | None = None
    awaits: str | None = None
    gather: tuple[JSON, ...] = ()
    spread: tuple[JSON, ...] = ()
    gates: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    name: str
    pod: JSON
    shown: Shown
    namespace: str = "default"


UNTOUCHED = Shown()
LED = Shown(priority="0", gather=(OWN_JOB,), spread=(other_jobs(),))
GATED = Shown(priority="0", awaits="true", gates=(GATE,))


def _with(
    pod: JSON, annotations: Mapping[str, Any] | None = None, labels: Mapping[str, Any] | None = None, **spec: Any
) -> JSON:
    """The pod with these annotations, labels and fields of its spec; None takes one away."""
    meta = dict(pod["metadata"])
    for name, changes in (("annotations", annotations), ("labels", labels)):
        merged = {**meta[name], **(changes or {})}
        meta[name] = {k: v for k, v in merged.items() if v is not None}
    return {**pod, "metadata": meta, "spec": {**pod["spec"], **spec}}


def _ownerless(pod: JSON) -> JSON:
    return {**pod, "metadata": {k: v for k, v in pod["metadata"].items() if k != "ownerReferences"}}


def _led_with(name: str, affinity: Any, *, gather: tuple[JSON, ...] = (), spread: tuple[JSON, ...] = ()) -> Row:
    """A leader whose template has an affinity of its own, with the required terms that are in it."""
    shown = replace(LED, gather=(*gather, OWN_JOB), spread=(*spread, other_jobs()))
    return Row(f"leader, {name}", _with(_LEADER, affinity=affinity), shown)


_STRANGER = {**_FOLLOWER, "metadata": {"generateName": "stranger-"}}
_BY_HAND = {BY_NODE_SELECTOR: "true"}

ROWS = (
    Row("leader", _LEADER, LED),
    Row("leader, wrong label", _with(_LEADER, labels={PRIORITY: "5"}), LED),
    Row(
        "leader, urgent",
        _with(_LEADER, priorityClassName="urgent"),
        replace(LED, priority="1000000000", spread=(other_jobs(1000000000),)),
    ),
    Row(
        "leader, system class",
        _with(_LEADER, priorityClassName="system-node-critical"),
        replace(LED, priority="2000001000", spread=(other_jobs(2000001000),)),
    ),
    Row(
        "leader, low",
        _with(_LEADER, priorityClassName="low"),
        replace(LED, priority="minus7", spread=(other_jobs("minus7"),)),
    ),
    Row("leader, label in place", _with(_LEADER, labels={PRIORITY: "0"}), LED),
    _led_with("null affinity", None),
    _led_with("empty affinity", {}),
    _led_with("empty lists of terms", {"podAffinity": {REQUIRED: []}, "podAntiAffinity": {REQUIRED: []}}),
    _led_with("empty podAffinity", {"podAffinity": {}}),
    _led_with("empty podAntiAffinity", {"podAntiAffinity": {}}),
    _led_with("node affinity", {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}),
    _led_with("preferred terms", {"podAffinity": SOFT, "podAntiAffinity": SOFT}),
    _led_with("affinity term of the user", {"podAffinity": {REQUIRED: [USERS]}}, gather=(USERS,)),
    _led_with("anti-affinity term of the user", {"podAntiAffinity": {REQUIRED: [USERS, USERS]}}, spread=(USERS, USERS)),
    _led_with(
        "terms of the user in both",
        {"podAffinity": {REQUIRED: [USERS], **SOFT}, "podAntiAffinity": {REQUIRED: [USERS]}},
        gather=(USERS,),
        spread=(USERS,),
    ),
    Row("leader, our affinity in place", _with(_LEADER, affinity={"podAffinity": {REQUIRED: [OWN_JOB]}}), LED),
    Row("leader, our anti-affinity in place", _with(_LEADER, affinity={"podAntiAffinity": {REQUIRED: [SHORT]}}), LED),
    Row(
        "leader, our anti-affinity in place, written out",
        _with(
            _LEADER,
            affinity={
                "podAffinity": {REQUIRED: [USERS, OWN_JOB]},
                "podAntiAffinity": {REQUIRED: [other_jobs(), USERS]},
            },
        ),
        replace(LED, gather=(USERS, OWN_JOB), spread=(other_jobs(), USERS)),
    ),
    _led_with(
        "a term like ours for one namespace only",
        {"podAntiAffinity": {REQUIRED: [{k: v for k, v in SHORT.items() if k != "namespaceSelector"}]}},
        spread=({k: v for k, v in other_jobs().items() if k != "namespaceSelector"},),
    ),
    Row(
        "leader, anti-affinity of another priority",
        _with(_LEADER, affinity={"podAntiAffinity": {REQUIRED: [other_jobs(5)]}}),
        replace(LED, spread=(other_jobs(5), other_jobs())),
    ),
    Row(
        "leader, other key",
        _with(_LEADER, {TOPOLOGY: "zone.example/row"}),
        replace(
            LED,
            gather=({**OWN_JOB, "topologyKey": "zone.example/row"},),
            spread=({**other_jobs(), "topologyKey": "zone.example/row"},),
        ),
    ),
    Row(
        "leader, gates and node selector of the user",
        _with(_LEADER, schedulingGates=[{"name": "example.com/quota"}], nodeSelector={"disk": "ssd"}),
        replace(LED, gates=("example.com/quota",), node_selector={"disk": "ssd"}),
    ),
    Row("leader, bound by its template", _with(_LEADER, nodeName="node-1"), LED),
    Row("leader without an owner", _ownerless(_LEADER), LED),
    Row(
        "leader without job key",
        _with(_LEADER, labels={JOB_KEY: None}),
        Shown(refused=("pod missing label: jobset.sigs.k8s.io/job-key", "take the annotation")),
    ),
    Row("follower", _FOLLOWER, GATED),
    Row("follower, last of many", _with(_FOLLOWER, {INDEX: "4095"}, {INDEX: "4095"}), GATED),
    Row("follower, index 00", _with(_FOLLOWER, {INDEX: "00"}), GATED),
    Row("follower, wrong label", _with(_FOLLOWER, labels={PRIORITY: "1"}), GATED),
    Row(
        "follower, gates and node selector of the user",
        _with(
            _FOLLOWER,
            schedulingGates=[{"name": "example.com/a"}, {"name": "example.com/b"}],
            nodeSelector={"disk": "ssd"},
        ),
        replace(GATED, gates=("example.com/a", "example.com/b", GATE), node_selector={"disk": "ssd"}),
    ),
    Row("follower, low", _with(_FOLLOWER, priorityClassName="low"), replace(GATED, priority="minus7")),
    Row("follower, empty list of gates", _with(_FOLLOWER, schedulingGates=[]), GATED),
    Row("follower, gate in place", _with(_FOLLOWER, schedulingGates=[{"name": GATE}]), GATED),
    Row(
        "follower, gate and label in place",
        _with(_FOLLOWER, labels={AWAITS: "true"}, schedulingGates=[{"name": GATE}, {"name": "example.com/a"}]),
        replace(GATED, gates=(GATE, "example.com/a")),
    ),
    Row(
        "follower, domain chosen by the user",
        _with(_FOLLOWER, nodeSelector={"rack": "rack-7"}),
        replace(GATED, node_selector={"rack": "rack-7"}),
    ),
    Row(
        "follower, affinity of the user",
        _with(_FOLLOWER, affinity={"podAffinity": {REQUIRED: [USERS]}, "podAntiAffinity": {REQUIRED: [USERS]}}),
        replace(GATED, gather=(USERS,), spread=(USERS,)),
    ),
    Row(
        "follower bound by its template",
        _with(_FOLLOWER, nodeName="node-1"),
        Shown(refused=("follower pod node selector not set", "nodeName")),
    ),
    Row(
        "follower without an owner",
        _ownerless(_FOLLOWER),
        Shown(refused=("follower pod has no owner reference", "take the annotation")),
    ),
    Row(
        "follower without job key",
        _with(_FOLLOWER, labels={JOB_KEY: None}),
        Shown(refused=("pod missing label: jobset.sigs.k8s.io/job-key", "take the annotation")),
    ),
    Row(
        "no completion index",
        _NOT_INDEXED,
        Shown(refused=("has no completion index", "create the JobSet again with completionMode: Indexed")),
    ),
    Row("leader by node selector", _with(_LEADER, _BY_HAND), UNTOUCHED),
    Row("follower by node selector", _with(_FOLLOWER, _BY_HAND), UNTOUCHED),
    Row("no completion index, by node selector", _with(_NOT_INDEXED, _BY_HAND), UNTOUCHED),
    Row("strategy without exclusive key", _with(_PLAIN, _BY_HAND), UNTOUCHED),
    Row("by node selector, wrong label", _with(_LEADER, _BY_HAND, {PRIORITY: "3"}), Shown(priority="3")),
    Row("not exclusive, without label", _PLAIN, Shown(priority="0")),
    Row("not exclusive, right label", _with(_PLAIN, labels={PRIORITY: "0"}), Shown(priority="0")),
    Row("not exclusive, wrong label", _with(_PLAIN, labels={PRIORITY: "12"}), Shown(priority="0")),
    Row("not exclusive, low", _with(_PLAIN, priorityClassName="low"), Shown(priority="minus7")),
    Row(
        "not exclusive, label of a low class in place",
        _with(_PLAIN, labels={PRIORITY: "minus7"}, priorityClassName="low"),
        Shown(priority="minus7"),
    ),
    Row("not exclusive, urgent", _with(_PLAIN, priorityClassName="urgent"), Shown(priority="1000000000")),
    Row("not exclusive, no completion index", pod_of(jobset(), None), Shown(priority="0")),
    Row("leader in kube-system", _LEADER, UNTOUCHED, "kube-system"),
    Row("follower in kube-system", _FOLLOWER, UNTOUCHED, "kube-system"),
    Row("no completion index in kube-system", _NOT_INDEXED, UNTOUCHED, "kube-system"),
    Row("not exclusive in jobset-system", _PLAIN, UNTOUCHED, "jobset-system"),
    Row("label but no annotation", _with(_LEADER, {"jobset.sigs.k8s.io/jobset-name": None}), UNTOUCHED),
    Row("annotation but no label", _with(_LEADER, labels={"jobset.sigs.k8s.io/jobset-name": None}), UNTOUCHED),
    Row("not of a JobSet", _STRANGER, UNTOUCHED),
)


BY_NAME = {row.name: row for row in ROWS}


def without_manager(row: Row) -> Shown:
    """What the variant of the policies that needs no manager makes of it: a follower follows, and is not gated."""
    shown = row.shown
    if row is BY_NAME["follower bound by its template"]:
        return Shown(priority="0", gather=(OWN_LEADER,))
    if shown.awaits is None:
        return shown
    labels, gates = row.pod["metadata"]["labels"], row.pod["spec"].get("schedulingGates") or ()
    return replace(
        shown,
        awaits=labels.get(AWAITS),
        gates=tuple(gate["name"] for gate in gates),
        gather=(*shown.gather, OWN_LEADER),
    )


def shown(cluster: Cluster, row: Row) -> Shown | str:
    """What the API server would store; the text of the refusal where it refuses."""
    path = f"/api/v1/namespaces/{row.namespace}/pods?dryRun=All"
    body = {**row.pod, "metadata": {**row.pod["metadata"], "namespace": row.namespace}}
    status, pod = request(cluster, "POST", path, body)
    if status == 201:
        return _shown(pod)
    text: str = f"{status}: {pod['message']}"
    return text


def agrees(seen: Shown | str, expected: Shown) -> bool:
    """Whether the API server did what is expected. A refusal is a 403."""
    if isinstance(seen, str):
        return bool(expected.refused) and seen.startswith("403: ") and all(part in seen for part in expected.refused)
    return seen == expected


def _shown(pod: JSON) -> Shown:
    labels, spec = pod["metadata"].get("labels") or {}, pod["spec"]
    affinity = spec.get("affinity") or {}
    return Shown(
        priority=labels.get(PRIORITY),
        awaits=labels.get(AWAITS),
        gather=_terms(affinity.get("podAffinity")),
        spread=_terms(affinity.get("podAntiAffinity")),
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
        node_selector=spec.get("nodeSelector") or {},
    )


def _terms(affinity: JSON | None) -> tuple[JSON, ...]:
    """The required terms without the keys that the API server has written out, expressions in order."""
    written = []
    for term in (affinity or {}).get(REQUIRED) or ():
        plain = {k: v for k, v in term.items() if k not in {"matchLabelKeys", "mismatchLabelKeys"}}
        expressions = plain["labelSelector"].get("matchExpressions")
        if expressions:
            in_order = sorted(expressions, key=lambda e: (e["key"], e["operator"], e.get("values") or []))
            plain["labelSelector"] = {**plain["labelSelector"], "matchExpressions": in_order}
        written.append(plain)
    return tuple(written)
