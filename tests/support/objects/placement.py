"""Leaders, followers and nodes as exclusive placement keeps them, and the JSON they are read from."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from api import keys
from api.pod import DetailedPod
from api.topology import Follower, Leader, Node, NodeMetadata, leader, node_keeping
from dev.cluster.cluster import Cluster
from kube.informer import Informer
from kube.watcher import Apply, Delete, Init, InitDone
from tests.support.cluster.requests import eventually, request

RACK = "rack"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def moment(seconds: float = 0.0) -> str:
    """RFC 3339, so many seconds after the epoch of these tests."""
    return (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def leader_of(job: str = "js-w-0", **fields: Any) -> Leader:
    """A live leader that waits for a node."""
    defaults = {
        "namespace": "ns",
        "name": f"{job}-0-abcde",
        "resource_version": "1",
        "job": job,
        "job_uid": f"uid-{job}",
        "jobset": "js",
        "jobset_uid": "uid-js",
        "topology": RACK,
        "attempt": 0,
        "created": moment(),
        "node": "",
        "is_live": True,
        "reason": "",
        "since": "",
    }
    return Leader(**{**defaults, **fields})


def follower_of(job: str = "js-w-0", index: int = 1, **fields: Any) -> Follower:
    """A follower that has the gate."""
    defaults = {
        "namespace": "ns",
        "name": f"{job}-{index}-abcde",
        "resource_version": "1",
        "job": job,
        "job_uid": f"uid-{job}",
        "jobset": "js",
        "jobset_uid": "uid-js",
        "topology": RACK,
        "uid": f"uid-{job}-{index}",
    }
    return Follower(**{**defaults, **fields})


def node_of(name: str, version: int = 1, *, asked: tuple[str, ...] = (RACK,), **labels: str) -> Node:
    """A node; of its labels those are known that were asked for."""
    meta = {"name": name, "resourceVersion": str(version), "labels": labels}
    return node_keeping(lambda: asked)(msgspec.convert({"metadata": meta}, NodeMetadata))


def pod_json(job: str = "js-w-0", index: int | None = 0, **more: Any) -> dict[str, Any]:
    """A pod of an exclusive Job, as the API server shows it. `meta`, `spec` and `status` are laid over it."""
    annotations = {keys.JOBSET_NAME: "js", keys.EXCLUSIVE_TOPOLOGY: RACK}
    if index is not None:
        annotations[keys.COMPLETION_INDEX] = str(index)
    meta = {
        "name": f"{job}-{index}-abcde",
        "namespace": "ns",
        "uid": f"uid-{job}-{index}",
        "resourceVersion": "1",
        "creationTimestamp": moment(),
        "labels": {keys.JOBSET_NAME: "js", keys.JOBSET_UID: "uid-js", keys.JOB_UID: f"uid-{job}"},
        "annotations": annotations,
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
        ],
    }
    return {
        "metadata": {**meta, **more.get("meta", {})},
        "spec": more.get("spec", {}),
        "status": more.get("status", {}),
    }


def read_leader(pod: dict[str, Any]) -> Leader | None:
    """What is kept of it by the watch of leaders."""
    return leader(msgspec.json.decode(msgspec.json.encode(pod), type=DetailedPod))


def placed(pod: dict[str, Any]) -> DetailedPod:
    """It as the repair reads it."""
    return msgspec.convert(pod, DetailedPod)


def list_empty(informer: Informer[Any]) -> None:
    """The first list is complete, and nothing is there."""
    informer._receive(Init())
    informer._receive(InitDone(1))


def show(informer: Informer[Any], *objects: Any) -> None:
    """The watch reports objects as they are now; their versions are counted up."""
    for obj in objects:
        version = str(informer.store.watched_version + 1)
        meta = obj.metadata
        if meta is obj:
            obj = msgspec.structs.replace(obj, resource_version=version)  # noqa: PLW2901 -- the same with its version
        else:
            obj = msgspec.structs.replace(  # noqa: PLW2901
                obj, metadata=msgspec.structs.replace(meta, resource_version=version)
            )
        informer._receive(Apply(obj))


def hide(informer: Informer[Any], obj: Any) -> None:
    """The watch reports that an object is gone."""
    version = str(informer.store.watched_version + 1)
    if obj.metadata is obj:
        obj = msgspec.structs.replace(obj, resource_version=version)
    else:
        obj = msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, resource_version=version))
    informer._receive(Delete(obj))


def allow_pods(cluster: Cluster, namespace: str) -> None:
    """Make the service account that pods need, where no controller makes it."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    status, answer = request(cluster, "POST", path, {"metadata": {"name": "default"}})
    assert status in {201, 409}, answer


async def seen(probe: Callable[[], Any], what: str) -> None:
    """Wait until a cache shows it."""

    async def found() -> Any:
        return probe()

    await eventually(found, timeout=20, what=what)
