"""Why no node takes a pod, computed from the labels, taints and resources of the nodes. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec

from api.batch import LabelledIdentity
from api.node_offers import device_meant, devices, format_amount, format_number, offers_of
from diagnose.finding import MAX_NAMES, Finding, Level, join_names, pluralize
from diagnose.needs import SeenSpec
from diagnose.taints import Taint, blocking_taint, nodes_by_taint, taint_remedy, tainted_nodes_text
from kube.model.meta import JSON, Base
from kube.model.requests import Amount, Amounts, exceeding_resources, sum_requests
from kube.model.suggest import nearest

_PODS = 110
"""The limit of pods on a node that reports no limit. It is the default of the kubelet."""


FITS_NOWHERE = frozenset({"no-such-label", "no-such-resource", "too-large"})
"""Causes of findings about a pod that fits on none of the present nodes, even if they are idle."""
_OTHER_LABEL = "write another one in a new JobSet, "
"""The beginning of a fix if no similar label is known."""


class _Spec(Base, frozen=True, kw_only=True):
    taints: tuple[Taint, ...] = ()


class _Status(Base, frozen=True, kw_only=True):
    allocatable: JSON = {}
    declared_features: tuple[str, ...] = ()


class SeenNode(Base, frozen=True, kw_only=True):
    """core/v1 Node: its labels, its taints, and its allocatable resources."""

    metadata: LabelledIdentity
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Node(NamedTuple):
    """The cached record of a node. `offers`: allocatable resources."""

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    offers: Amounts

    def takes(self, needs: Amounts) -> bool:
        """Whether a pod that requests `needs` fits on the node while the node is idle."""
        return all(self.offers.get(name, 0) >= amount for name, amount in needs.items())

    def room(self, needs: Amounts) -> int:
        """How many pods that request `needs` fit on the node while the node is idle."""
        by_resource = (self.offers.get(name, 0) // amount for name, amount in needs.items())
        return int(min([self.offers.get("pods", _PODS), *by_resource]))


class Lack(NamedTuple):
    """A sentence about a label that no node has, the beginning of a fix, and the value that was likely meant."""

    message: str = ""
    fix: str = ""
    value: str = ""


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _remember(
    question: Callable[Concatenate["Nodes", SeenSpec, _P], _R],
) -> Callable[Concatenate["Nodes", SeenSpec, _P], _R]:
    """Decorator that caches the answer of a method of `Nodes` for all pods of the same shape."""

    @wraps(question)
    def answer(nodes: "Nodes", spec: SeenSpec, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        key = question, shape_of(spec), args
        if key not in nodes.memory:
            nodes.memory[key] = question(nodes, spec, *args, **kwargs)
        remembered: _R = nodes.memory[key]
        return remembered

    return answer


class Nodes:
    """All nodes of a cluster. `memory`: a cache of answers."""

    def __init__(self, nodes: Iterable[SeenNode] = (), labels: frozenset[str] | None = None) -> None:
        """`labels`: keys of the labels to keep; None keeps all labels."""
        self.memory: dict[tuple[object, ...], Any] = {}
        self._nodes: list[_Node] = []
        self._keep = labels
        self._label_keys: dict[str, None] = {}
        self._features: set[str] = set()
        for node in nodes:
            self.add(node)

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, node: SeenNode) -> None:
        labels, keep = node.metadata.labels, self._keep
        self._label_keys |= dict.fromkeys(labels)
        self._features.update(node.status.declared_features)
        labels = labels if keep is None else {key: value for key, value in labels.items() if key in keep}
        self._nodes.append(_Node(node.metadata.name, labels, node.spec.taints, offers_of(node.status.allocatable)))

    def labels(self, keys: Container[str]) -> Mapping[str, Mapping[str, str]]:
        """The labels with these keys of every node, by the name of the node."""
        return {node.name: {key: value for key, value in node.labels.items() if key in keys} for node in self._nodes}

    def declare(self, feature: str) -> bool:
        """Whether a node declares this feature of Kubernetes."""
        return feature in self._features

    def missing_label(self, key: str) -> Lack | None:
        """The lack of a label that no node has, whatever its value; None if a node has it, or without nodes."""
        return self._missing_value(key, ()) if self._nodes else None

    def has_domains(self, keys: Sequence[str]) -> bool:
        """Whether a node has labels with all of these keys."""
        return any(node.labels.keys() >= set(keys) for node in self._nodes)

    @_remember
    def largest(self, spec: SeenSpec, keys: tuple[str, ...]) -> int:
        """How many pods of this spec the largest domain takes while it is idle and all of its nodes work.

        A domain is all nodes that have the same values of the labels with these keys.
        """
        needs, room = spec.requests(), Counter[tuple[str, ...]]()
        for node in self._nodes:
            if node.labels.keys() >= set(keys) and _is_chosen(spec, node) and not _keeps_out(spec, node):
                room[tuple(node.labels[key] for key in keys)] += node.room(needs)
        return max(room.values(), default=0)

    def largest_amount(self, resource: str, keys: Sequence[str]) -> Amount:
        """The largest amount of a resource that a domain has. A domain is the same as in `largest`."""
        key = resource, tuple(keys)
        if key not in self.memory:
            offered = defaultdict[tuple[str, ...], Amount](int)
            for node in self._nodes:
                if node.labels.keys() >= set(keys):
                    offered[tuple(node.labels[key] for key in keys)] += node.offers.get(resource, 0)
            self.memory[key] = max(offered.values(), default=0)
        amount: Amount = self.memory[key]
        return amount

    @_remember
    def too_many(self, spec: SeenSpec, wanted: int, running: int) -> Finding | None:
        """The finding that `wanted` pods of this spec, of which `running` run, do not fit on the nodes at once.

        None if they fit. They may not fit although the nodes together have enough, if each node has too little left.
        """
        needs = spec.requests()
        capacities = [room for node in self._nodes if _may_use(spec, node) and (room := node.room(needs))]
        if sum(capacities) >= wanted:
            return None
        by_node = f" ({capacities[0]} per node)" if len(set(capacities)) == 1 else ""
        fit = f"only {sum(capacities)} {'fits' if sum(capacities) == 1 else 'fit'} on the nodes at once{by_node}"
        own_pods = f"; {pluralize(running, 'pod', 'of its own holds', 'of its own hold')} them now" if running else ""
        taints_by_node = self.blocking_taints(spec)
        message = f"of the {wanted} pods of its ReplicatedJob {fit}{own_pods}{tainted_nodes_text(taints_by_node)}"
        fix = f"{taint_remedy(taints_by_node)}; or " if taints_by_node else ""
        fix += "add nodes, or run fewer pods at once: lower replicas or parallelism in a new JobSet"
        fix += "; as it is, the others run when some of its pods have ended"
        return Finding(Level.FAULT, "too-many-at-once", message, fix=fix)

    @_remember
    def takers(self, spec: SeenSpec) -> frozenset[str]:
        """The names of the nodes that take a pod of this spec while they are idle."""
        needs = spec.requests()
        return frozenset(node.name for node in self._nodes if _may_use(spec, node) and node.takes(needs))

    def offered_amount(self, spec: SeenSpec, resource: str) -> Amount:
        """How much of a resource the nodes of `takers` have together."""
        takers = self.takers(spec)
        return sum(node.offers.get(resource, 0) for node in self._nodes if node.name in takers)

    def blocking_taints(self, spec: SeenSpec) -> dict[str, Taint]:
        """The first taint by node, of the nodes that would take a pod of this spec while idle if they had no taints."""
        needs = spec.requests()
        return {
            node.name: taint
            for node in self._nodes
            if _is_chosen(spec, node) and node.takes(needs) and (taint := blocking_taint(spec, node.taints)) is not None
        }

    def too_little(self, needs: Amounts) -> Finding | None:
        """A finding about a resource of which all nodes together have less than the pods of a set need together."""
        offered = sum_requests((node.offers, 1) for node in self._nodes)
        for name in exceeding_resources(needs, offered)[:1]:
            need = f"the pods of its JobSet need {format_amount(needs[name], name)} in all"
            message = f"{need}, the nodes offer {format_number(offered[name], name)}: they never run all at once"
            fix = f"add nodes, or run fewer pods: lower replicas or parallelism in a new JobSet; {_offers(name)}"
            return Finding(Level.FAULT, "too-large-in-all", message, fix=fix)
        return None

    @_remember
    def why_none(self, spec: SeenSpec, recreate: str) -> Finding | None:
        """The finding about why no node takes a pod of this spec, even an idle node (FAULT); None without nodes.

        If idle nodes would take the pod, the finding says how many (WAITS). The message is a sentence about the pod.
        `recreate` is a command that creates the set again with `{old}` replaced by `{new}`.
        """
        needs = spec.requests()
        if not self._nodes:
            return None
        if missing := self._not_offered(needs, recreate):
            return missing
        chosen = [node for node in self._nodes if _is_chosen(spec, node)]
        if not chosen:
            return self._no_label(spec, recreate)
        fitting = [node for node in chosen if node.takes(needs)]
        if not fitting:
            return self._too_large(needs, chosen)
        usable = sum(_may_use(spec, node) for node in fitting)
        taints_by_node = self.blocking_taints(spec)
        return self._usage_finding(usable, taints_by_node) if usable else _taint_finding(taints_by_node)

    def _usage_finding(self, nodes_in_use: int, taints_by_node: Mapping[str, Taint]) -> Finding:
        message = f"{nodes_in_use} of {pluralize(len(self._nodes), 'node')} could take it, and too little is free there"
        message += tainted_nodes_text(taints_by_node)
        passing = {name: taint for name, taint in taints_by_node.items() if taint.is_temporary}
        fix = f"{taint_remedy(passing)}; or " if passing else ""
        fix += "wait for other pods to end, or add nodes; kubectl describe nodes shows what is allocated on each"
        return Finding(Level.WAITS, "in-use", message, fix=fix)

    def _not_offered(self, needs: Amounts, recreate: str) -> Finding | None:
        """The finding about a requested resource that no node has; None without one."""
        offered = dict.fromkeys(name for node in self._nodes for name in node.offers)
        missing = next((name for name in needs if name not in offered), None)
        if missing is None:
            return None
        meant = device_meant(missing, offered)
        resource_names = sorted(devices(offered) or offered, key=lambda name: (name != meant, name))
        fix = (
            recreate.format(old=f"{missing}:", new=f"{meant}:")
            if meant
            else f"does the device plugin for {missing} run? {_offers(missing)}"
        )
        message = f"no node offers {missing}; nodes offer {join_names(resource_names)}"
        return Finding(Level.FAULT, "no-such-resource", message, fix=fix)

    def _no_label(self, spec: SeenSpec, recreate: str) -> Finding:
        """The finding that no node matches the node selector and the required node affinity."""
        show = "kubectl get nodes --show-labels shows the labels of the nodes; an autoscaler may add such nodes, too"
        for key, value in sorted(spec.node_selector.items()):
            wanted, missing_label = f"{key}={value}", self._missing_value(key, (value,))
            if missing_label is None:
                continue
            fix = f"{missing_label.fix or _OTHER_LABEL}or kubectl label node NODE {wanted}; {show}"
            if missing_label.value:
                fix = f"{recreate.format(old=f'{key}: {value}$', new=f'{key}: {missing_label.value}')}; {fix}"
            message = f"no node has the label {wanted} of its nodeSelector; {missing_label.message}"
            return Finding(Level.FAULT, "no-such-label", message, fix=fix)
        selector = ",".join(f"{key}={value}" for key, value in sorted(spec.node_selector.items()))
        if not any(spec.node_selector.items() <= node.labels.items() for node in self._nodes):
            message = f"no node has all labels of its nodeSelector ({selector})"
            fix = f"{_OTHER_LABEL}or kubectl label node NODE {selector.replace(',', ' ')}; {show}"
            return Finding(Level.FAULT, "no-such-label", message, fix=fix)
        message = f"no node meets its required node affinity ({spec.affinity_words})"
        message += f" and has {selector}" if selector else ""
        candidates = (self._missing_value(demand.key, demand.values) for demand in spec.demands)
        missing_label = next((missing_label for missing_label in candidates if missing_label is not None), Lack())
        message = f"{message}; {missing_label.message}" if missing_label.message else message
        fix = f"{missing_label.fix or 'write another node affinity in a new JobSet, '}or label a node; {show}"
        return Finding(Level.FAULT, "no-such-label", message, fix=fix)

    def _missing_value(self, key: str, wanted: Sequence[str]) -> Lack | None:
        """The lack if no node has the label with one of the `wanted` values, or with any value if `wanted` is empty."""
        values = sorted({node.labels[key] for node in self._nodes if key in node.labels})
        if not values:
            # Keys are similar only if the parts behind their prefixes are similar, too.
            meant = nearest(key, self._label_keys)
            meant = meant if nearest(key.rpartition("/")[2], [meant.rpartition("/")[2]]) else ""
            message = f"no node has a label {key} at all" + (f": did you mean {meant}?" if meant else "")
            return Lack(message, f"write {meant} for {key} in a new JobSet, " if meant else "")
        if not wanted or not set(wanted).isdisjoint(values):
            return None
        meant = next((close for value in wanted[:MAX_NAMES] if (close := nearest(value, values))), "")
        values.sort(key=lambda value: value != meant)
        has = f"nodes have {join_names([f'{key}={value}' for value in values])}"
        return Lack(has, f"choose a value of {key} that nodes have ({join_names(values)}) in a new JobSet, ", meant)

    def _too_large(self, needs: Amounts, chosen: Sequence[_Node]) -> Finding:
        """The finding that no chosen node has as much as the pod requests: of one resource, or of all together."""
        is_narrowed = len(chosen) < len(self._nodes)
        location = f" of the {pluralize(len(chosen), 'node')} that its labels choose" if is_narrowed else " node"
        for name, amount in needs.items():
            largest, node = max((node.offers.get(name, 0), node.name) for node in chosen)
            if largest < amount:
                has = f"has {format_number(largest, name)} ({node})" if largest else "has none"
                message = f"it needs {format_amount(amount, name)}, the largest{location} {has}"
                fix = f"request less in a new JobSet, or add larger nodes; {_offers(name)}"
                return Finding(Level.FAULT, "too-large", message, fix=fix)
        amounts = " and ".join(format_amount(amount, name) for name, amount in needs.items())
        message = f"it needs {amounts}, {'none' if is_narrowed else 'no'}{location} has all of that"
        fix = "request less in a new JobSet, or add larger nodes; kubectl describe nodes shows what each has"
        return Finding(Level.FAULT, "too-large", message, fix=fix)


def shape_of(spec: SeenSpec) -> bytes:
    """The part of a spec that decides which nodes a pod fits on, as bytes to compare."""
    shape = (spec.node_selector, spec.affinity, spec.tolerations, spec.containers, spec.init_containers)
    return msgspec.json.encode((*shape, spec.overhead, spec.resources))


def _is_chosen(spec: SeenSpec, node: _Node) -> bool:
    """Whether the pod's node selector and its required node affinity choose the node."""
    required = spec.affinity.node_affinity
    return spec.node_selector.items() <= node.labels.items() and required.is_met(node.name, node.labels)


def _may_use(spec: SeenSpec, node: _Node) -> bool:
    """Whether the pod chooses the node and tolerates its taints."""
    return _is_chosen(spec, node) and blocking_taint(spec, node.taints) is None


def _keeps_out(spec: SeenSpec, node: _Node) -> bool:
    """Whether a taint keeps the pod out, other than taints that are about the state of the node."""
    return blocking_taint(spec, (taint for taint in node.taints if not taint.is_temporary)) is not None


def _taint_finding(taints_by_node: Mapping[str, Taint]) -> Finding:
    """The finding that every node with room for the pod has a taint that the pod does not tolerate."""
    nodes = pluralize(len(taints_by_node), "node")
    message = f"it does not tolerate the taints of {nodes} that could hold it: {nodes_by_taint(taints_by_node)}"
    return Finding(Level.FAULT, "tainted", message, fix=taint_remedy(taints_by_node))


def _offers(resource: str) -> str:
    column = resource.replace(".", "\\.")
    return (
        f"kubectl get nodes -o custom-columns='NODE:.metadata.name,OFFERS:.status.allocatable.{column}' shows what each"
        " node offers"
    )
