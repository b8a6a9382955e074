"""Faults of fake nodes: the kubelet falls silent and comes back, and taints. It only talks to the API server.

A silent node is like one whose kubelet is disconnected. Its pods neither start nor end, and those that are deleted stay
Terminating. The time that detection takes is left out: `fall_silent` writes what kube-controller-manager writes after
--node-monitor-grace-period. The taints are kube-controller-manager's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from dev.cluster.errors import DevclusterError, UsageError
from dev.cluster.rest import MERGE, Connection, reason_of

# The stages of kwok leave nodes and pods with this annotation alone.
SILENT_ANNOTATION = "kwok.jobset.dev/silent"
UNREACHABLE = "node.kubernetes.io/unreachable"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TAINT_SECONDS = 30
Taints: TypeAlias = list[dict[str, Any]]
STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Taint:
    """A taint of a node, as `kubectl taint` writes it: KEY[=VALUE]:EFFECT."""

    key: str
    value: str
    effect: str

    @classmethod
    def parse(cls, text: str) -> Taint:
        """Raises UsageError if the text has another form."""
        pair, _, effect = text.rpartition(":")
        key, _, value = pair.partition("=")
        if not key or effect not in EFFECTS:
            raise UsageError(f"{text!r} is not of the form KEY[=VALUE]:EFFECT with an effect of {', '.join(EFFECTS)}")
        return cls(key, value, effect)


def fall_silent(connection: Connection, name: str) -> None:
    """Let the kubelet fall silent; returns once the node has the taint unreachable and all its pods are silent."""
    _get(connection, name)
    _patch(connection, _node(name), _silence(silent=True))
    reason = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    _patch(connection, f"{_node(name)}/status", _ready("Unknown", **reason), STRATEGIC)
    _silence_pods(connection, name)
    _wait(connection, name, tainted=True)
    # kube-scheduler may have bound pods to the node until it saw the taint.
    _silence_pods(connection, name)


def come_back(connection: Connection, name: str) -> None:
    """Let the kubelet work again; returns once the node is without the taint. Pods that were deleted meanwhile end."""
    _get(connection, name)
    _patch(connection, _node(name), _silence(silent=False))
    for pod in _pods(connection, name, silent=True):
        _patch(connection, pod, _silence(silent=False))
    _wait(connection, name, tainted=False)


def uncordon(connection: Connection, name: str) -> None:
    """Let the node take pods again after a drain."""
    _get(connection, name)
    _patch(connection, _node(name), {"spec": {"unschedulable": None}})


def add_taint(connection: Connection, name: str, taint: Taint) -> None:
    """Add the taint. One of the same key and effect is replaced."""
    added = {"key": taint.key, "value": taint.value, "effect": taint.effect}

    def change(taints: Taints) -> Taints:
        return [*(each for each in taints if (each["key"], each["effect"]) != (taint.key, taint.effect)), added]

    _change_taints(connection, name, change)


def remove_taint(connection: Connection, name: str, key: str) -> None:
    """Remove the taints of that key, with any effect."""
    _change_taints(connection, name, lambda taints: [each for each in taints if each["key"] != key])


def _change_taints(connection: Connection, name: str, change: Callable[[Taints], Taints]) -> None:
    """Write the changed taints; kube-controller-manager writes the same list, so a conflict is tried again."""
    deadline = time.monotonic() + TAINT_SECONDS
    while True:
        found = _get(connection, name)
        body = {
            "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
            "spec": {"taints": change(found["spec"].get("taints") or [])},
        }
        if _patch(connection, _node(name), body) != 409:
            return
        if time.monotonic() > deadline:
            raise DevclusterError(f"the taints of node {name!r} change all the time: try again.")


def _silence_pods(connection: Connection, name: str) -> None:
    for pod in _pods(connection, name, silent=False):
        _patch(connection, pod, _silence(silent=True))
        _patch(connection, f"{pod}/status", _ready("False"), STRATEGIC)


def _pods(connection: Connection, name: str, *, silent: bool) -> Iterator[str]:
    """The paths of the node's pods, those that are `silent` or those that are not."""
    status, answer = connection.request("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{name}")
    if status != 200:
        raise DevclusterError(f"the pods of node {name!r} cannot be listed, status {status}: {answer}")
    for pod in answer["items"]:
        metadata = pod["metadata"]
        if (SILENT_ANNOTATION in metadata.get("annotations", {})) == silent:
            yield f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def _wait(connection: Connection, name: str, *, tainted: bool) -> None:
    deadline = time.monotonic() + TAINT_SECONDS
    while True:
        taints = _get(connection, name)["spec"].get("taints") or []
        if any(taint["key"] == UNREACHABLE for taint in taints) == tainted:
            return
        if time.monotonic() > deadline:
            done = "did not get" if tainted else "did not lose"
            raise DevclusterError(
                f"node {name!r} {done} the taint {UNREACHABLE}: see `jobset cluster logs kube-controller-manager`."
            )
        time.sleep(0.05)


def _get(connection: Connection, name: str) -> dict[str, Any]:
    """The node; raises DevclusterError if the cluster has none of that name."""
    status, answer = connection.request("GET", _node(name))
    if status == 404:
        raise DevclusterError(f"the cluster has no node {name!r}: list them with `kubectl get nodes`.")
    if status != 200:
        raise DevclusterError(f"node {name!r} cannot be read, status {status}: {answer}")
    found: dict[str, Any] = answer
    return found


def _patch(connection: Connection, path: str, body: Mapping[str, Any], content: str = MERGE) -> int:
    """Send the patch; returns the status. A pod that is gone meanwhile (404) and a conflict (409) are not errors."""
    status, answer = connection.request("PATCH", path, body, content)
    if status not in (200, 409) and not (status == 404 and "/pods/" in path):
        raise DevclusterError(f"the change of {path} was refused with status {status}: {reason_of(answer)}")
    return status


def _node(name: str) -> str:
    return f"/api/v1/nodes/{name}"


def _silence(*, silent: bool) -> dict[str, Any]:
    return {"metadata": {"annotations": {SILENT_ANNOTATION: "true" if silent else None}}}


def _ready(status: str, **more: str) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": now, **more}]}}
