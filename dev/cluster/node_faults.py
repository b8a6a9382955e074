"""Causes faults of fake nodes by requests to the API server: silent kubelets, and taints.

A silent node is like a node whose kubelet is disconnected. Its pods neither start nor end, and deleted pods stay
Terminating. The time of detection is left out: `fall_silent` writes the status that kube-controller-manager writes
after --node-monitor-grace-period. kube-controller-manager itself adds the taints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from dev.cluster.errors import DevclusterError, UsageError
from dev.cluster.rest import MERGE, Connection, reason_of

# The stages of kwok do not change nodes and pods with this annotation.
SILENT_ANNOTATION = "kwok.jobset.dev/silent"
UNREACHABLE = "node.kubernetes.io/unreachable"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TAINT_SECONDS = 30
Taints: TypeAlias = list[dict[str, Any]]
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Taint:
    """A taint of a node, as `kubectl taint` writes it: KEY[=VALUE]:EFFECT."""

    key: str
    value: str
    effect: str

    @classmethod
    def parse(cls, text: str) -> Taint:
        """The taint in a text. Raises UsageError if the text has another form."""
        pair, _, effect = text.rpartition(":")
        key, _, value = pair.partition("=")
        if not key or effect not in EFFECTS:
            raise UsageError(f"{text!r} is not of the form KEY[=VALUE]:EFFECT with an effect of {', '.join(EFFECTS)}")
        return cls(key, value, effect)


def fall_silent(connection: Connection, name: str) -> None:
    """Let the kubelet fall silent. Returns once the node has the taint unreachable and all its pods are silent."""
    _get_node(connection, name)
    _patch(connection, _node_path(name), _silent_patch(is_silent=True))
    reason = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    _patch(connection, f"{_node_path(name)}/status", _ready_patch("Unknown", **reason), STRATEGIC_PATCH)
    _silence_pods(connection, name)
    _wait_for_taint(connection, name, is_tainted=True)
    # kube-scheduler may have bound pods to the node until it saw the taint.
    _silence_pods(connection, name)


def come_back(connection: Connection, name: str) -> None:
    """Let the kubelet work again. Returns once the node has no taint unreachable. Deleted pods then end."""
    _get_node(connection, name)
    _patch(connection, _node_path(name), _silent_patch(is_silent=False))
    for pod in _pod_paths(connection, name, is_silent=True):
        _patch(connection, pod, _silent_patch(is_silent=False))
    _wait_for_taint(connection, name, is_tainted=False)


def uncordon(connection: Connection, name: str) -> None:
    """Let the node take pods again after a drain."""
    _get_node(connection, name)
    _patch(connection, _node_path(name), {"spec": {"unschedulable": None}})


def add_taint(connection: Connection, name: str, taint: Taint) -> None:
    """Add the taint, which replaces a taint with the same key and effect."""
    new_taint = {"key": taint.key, "value": taint.value, "effect": taint.effect}

    def change_taints(taints: Taints) -> Taints:
        return [*(each for each in taints if (each["key"], each["effect"]) != (taint.key, taint.effect)), new_taint]

    _change_taints(connection, name, change_taints)


def remove_taint(connection: Connection, name: str, key: str) -> None:
    """Remove the taints with the key, whatever their effect."""
    _change_taints(connection, name, lambda taints: [each for each in taints if each["key"] != key])


def _change_taints(connection: Connection, name: str, change_taints: Callable[[Taints], Taints]) -> None:
    """Write the changed taints. Retries conflicts, since kube-controller-manager writes the same list."""
    deadline = time.monotonic() + TAINT_SECONDS
    while True:
        node = _get_node(connection, name)
        body = {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
            "spec": {"taints": change_taints(node["spec"].get("taints") or [])},
        }
        if _patch(connection, _node_path(name), body) != 409:
            return
        if time.monotonic() > deadline:
            raise DevclusterError(f"the taints of node {name!r} change all the time: try again.")


def _silence_pods(connection: Connection, name: str) -> None:
    for pod in _pod_paths(connection, name, is_silent=False):
        _patch(connection, pod, _silent_patch(is_silent=True))
        _patch(connection, f"{pod}/status", _ready_patch("False"), STRATEGIC_PATCH)


def _pod_paths(connection: Connection, name: str, *, is_silent: bool) -> Iterator[str]:
    """The URL paths of the node's pods that have the annotation (`is_silent`) or do not have it."""
    status, answer = connection.request("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{name}")
    if status != 200:
        raise DevclusterError(f"the pods of node {name!r} cannot be listed, status {status}: {answer}")
    for pod in answer["items"]:
        metadata = pod["metadata"]
        if (SILENT_ANNOTATION in metadata.get("annotations", {})) == is_silent:
            yield f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def _wait_for_taint(connection: Connection, name: str, *, is_tainted: bool) -> None:
    deadline = time.monotonic() + TAINT_SECONDS
    while True:
        taints = _get_node(connection, name)["spec"].get("taints") or []
        if any(taint["key"] == UNREACHABLE for taint in taints) == is_tainted:
            return
        if time.monotonic() > deadline:
            failure = "did not get" if is_tainted else "did not lose"
            raise DevclusterError(
                f"node {name!r} {failure} the taint {UNREACHABLE}: see `jobset cluster logs kube-controller-manager`."
            )
        time.sleep(0.05)


def _get_node(connection: Connection, name: str) -> dict[str, Any]:
    """The node. Raises DevclusterError if the cluster has no node with this name."""
    status, answer = connection.request("GET", _node_path(name))
    if status == 404:
        raise DevclusterError(f"the cluster has no node {name!r}: list them with `kubectl get nodes`.")
    if status != 200:
        raise DevclusterError(f"node {name!r} cannot be read, status {status}: {answer}")
    node: dict[str, Any] = answer
    return node


def _patch(connection: Connection, path: str, body: Mapping[str, Any], content_type: str = MERGE) -> int:
    """Send the patch. Returns the status. A pod that is gone (404) and a conflict (409) are not errors."""
    status, answer = connection.request("PATCH", path, body, content_type)
    if status not in (200, 409) and not (status == 404 and "/pods/" in path):
        raise DevclusterError(f"the change of {path} was refused with status {status}: {reason_of(answer)}")
    return status


def _node_path(name: str) -> str:
    return f"/api/v1/nodes/{name}"


def _silent_patch(*, is_silent: bool) -> dict[str, Any]:
    return {"metadata": {"annotations": {SILENT_ANNOTATION: "true" if is_silent else None}}}


def _ready_patch(status: str, **condition_fields: str) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": now, **condition_fields}]}
    }
