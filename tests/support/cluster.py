"""What tests do with a real cluster: kubectl, raw requests, telling fake pods how to end, waiting.

The fixtures `api_server`, `full_cluster` and `namespace` are in tests/conftest.py.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from devcluster.cluster import Cluster

T = TypeVar("T")

# What a test may leave behind in a namespace of an API-server-only cluster, where nobody empties it.
COLLECTIONS = (
    "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets",
    "/apis/batch/v1/namespaces/{}/jobs",
    "/api/v1/namespaces/{}/pods",
    "/api/v1/namespaces/{}/services",
    "/api/v1/namespaces/{}/persistentvolumeclaims",
)
DELETE_OPTIONS = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}


def kubectl(
    cluster: Cluster, *args: str, namespace: str | None = None, stdin: str | None = None, check: bool = True
) -> str:
    """Run kubectl as administrator; returns what it printed (standard error too where `check` is off)."""
    where = ["--namespace", namespace] if namespace else []
    answer = subprocess.run(  # noqa: S603 - the cluster's own kubectl
        [cluster.kubectl, "--kubeconfig", cluster.kubeconfig, *where, *args],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if check and answer.returncode:
        raise AssertionError(f"kubectl {' '.join(args)} ended with {answer.returncode}: {answer.stderr}")
    return answer.stdout if check else answer.stdout + answer.stderr


def request(
    cluster: Cluster,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    content: str = "application/json",
) -> tuple[int, Any]:
    """One raw API request as administrator: (status, decoded JSON)."""
    with cluster.connect() as connection:
        return connection.request(method, path, body, content)


def new_namespace(cluster: Cluster) -> str:
    name = f"test-{uuid.uuid4().hex[:10]}"
    status, answer = request(cluster, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert status == 201, answer
    return name


def drop_namespace(cluster: Cluster, name: str) -> None:
    """Ask for the namespace's end without waiting for it.

    Without a controller manager it stays Terminating; what is in it is removed here, so that a manager that watches
    all namespaces in a later test does not find it.
    """
    request(cluster, "DELETE", f"/api/v1/namespaces/{name}")
    if cluster.plan.spec.profile == "api":
        for collection in COLLECTIONS:
            request(cluster, "DELETE", collection.format(name), DELETE_OPTIONS)


def finish_pod(cluster: Cluster, namespace: str, name: str, exit_code: int = 0) -> None:
    """End a fake pod now with this exit code in all its containers, whatever its template says."""
    annotations = {"kwok.jobset.dev/exit-code": str(exit_code), "kwok.jobset.dev/run-seconds": None}
    status, answer = request(
        cluster,
        "PATCH",
        f"/api/v1/namespaces/{namespace}/pods/{name}",
        {"metadata": {"annotations": annotations}},
        "application/merge-patch+json",
    )
    assert status == 200, answer


def pods(cluster: Cluster, namespace: str, selector: str = "") -> list[dict[str, Any]]:
    """The namespace's pods as JSON; `selector` in the form "a=b,c=d"."""
    args = ["get", "pods", "--output", "json", *(["--selector", selector] if selector else [])]
    items: list[dict[str, Any]] = json.loads(kubectl(cluster, *args, namespace=namespace))["items"]
    return items


def version_now(cluster: Cluster, path: str) -> str:
    """The resourceVersion of a collection, to ask `history` from."""
    status, body = request(cluster, "GET", f"{path}?limit=1")
    assert status == 200, body
    version: str = body["metadata"]["resourceVersion"]
    return version


def history(cluster: Cluster, path: str, since: str) -> list[dict[str, Any]]:
    """Every change of a collection since a resourceVersion, in order, as watch events: what was, not what is."""
    lines = kubectl(cluster, "get", "--raw", f"{path}?watch=1&resourceVersion={since}&timeoutSeconds=1")
    events = [json.loads(line) for line in lines.splitlines()]
    assert all(event["type"] != "ERROR" for event in events), events
    return events


def set_capacity(cluster: Cluster, node: str, resources: dict[str, str]) -> None:
    """Give a fake node resources beside those it has, such as {"nvidia.com/gpu": "8"}."""
    status, answer = request(
        cluster,
        "PATCH",
        f"/api/v1/nodes/{node}/status",
        {"status": {"capacity": resources, "allocatable": resources}},
        "application/merge-patch+json",
    )
    assert status == 200, answer


def create_volume(cluster: Cluster, namespace: str, claim: str, size: str, mode: str) -> None:
    """A volume for this claim and no other: the fake cluster has nobody who makes them."""
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{claim}"},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": [mode],
            "claimRef": {"namespace": namespace, "name": claim},
            "hostPath": {"path": "/fake"},
        },
    }
    status, answer = request(cluster, "POST", "/api/v1/persistentvolumes", body)
    assert status == 201, answer


def wait_for(probe: Callable[[], T], *, timeout: float = 30, what: str = "") -> T:
    """Call `probe` until it gives something true, and return that. Times out with what it gave last."""
    deadline = time.monotonic() + timeout
    while not (found := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what or probe}; last: {found!r}")
        time.sleep(0.05)
    return found


async def eventually(probe: Callable[[], Awaitable[T]], *, timeout: float = 30, what: str = "") -> T:
    """`wait_for` for asynchronous probes."""
    found: object = None
    try:
        async with asyncio.timeout(timeout):
            while not (found := await probe()):  # noqa: ASYNC110 - the state lives in another process
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not within {timeout} s: {what or probe}; last: {found!r}") from None
    return found
