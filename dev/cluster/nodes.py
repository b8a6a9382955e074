"""Creates fake nodes, whose kubelets kwok plays, by requests to the API server."""

import ssl
import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dev.cluster.components import NODE_ANNOTATION
from dev.cluster.errors import DevclusterError
from dev.cluster.rest import Connection, reason_of
from dev.cluster.spec import DEFAULT_CAPACITY, FakeNodes

FAKE_TAINT = {"key": NODE_ANNOTATION, "value": "fake", "effect": "NoSchedule"}
"""A taint that keeps pods off fake nodes in a cluster that also has real nodes."""
EXIT_CODE = "kwok.jobset.dev/exit-code"
"""Annotation with the exit code of a fake pod."""
CONNECTIONS = 8
READY_SECONDS = 60


def node(index: int, nodes: FakeNodes, taints: Sequence[Mapping[str, str]] = ()) -> dict[str, Any]:
    """The Node object with the number `index` (from 0): name, labels, taints, capacity, address."""
    name = _node_name(index)
    capacity = {**DEFAULT_CAPACITY, **nodes.capacity}
    address = f"10.{64 + index // 65536}.{index // 256 % 256}.{index % 256}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {NODE_ANNOTATION: "fake"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                **nodes.labels_at(index),
            },
        },
        "spec": {"taints": list(taints)},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
            "declaredFeatures": sorted(nodes.features),
        },
    }


def create_nodes(port: int, tls: ssl.SSLContext, nodes: FakeNodes, *, beside_real_nodes: bool = False) -> None:
    """Create all nodes and wait until they can be used. In a cluster with real nodes, they have `FAKE_TAINT`."""
    taints = [FAKE_TAINT] if beside_real_nodes else []

    def create_slice(first: int) -> None:
        with Connection(port, tls) as connection:
            for index in range(first, nodes.count, CONNECTIONS):
                status, answer = connection.request("POST", "/api/v1/nodes", node(index, nodes, taints))
                if status not in (201, 409):
                    raise DevclusterError(f"node {index} was refused with status {status}: {reason_of(answer)}")

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for _ in pool.map(create_slice, range(CONNECTIONS)):
            pass
    with Connection(port, tls) as connection:
        wait_usable(connection, {_node_name(index) for index in range(nodes.count)}, "logs of kwok")


def wait_usable(connection: Connection, names: AbstractSet[str], logs: str) -> None:
    """Wait until these nodes are Ready, without taints except `FAKE_TAINT`. `logs`: logs to read if they are not."""
    deadline = time.monotonic() + READY_SECONDS + len(names) / 50
    while missing := names - _usable_nodes(connection):
        if time.monotonic() > deadline:
            raise DevclusterError(
                f"{len(missing)} of {len(names)} nodes did not become ready, such as {min(missing)}: "
                f"see the {logs} and of kube-controller-manager (`jobset cluster logs NAME`)."
            )
        time.sleep(0.1)


def _usable_nodes(connection: Connection) -> set[str]:
    status, answer = connection.request("GET", "/api/v1/nodes")
    if status != 200:
        return set()
    return {
        item["metadata"]["name"]
        for item in answer["items"]
        if all(taint["key"] == FAKE_TAINT["key"] for taint in item["spec"].get("taints", ()))
        and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in item["status"].get("conditions", ())
        )
    }


def _node_name(index: int) -> str:
    return f"node-{index:04d}"
