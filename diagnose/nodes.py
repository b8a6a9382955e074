"""Why no node takes a pod, computed from the labels, taints and resources of the nodes. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec

from api.batch import LabelledIdentity
from api.node_offers import device_meant, devices, format_amount, format_number, offers_of
from diagnose.finding import Finding, Level, pluralize
from diagnose.needs import SeenSpec
from diagnose.taints import Taint, blocking_taint, taint_counts_text, taint_fix, tainted_nodes_text
from kube.model.field import MAX_NAMES, join_names
from kube.model.meta import JSON, Base
from kube.model.requests import Amount, Amounts, exceeding_resources, sum_requests
from kube.model.suggest import nearest

_DEFAULT_MAX_PODS = 110
"""The limit of pods on a node that reports no limit. It is the default of the kubelet."""
FITS_NOWHERE = frozenset({"no-such-label", "no-such-resource", "too-large"})
"""Values of `cause` of findings about a pod that fits on no node, even if all nodes are idle."""
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

    def pod_room(self, needs: Amounts) -> int:
        """How many pods that request `needs` fit on the node while the node is idle."""
        by_resource = (self.offers.get(name, 0) // amount for name, amount in needs.items())
        return int(min([self.offers.get("pods", _DEFAULT_MAX_PODS), *by_resource]))


class MissingLabel(NamedTuple):
    """A label that no node has: a sentence about it, the beginning of a fix, and the value that was likely meant."""

    message: str = ""
    fix: str = ""
    meant: str = ""


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _cache_by_shape(
    method: Callable[Concatenate["Nodes", SeenSpec, _P], _R],
) -> Callable[Concatenate["Nodes", SeenSpec, _P], _R]:
    """Decorator that caches the results of a method of `Nodes` for all pods of the same shape."""

    @wraps(method)
    def cached_method(nodes: "Nodes", spec: SeenSpec, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        key = method, shape_of(spec), args, tuple(kwargs.items())
        result: _R = nodes.cache[key] if key in nodes.cache else method(nodes, spec, *args, **kwargs)
        nodes.cache[key] = result
        return result

    return cached_method


class Nodes:
    """All nodes of a cluster. `label_keys`: the labels to keep; None for all. `cache`: results of methods."""

    def __init__(self, nodes: Iterable[SeenNode] = (), label_keys: frozenset[str] | None = None) -> None:
        self.cache: dict[tuple[object, ...], Any] = {}
        self._nodes: list[_Node] = []
        self._kept_keys = label_keys
        self._all_keys: dict[str, None] = {}
        self._features: set[str] = set()
        for node in nodes:
            self.add(node)

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, node: SeenNode) -> None:
        labels, kept_keys = node.metadata.labels, self._kept_keys
        self._all_keys |= dict.fromkeys(labels)
        self._features.update(node.status.declared_features)
        labels = labels if kept_keys is None else {key: value for key, value in labels.items() if key in kept_keys}
        self._nodes.append(_Node(node.metadata.name, labels, node.spec.taints, offers_of(node.status.allocatable)))

    def labels(self, keys: Container[str]) -> Mapping[str, Mapping[str, str]]:
        """The labels with these keys of every node, by the name of the node."""
        return {node.name: {key: value for key, value in node.labels.items() if key in keys} for node in self._nodes}

    def has_feature(self, feature: str) -> bool:
        """Whether a node declares this feature of Kubernetes."""
        return feature in self._features

    def has_domains(self, keys: Sequence[str]) -> bool:
        """Whether a node has labels with all of these keys."""
        return any(node.labels.keys() >= set(keys) for node in self._nodes)

    @_cache_by_shape
    def largest_domain_room(self, spec: SeenSpec, keys: tuple[str, ...]) -> int:
        """How many pods of this spec the largest domain takes while it is idle and all of its nodes work.

        A domain is all nodes that have the same values of the labels with these keys.
        """
        needs, room_by_domain = spec.requests(), Counter[tuple[str, ...]]()
        for node in self._nodes:
            if node.labels.keys() >= set(keys) and _is_chosen(spec, node) and not _has_permanent_taint(spec, node):
                room_by_domain[tuple(node.labels[key] for key in keys)] += node.pod_room(needs)
        return max(room_by_domain.values(), default=0)

    def largest_domain_amount(self, resource: str, keys: Sequence[str]) -> Amount:
        """The largest amount of a resource that a domain has. A domain is the same as in `largest_domain_room`."""
        key = resource, tuple(keys)
        if key not in self.cache:
            offered = defaultdict[tuple[str, ...], Amount](int)
            for node in self._nodes:
                if node.labels.keys() >= set(keys):
                    offered[tuple(node.labels[key] for key in keys)] += node.offers.get(resource, 0)
            self.cache[key] = max(offered.values(), default=0)
        amount: Amount = self.cache[key]
        return amount

    @_cache_by_shape
    def too_many_pods(self, spec: SeenSpec, wanted: int, running: int) -> Finding | None:
        """The finding that `wanted` pods of this spec, of which `running` run, do not fit on the nodes at once.

        None if the pods fit. If each node has too little left, pods do not fit although all nodes together have enough.
        """
        needs = spec.requests()
        capacities = [room for node in self._nodes if _may_use(spec, node) and (room := node.pod_room(needs))]
        if sum(capacities) >= wanted:
            return None
        by_node = f" ({capacities[0]} per node)" if len(set(capacities)) == 1 else ""
        fit = f"only {sum(capacities)} {'fits' if sum(capacities) == 1 else 'fit'} on the nodes at once{by_node}"
        own_pods = f"; {pluralize(running, 'pod', 'of its own holds', 'of its own hold')} them now" if running else ""
        taints_by_node = self.blocking_taints(spec)
        message = f"of the {wanted} pods of its ReplicatedJob {fit}{own_pods}{tainted_nodes_text(taints_by_node)}"
        fix = f"{taint_fix(taints_by_node)}; or " if taints_by_node else ""
        fix += "add nodes, or run fewer pods at once: lower replicas or parallelism in a new JobSet"
        fix += "; as it is, the others run when some of its pods have ended"
        return Finding(Level.FAULT, "too-many-at-once", message, fix=fix)

    @_cache_by_shape
    def fitting_nodes(self, spec: SeenSpec) -> frozenset[str]:
        """The names of the nodes that take a pod of this spec while they are idle."""
        needs = spec.requests()
        return frozenset(node.name for node in self._nodes if _may_use(spec, node) and node.takes(needs))

    def offered_amount(self, spec: SeenSpec, resource: str) -> Amount:
        """How much of a resource the nodes of `fitting_nodes` have together."""
        names = self.fitting_nodes(spec)
        return sum(node.offers.get(resource, 0) for node in self._nodes if node.name in names)

    def blocking_taints(self, spec: SeenSpec) -> dict[str, Taint]:
        """By node, the taint that keeps out a pod of this spec, of the nodes that have room for the pod while idle."""
        needs = spec.requests()
        return {
            node.name: taint
            for node in self._nodes
            if _is_chosen(spec, node) and node.takes(needs) and (taint := blocking_taint(spec, node.taints)) is not None
        }

    def shortage(self, needs: Amounts) -> Finding | None:
        """The finding about a resource of which all nodes together have less than `needs`, the requests of a JobSet."""
        offered = sum_requests((node.offers, 1) for node in self._nodes)
        for name in exceeding_resources(needs, offered)[:1]:
            need = f"the pods of its JobSet need {format_amount(needs[name], name)} in all"
            message = f"{need}, the nodes offer {format_number(offered[name], name)}: they never run all at once"
            fewer_pods = "run fewer pods: lower replicas or parallelism in a new JobSet"
            fix = f"add nodes, or {fewer_pods}; {_offers_command(name)}"
            return Finding(Level.FAULT, "too-large-in-all", message, fix=fix)
        return None

    @_cache_by_shape
    def why_unscheduled(self, spec: SeenSpec, recreate: str) -> Finding | None:
        """The finding about why no node takes a pod of this spec; None without nodes.

        If the pod does not fit on any idle node, the level is FAULT. If it fits on idle nodes, the level is WAITS, and
        the message says on how many. The message is a sentence about the pod.
        `recreate` is a command that creates the JobSet again with `{old}` replaced by `{new}`.
        """
        needs = spec.requests()
        if not self._nodes:
            return None
        if finding := self._resource_finding(needs, recreate):
            return finding
        chosen_nodes = [node for node in self._nodes if _is_chosen(spec, node)]
        if not chosen_nodes:
            return self._label_finding(spec, recreate)
        large_enough = [node for node in chosen_nodes if node.takes(needs)]
        if not large_enough:
            return self._size_finding(needs, chosen_nodes)
        usable_count = sum(_may_use(spec, node) for node in large_enough)
        taints_by_node = self.blocking_taints(spec)
        return self._usage_finding(usable_count, taints_by_node) if usable_count else _taint_finding(taints_by_node)

    def _usage_finding(self, nodes_in_use: int, taints_by_node: Mapping[str, Taint]) -> Finding:
        message = f"{nodes_in_use} of {pluralize(len(self._nodes), 'node')} could take it, and too little is free there"
        message += tainted_nodes_text(taints_by_node)
        temporary_taints = {name: taint for name, taint in taints_by_node.items() if taint.is_temporary}
        fix = f"{taint_fix(temporary_taints)}; or " if temporary_taints else ""
        fix += "wait for other pods to end, or add nodes; kubectl describe nodes shows what is allocated on each"
        return Finding(Level.WAITS, "in-use", message, fix=fix)

    def _resource_finding(self, needs: Amounts, recreate: str) -> Finding | None:
        """The finding about a requested resource that no node has; None without one."""
        offered = dict.fromkeys(name for node in self._nodes for name in node.offers)
        missing = next((name for name in needs if name not in offered), None)
        if missing is None:
            return None
        meant = device_meant(missing, offered)
        resource_names = sorted(devices(offered) or offered, key=lambda name: (name != meant, name))
        fix = f"does the device plugin for {missing} run? {_offers_command(missing)}"
        if meant:
            fix = recreate.format(old=f"{missing}:", new=f"{meant}:")
        message = f"no node offers {missing}; nodes offer {join_names(resource_names)}"
        return Finding(Level.FAULT, "no-such-resource", message, fix=fix)

    def _label_finding(self, spec: SeenSpec, recreate: str) -> Finding:
        """The finding that no node matches the node selector and the required node affinity."""
        show = "kubectl get nodes --show-labels shows the labels of the nodes; an autoscaler may add such nodes, too"
        for key, value in sorted(spec.node_selector.items()):
            wanted, missing_label = f"{key}={value}", self.missing_label(key, (value,))
            if missing_label is None:
                continue
            fix = f"{missing_label.fix or _OTHER_LABEL}or kubectl label node NODE {wanted}; {show}"
            if missing_label.meant:
                fix = f"{recreate.format(old=f'{key}: {value}$', new=f'{key}: {missing_label.meant}')}; {fix}"
            message = f"no node has the label {wanted} of its nodeSelector; {missing_label.message}"
            return Finding(Level.FAULT, "no-such-label", message, fix=fix)
        selector = ",".join(f"{key}={value}" for key, value in sorted(spec.node_selector.items()))
        if not any(spec.node_selector.items() <= node.labels.items() for node in self._nodes):
            message = f"no node has all labels of its nodeSelector ({selector})"
            fix = f"{_OTHER_LABEL}or kubectl label node NODE {selector.replace(',', ' ')}; {show}"
            return Finding(Level.FAULT, "no-such-label", message, fix=fix)
        message = f"no node meets its required node affinity ({spec.affinity_text})"
        message += f" and has {selector}" if selector else ""
        candidates = (self.missing_label(demand.key, demand.values) for demand in spec.demanded_labels)
        missing_label = next(filter(None, candidates), MissingLabel())
        message = f"{message}; {missing_label.message}" if missing_label.message else message
        fix = f"{missing_label.fix or 'write another node affinity in a new JobSet, '}or label a node; {show}"
        return Finding(Level.FAULT, "no-such-label", message, fix=fix)

    def missing_label(self, key: str, wanted: Sequence[str] = ()) -> MissingLabel | None:
        """The lack if no node has the label with one of the `wanted` values, or with any value if `wanted` is empty."""
        values = sorted({node.labels[key] for node in self._nodes if key in node.labels})
        if not values:
            # Keys are similar only if the parts behind their prefixes are similar, too.
            meant = nearest(key, self._all_keys)
            meant = meant if nearest(key.rpartition("/")[2], [meant.rpartition("/")[2]]) else ""
            message = f"no node has a label {key} at all" + (f": did you mean {meant}?" if meant else "")
            return MissingLabel(message, f"write {meant} for {key} in a new JobSet, " if meant else "")
        if not wanted or not set(wanted).isdisjoint(values):
            return None
        meant = next((close for value in wanted[:MAX_NAMES] if (close := nearest(value, values))), "")
        values.sort(key=lambda value: value != meant)
        message = f"nodes have {join_names([f'{key}={value}' for value in values])}"
        fix = f"choose a value of {key} that nodes have ({join_names(values)}) in a new JobSet, "
        return MissingLabel(message, fix, meant)

    def _size_finding(self, needs: Amounts, chosen: Sequence[_Node]) -> Finding:
        """The finding that no chosen node has as much as the pod requests, of one resource or of all resources."""
        is_narrowed = len(chosen) < len(self._nodes)
        location = f" of the {pluralize(len(chosen), 'node')} that its labels choose" if is_narrowed else " node"
        for name, amount in needs.items():
            largest, node = max((node.offers.get(name, 0), node.name) for node in chosen)
            if largest < amount:
                has = f"has {format_number(largest, name)} ({node})" if largest else "has none"
                message = f"it needs {format_amount(amount, name)}, the largest{location} {has}"
                fix = f"request less in a new JobSet, or add larger nodes; {_offers_command(name)}"
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


def _has_permanent_taint(spec: SeenSpec, node: _Node) -> bool:
    """Whether the node has a taint that the pod does not tolerate, and that is not about the state of the node."""
    return blocking_taint(spec, (taint for taint in node.taints if not taint.is_temporary)) is not None


def _taint_finding(taints_by_node: Mapping[str, Taint]) -> Finding:
    """The finding that every node with room for the pod has a taint that the pod does not tolerate."""
    nodes = pluralize(len(taints_by_node), "node")
    message = f"it does not tolerate the taints of {nodes} that could hold it: {taint_counts_text(taints_by_node)}"
    return Finding(Level.FAULT, "tainted", message, fix=taint_fix(taints_by_node))


def _offers_command(resource: str) -> str:
    column = resource.replace(".", "\\.")
    return (
        f"kubectl get nodes -o custom-columns='NODE:.metadata.name,OFFERS:.status.allocatable.{column}' shows what each"
        " node offers"
    )
