"""Taints that keep pods off nodes which are cordoned, do not work, or are reserved for other pods. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping

from api import nodes
from diagnose.finding import pluralize
from diagnose.needs import SeenSpec
from kube.model.field import MAX_NAMES, join_names

_BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
_CORDONED = "node.kubernetes.io/unschedulable"
_STATES = {
    _CORDONED: "cordoned",
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "unreachable",
}
"""Keys of taints about the state of a node, which Kubernetes sets, and their meaning."""


class Taint(nodes.Taint, frozen=True, kw_only=True):
    """core/v1 Taint with its value and effect."""

    value: str = ""
    effect: str = ""

    def __str__(self) -> str:
        return _STATES.get(self.key) or f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"

    @property
    def is_temporary(self) -> bool:
        """Whether the taint is about the state of the node, so that it may go away, and does not reserve the node."""
        return self.key in _STATES


def blocking_taint(spec: SeenSpec, taints: Iterable[Taint]) -> Taint | None:
    """The first taint of a node that keeps the pod out; None without one."""
    blocking = (taint for taint in taints if taint.effect in _BLOCKING_EFFECTS)
    return next((taint for taint in blocking if not spec.tolerates(taint.key, taint.value, taint.effect)), None)


def taint_counts_text(taints_by_node: Mapping[str, Taint]) -> str:
    """Taints with their numbers of nodes, the most common first, as in `cordoned (18), gpu=only:NoSchedule (2)`."""
    counts = Counter(map(str, taints_by_node.values()))
    return join_names([f"{taint} ({number})" for taint, number in counts.most_common()])


def tainted_nodes_text(taints_by_node: Mapping[str, Taint]) -> str:
    """The end of a sentence on how many more nodes would hold a pod without these taints; empty without such nodes."""
    if not taints_by_node:
        return ""
    more_nodes = pluralize(len(taints_by_node), "more node")
    return f"; {more_nodes} could hold it but for taints: {taint_counts_text(taints_by_node)}"


def taint_fix(taints_by_node: Mapping[str, Taint]) -> str:
    """The fix for the most common taint of those that keep a pod out."""
    ((commonest, _),) = Counter(map(str, taints_by_node.values())).most_common(1)
    names = [name for name, taint in taints_by_node.items() if str(taint) == commonest]
    taint = taints_by_node[names[0]]
    if taint.key == _CORDONED:
        more_nodes = f"; kubectl get nodes shows the other {len(names) - MAX_NAMES} (SchedulingDisabled)"
        return f"kubectl uncordon {' '.join(names[:MAX_NAMES])}" + (more_nodes if len(names) > MAX_NAMES else "")
    if taint.is_temporary:
        return f"kubectl get nodes; kubectl describe node {names[0]} says what is wrong with it"
    value = f"operator: Equal, value: {taint.value}" if taint.value else "operator: Exists"
    toleration = f"{{key: {taint.key}, {value}, effect: {taint.effect}}}"
    return (
        f"add to tolerations of the pod template in a new JobSet: {toleration}; or kubectl taint node NODE {taint.key}-"
    )
