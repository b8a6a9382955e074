"""Fake nodes: objects that kwok plays. It must not start processes; it only talks to the API server."""

from __future__ import annotations

import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dev.cluster.components import NODE_ANNOTATION
from dev.cluster.errors import DevclusterError
from dev.cluster.rest import Connection, reason_of
from dev.cluster.spec import DEFAULT_CAPACITY, FakeNodes

WORKERS = 8
READY_SECONDS = 60


def node(index: int, nodes: FakeNodes) -> dict[str, Any]:
    """The Node object number `index` (from 0): name, labels, capacity, address."""
    name = f"node-{index:04d}"
    capacity = {**DEFAULT_CAPACITY, **nodes.capacity}
    topology = {key: f"{key.rsplit('/', 1)[-1]}-{index // size}" for key, size in nodes.label_every.items()}
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
                **nodes.labels,
                **topology,
            },
        },
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


def create_nodes(port: int, tls: ssl.SSLContext, nodes: FakeNodes) -> None:
    """Create all nodes and wait until every one is Ready and free of the not-ready taint."""
    with ThreadPoolExecutor(WORKERS) as pool:
        for _ in pool.map(lambda first: _create_slice(port, tls, nodes, first), range(WORKERS)):
            pass
    deadline = time.monotonic() + READY_SECONDS + nodes.count / 50
    with Connection(port, tls) as connection:
        while (missing := nodes.count - _usable(connection)) > 0:
            if time.monotonic() > deadline:
                raise DevclusterError(
                    f"{missing} of {nodes.count} fake nodes did not become ready: "
                    f"see `jobset cluster logs kwok` and `logs kube-controller-manager`."
                )
            time.sleep(0.1)


def _create_slice(port: int, tls: ssl.SSLContext, nodes: FakeNodes, first: int) -> None:
    with Connection(port, tls) as connection:
        for index in range(first, nodes.count, WORKERS):
            status, answer = connection.request("POST", "/api/v1/nodes", node(index, nodes))
            if status not in (201, 409):
                raise DevclusterError(f"node {index} was refused with status {status}: {reason_of(answer)}")


def _usable(connection: Connection) -> int:
    status, answer = connection.request("GET", "/api/v1/nodes")
    if status != 200:
        return 0
    return sum(
        not item["spec"].get("taints")
        and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in item["status"].get("conditions", ())
        )
        for item in answer["items"]
    )
