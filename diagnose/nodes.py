"""Why no node takes a pod: from what the nodes offer, not from the scheduler's counts. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from api.node_offers import device_meant, devices, in_words, offers_of
from diagnose.finding import NAMED, Finding, Level, join_names, pluralize
from diagnose.needs import SeenSpec
from diagnose.taints import Taint, hindering, kept_off, numbers, remedy
from kube.model.meta import Base
from kube.model.requests import Amount, Amounts
from kube.model.suggest import nearest

_PODS = 110
"""Pods that a node takes that does not say how many: what the kubelet takes by default."""


_OTHER_LABEL = "write another one in a new JobSet, "
"""The beginning of a fix where no label that was likely meant is known."""


class _Meta(Base, frozen=True, kw_only=True):
    name: str = ""
    labels: dict[str, str] = {}


class _Spec(Base, frozen=True, kw_only=True):
    taints: tuple[Taint, ...] = ()


class _Status(Base, frozen=True, kw_only=True):
    allocatable: dict[str, Any] = {}
    declared_features: tuple[str, ...] = ()


class SeenNode(Base, frozen=True, kw_only=True):
    """A node: its labels, its taints, and what pods may request of it."""

    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_Node = tuple[str, dict[str, str], tuple[Taint, ...], Amounts]
"""Name, labels, taints, and what pods may request."""


class Lack(NamedTuple):
    """What nodes have instead of a label, the beginning of a fix, and the value that was likely meant."""

    message: str = ""
    fix: str = ""
    value: str = ""


class Nodes:
    """All nodes of a cluster. Of a node those labels are kept that are asked for."""

    def __init__(self, nodes: Iterable[SeenNode] = (), labels: frozenset[str] | None = None) -> None:
        """`labels`: keys of labels to keep; None keeps all."""
        self._nodes: list[_Node] = []
        self._keep = labels
        self._label_keys: dict[str, None] = {}
        self._features: set[str] = set()
        self._answers: dict[bytes, Finding | None] = {}
        self._crowded: dict[tuple[bytes, int, int], Finding | None] = {}
        self._largest: dict[tuple[bytes, tuple[str, ...]], int] = {}
        self._most: dict[tuple[str, tuple[str, ...]], Amount] = {}
        self._takers: dict[bytes, frozenset[str]] = {}
        for node in nodes:
            self.add(node)

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, node: SeenNode) -> None:
        found, keep = node.metadata.labels, self._keep
        self._label_keys |= dict.fromkeys(found)
        self._features.update(node.status.declared_features)
        labels = found if keep is None else {key: value for key, value in found.items() if key in keep}
        self._nodes.append((node.metadata.name, labels, node.spec.taints, offers_of(node.status.allocatable)))

    def labels(self, keys: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """These labels of every node, by its name."""
        wanted = frozenset(keys)
        return {
            name: {key: value for key, value in labels.items() if key in wanted} for name, labels, *_ in self._nodes
        }

    def declare(self, feature: str) -> bool:
        """Whether a node declares this feature of Kubernetes."""
        return feature in self._features

    def lack(self, key: str) -> Lack | None:
        """What there is to say of a label that no node has; None if one has it, or without nodes."""
        return self._lack(key, ()) if self._nodes else None

    def in_domains(self, keys: Sequence[str]) -> bool:
        """Whether a node has all of these labels."""
        return any(labels.keys() >= set(keys) for _, labels, *_ in self._nodes)

    def largest(self, spec: SeenSpec, keys: Sequence[str]) -> int:
        """How many such pods the largest domain takes while it is idle and all of its nodes work.

        A domain: the nodes that have the same values of all of these labels.
        """
        key = shape_of(spec), tuple(keys)
        if key not in self._largest:
            needs, room = spec.requests(), Counter[tuple[str, ...]]()
            for node in self._nodes:
                name, labels, _, offers = node
                if labels.keys() >= set(keys) and self._chosen(spec, name, labels) and not _keeps_out(spec, node):
                    room[tuple(labels[label] for label in keys)] += _times(offers, needs)
            self._largest[key] = max(room.values(), default=0)
        return self._largest[key]

    def most(self, resource: str, keys: Sequence[str]) -> Amount:
        """Of a resource, as much as the domain offers that offers most; a domain as in `largest`."""
        if (resource, tuple(keys)) not in self._most:
            offered: dict[tuple[str, ...], Amount] = {}
            for _, labels, _, offers in self._nodes:
                if labels.keys() >= set(keys):
                    where = tuple(labels[key] for key in keys)
                    offered[where] = offered.get(where, 0) + offers.get(resource, 0)
            self._most[resource, tuple(keys)] = max(offered.values(), default=0)
        return self._most[resource, tuple(keys)]

    def why_none(self, spec: SeenSpec, recreate: str) -> Finding | None:
        """Why no node takes such a pod even when it is idle (FAULT), or how many do (WAITS); None without nodes.

        `recreate`: a command that makes the set again with one text replaced, with `{old}` and `{new}` for it.
        The `what` of the finding is a sentence about the pod.
        """
        key = shape_of(spec)
        if key not in self._answers:
            self._answers[key] = self._why_none(spec, recreate) if self._nodes else None
        return self._answers[key]

    def too_many(self, spec: SeenSpec, wanted: int, running: int) -> Finding | None:
        """That `wanted` such pods never fit on the nodes at once, of which `running` run; None if they do.

        Each node may have too little for one more though all together have enough.
        """
        key = shape_of(spec), wanted, running
        if key not in self._crowded:
            self._crowded[key] = self._too_many(spec, wanted, running)
        return self._crowded[key]

    def _too_many(self, spec: SeenSpec, wanted: int, running: int) -> Finding | None:
        each = self._room(spec)
        if sum(each) >= wanted:
            return None
        by_node = f" ({each[0]} per node)" if len(set(each)) == 1 else ""
        fit = f"only {sum(each)} {'fits' if sum(each) == 1 else 'fit'} on the nodes at once{by_node}"
        own = f"; {pluralize(running, 'pod', 'of its own holds', 'of its own hold')} them now" if running else ""
        hinders = self.blocking_taints(spec)
        message = f"of the {wanted} pods of its ReplicatedJob {fit}{own}{kept_off(hinders)}"
        fix = f"{remedy(hinders)}; or " if hinders else ""
        fix += "add nodes, or run fewer pods at once: lower replicas or parallelism in a new JobSet"
        fix += "; as it is, the others run when some of its pods have ended"
        return Finding(Level.FAULT, "too-many-at-once", message, fix=fix)

    def takers(self, spec: SeenSpec) -> frozenset[str]:
        """The names of the nodes that take such a pod while they are idle."""
        key = shape_of(spec)
        if key not in self._takers:
            needs = spec.requests()
            found = (node for node in self._nodes if self._takes(spec, node) and _holds(node[3], needs))
            self._takers[key] = frozenset(name for name, *_ in found)
        return self._takers[key]

    def offered_amount(self, spec: SeenSpec, resource: str) -> Amount:
        """Of a resource, what the nodes together have that take such a pod while they are idle."""
        takers = self.takers(spec)
        return sum(offers.get(resource, 0) for name, _, _, offers in self._nodes if name in takers)

    def _room(self, spec: SeenSpec) -> list[int]:
        """How many such pods each node takes that takes any, while it is idle."""
        needs = spec.requests()
        found = (_times(node[3], needs) for node in self._nodes if self._takes(spec, node))
        return [number for number in found if number]

    def _takes(self, spec: SeenSpec, node: _Node) -> bool:
        return self._chosen(spec, node[0], node[1]) and hindering(spec, node[2]) is None

    def blocking_taints(self, spec: SeenSpec) -> dict[str, Taint]:
        """Of each node that only a taint keeps from taking such a pod while it is idle, the first such taint."""
        needs = spec.requests()
        return {
            node[0]: taint
            for node in self._nodes
            if self._chosen(spec, node[0], node[1])
            and _holds(node[3], needs)
            and (taint := hindering(spec, node[2])) is not None
        }

    def too_little(self, needs: Mapping[str, Amount]) -> Finding | None:
        """Of what the pods of a set request more together than all nodes have; None without such a resource."""
        for name, amount in needs.items():
            offered = sum(offers.get(name, 0) for *_, offers in self._nodes)
            if 0 < offered < amount:
                need = f"the pods of its JobSet need {in_words(amount, name)} in all"
                message = f"{need}, the nodes offer {_number(offered, name)}: they never run all at once"
                fix = f"add nodes, or run fewer pods: lower replicas or parallelism in a new JobSet; {_offers(name)}"
                return Finding(Level.FAULT, "too-large-in-all", message, fix=fix)
        return None

    def _why_none(self, spec: SeenSpec, recreate: str) -> Finding:
        needs = spec.requests()
        if missing := self._not_offered(needs, recreate):
            return missing
        chosen = [node for node in self._nodes if self._chosen(spec, node[0], node[1])]
        if not chosen:
            return self._no_label(spec, recreate)
        fitting = [node for node in chosen if _holds(node[3], needs)]
        if not fitting:
            return self._too_large(needs, chosen)
        taken = sum(self._takes(spec, node) for node in fitting)
        hinders = self.blocking_taints(spec)
        return self._in_use(taken, hinders) if taken else _taint_finding(hinders)

    def _in_use(self, taken: int, hinders: Mapping[str, Taint]) -> Finding:
        message = f"{taken} of {pluralize(len(self._nodes), 'node')} could take it, and too little is free there"
        message += kept_off(hinders)
        passing = {name: taint for name, taint in hinders.items() if taint.passes}
        fix = f"{remedy(passing)}; or " if passing else ""
        fix += "wait for other pods to end, or add nodes; kubectl describe nodes shows what is allocated on each"
        return Finding(Level.WAITS, "in-use", message, fix=fix)

    def _chosen(self, spec: SeenSpec, name: str, labels: dict[str, str]) -> bool:
        return spec.node_selector.items() <= labels.items() and spec.likes(name, labels)

    def _not_offered(self, needs: Mapping[str, Amount], recreate: str) -> Finding | None:
        """A resource that no node has."""
        offered = dict.fromkeys(name for *_, offers in self._nodes for name in offers)
        missing = next((name for name in needs if name not in offered), None)
        if missing is None:
            return None
        meant = device_meant(missing, offered)
        named = sorted(devices(offered) or offered, key=lambda name: (name != meant, name))
        fix = (
            recreate.format(old=f"{missing}:", new=f"{meant}:")
            if meant
            else f"does the device plugin for {missing} run? {_offers(missing)}"
        )
        message = f"no node offers {missing}; nodes offer {join_names(named)}"
        return Finding(Level.FAULT, "no-such-resource", message, fix=fix)

    def _no_label(self, spec: SeenSpec, recreate: str) -> Finding:
        """No node is chosen by the node selector and the required node affinity."""
        show = "kubectl get nodes --show-labels shows the labels of the nodes"
        for key, value in sorted(spec.node_selector.items()):
            wanted, lack = f"{key}={value}", self._lack(key, (value,))
            if lack is None:
                continue
            fix = f"{lack.fix or _OTHER_LABEL}or kubectl label node NODE {wanted}; {show}"
            if lack.value:
                fix = f"{recreate.format(old=f'{key}: {value}$', new=f'{key}: {lack.value}')}; {fix}"
            message = f"no node has the label {wanted} of its nodeSelector; {lack.message}"
            return Finding(Level.FAULT, "no-such-label", message, fix=fix)
        selector = ",".join(f"{key}={value}" for key, value in sorted(spec.node_selector.items()))
        if not self._selected(spec):
            message = f"no node has all labels of its nodeSelector ({selector})"
            fix = f"{_OTHER_LABEL}or kubectl label node NODE {selector.replace(',', ' ')}; {show}"
            return Finding(Level.FAULT, "no-such-label", message, fix=fix)
        message = f"no node meets its required node affinity ({spec.affinity_words})"
        message += f" and has {selector}" if selector else ""
        lacks = (self._lack(demand.key, demand.values) for demand in spec.demands)
        lack = next((lack for lack in lacks if lack is not None), Lack())
        message = f"{message}; {lack.message}" if lack.message else message
        fix = f"{lack.fix or 'write another node affinity in a new JobSet, '}or label a node; {show}"
        return Finding(Level.FAULT, "no-such-label", message, fix=fix)

    def _lack(self, key: str, wanted: Sequence[str]) -> Lack | None:
        """What nodes have instead of a label with one of these values, or with any; None if a node has it."""
        values = sorted({labels[key] for _, labels, *_ in self._nodes if key in labels})
        if not values:
            # Of two keys with one prefix the names have to be alike.
            meant = nearest(key, self._label_keys)
            meant = meant if nearest(key.rpartition("/")[2], [meant.rpartition("/")[2]]) else ""
            message = f"no node has a label {key} at all" + (f": did you mean {meant}?" if meant else "")
            return Lack(message, f"write {meant} for {key} in a new JobSet, " if meant else "")
        if not wanted or not set(wanted).isdisjoint(values):
            return None
        meant = next((close for value in wanted[:NAMED] if (close := nearest(value, values))), "")
        values.sort(key=lambda value: value != meant)
        has = f"nodes have {join_names([f'{key}={value}' for value in values])}"
        return Lack(has, f"choose a value of {key} that nodes have ({join_names(values)}) in a new JobSet, ", meant)

    def _selected(self, spec: SeenSpec) -> bool:
        return any(spec.node_selector.items() <= labels.items() for _, labels, *_ in self._nodes)

    def _too_large(self, needs: Mapping[str, Amount], chosen: Sequence[_Node]) -> Finding:
        """More than any node that is chosen has: of one resource, or of all together."""
        narrowed = len(chosen) < len(self._nodes)
        where = f" of the {pluralize(len(chosen), 'node')} that its labels choose" if narrowed else " node"
        for name, amount in needs.items():
            most, node = max((offers.get(name, 0), node) for node, _, _, offers in chosen)
            if most < amount:
                has = f"has {_number(most, name)} ({node})" if most else "has none"
                message = f"it needs {in_words(amount, name)}, the largest{where} {has}"
                fix = f"request less in a new JobSet, or add larger nodes; {_offers(name)}"
                return Finding(Level.FAULT, "too-large", message, fix=fix)
        amounts = " and ".join(in_words(amount, name) for name, amount in needs.items())
        message = f"it needs {amounts}, {'none' if narrowed else 'no'}{where} has all of that"
        fix = "request less in a new JobSet, or add larger nodes; kubectl describe nodes shows what each has"
        return Finding(Level.FAULT, "too-large", message, fix=fix)


def _number(amount: Amount, resource: str) -> str:
    return in_words(amount, resource).partition(" ")[0]


def _holds(offers: Mapping[str, Amount], needs: Mapping[str, Amount]) -> bool:
    return all(offers.get(name, 0) >= amount for name, amount in needs.items())


def _times(offers: Mapping[str, Amount], needs: Mapping[str, Amount]) -> int:
    """How many pods with these needs a node takes while it is idle."""
    return int(min([offers.get("pods", _PODS), *(offers.get(name, 0) // amount for name, amount in needs.items())]))


def shape_of(spec: SeenSpec) -> bytes:
    """What is the same of pods that fit on the same nodes."""
    shape = (spec.node_selector, spec.affinity, spec.tolerations, spec.containers, spec.init_containers)
    return msgspec.json.encode((*shape, spec.overhead, spec.resources))


def _keeps_out(spec: SeenSpec, node: _Node) -> bool:
    """Whether a taint keeps the pod out that says nothing about the state of the node."""
    return hindering(spec, (taint for taint in node[2] if not taint.passes)) is not None


def _taint_finding(hinders: Mapping[str, Taint]) -> Finding:
    """Every node that would hold it has a taint that it does not tolerate."""
    message = (
        f"it does not tolerate the taints of {pluralize(len(hinders), 'node')} that could hold it: {numbers(hinders)}"
    )
    return Finding(Level.FAULT, "tainted", message, fix=remedy(hinders))


def _offers(resource: str) -> str:
    column = resource.replace(".", "\\.")
    return (
        f"kubectl get nodes -o custom-columns='NODE:.metadata.name,OFFERS:.status.allocatable.{column}' shows what each"
        " node offers"
    )
