"""The test's part in a namespace of a bare API server: Job controller, garbage collector, and the user.

`move` gives the next thing that these would do, one at a time and always in the same order, so that a run can be
repeated. Every change goes through the API server's validation of Job status, which refuses what a real Job controller
could not have written. Must not do anything for the JobSet controller.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from api.names import job_key
from controllers.resources import JOBSETS
from dev.simulator import group_rules, job_status
from dev.simulator.selectors import matches
from kube.client import Client
from kube.errors import NotFound
from kube.options import ListOptions
from kube.resources import (
    COMPOSITE_POD_GROUPS,
    JOBS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_GROUPS,
    PODS,
    SERVICES,
    WORKLOADS,
    Resource,
)
from kube.transport import Request, Response, Transport

NOW = "2026-01-01T00:00:00Z"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""A time within a message."""

GROUPS = (WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS)
KINDS = (JOBSETS, JOBS, SERVICES, PERSISTENT_VOLUME_CLAIMS, PODS, *GROUPS)
SEEN = (*KINDS, NODES)
VOLATILE = frozenset(
    {
        "creationTimestamp",
        "completionTime",
        "deletionTimestamp",
        "durationSeconds",
        "generation",
        "lastProbeTime",
        "lastTransitionTime",
        "managedFields",
        "recovery",
        "resourceVersion",
        "startTime",
        "time",
        "uid",
    }
)
"""Fields whose values no two runs share."""

Object = dict[str, Any]
Move = Callable[[], Awaitable[Any]]


@dataclass(frozen=True)
class Snapshot:
    """All objects of the namespace, and the node, by plural name, each list by name."""

    objects: dict[str, list[Object]]

    def of(self, resource: Resource) -> list[Object]:
        return self.objects[resource.plural]

    def one(self, resource: Resource, name: str) -> Object:
        """The object of that name; a test that asks for one that is not there is wrong about the path."""
        found = [obj for obj in self.of(resource) if obj["metadata"]["name"] == name]
        assert found, f"{resource.plural}: no {name!r} among {[obj['metadata']['name'] for obj in self.of(resource)]}"
        return found[0]

    def shown_by(self, watched: dict[tuple[str, str], dict[str, str]]) -> bool:
        """Whether watches, by plural name and label selector, have shown exactly this."""
        return all(
            {
                obj["metadata"]["name"]: obj["metadata"]["resourceVersion"]
                for obj in self.objects[plural]
                if matches(selector, obj["metadata"].get("labels", {}))
            }
            == versions
            for (plural, selector), versions in watched.items()
        )


class TrackingTransport:
    """A transport that all writers of one new namespace share: it knows what was written, and so which lists are due.

    A list that is only asked to be as new as the last write comes from the API server's memory; one that has to be the
    newest waits about 0.1 s for etcd, and one that is not due costs nothing. Lists would else be most of a run.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._due: dict[str, int] = {}
        self._versions: list[int] = []

    async def send(self, request: Request) -> Response:
        if request.method == "GET":
            return await self._inner.send(request)
        (plural, name, _), version = resource_of(request.path), 0
        try:
            response = await self._inner.send(request)
            if request.method == "DELETE" and not name:
                return response  # says how new the list was of what is to be deleted
            version = int(json.loads(response.body).get("metadata", {}).get("resourceVersion", 0))
            self._versions += [version] if version else []
            return response
        finally:
            self.wrote(plural, version)

    def stream(self, request: Request) -> contextlib.AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)

    async def close(self) -> None:
        """Not ours to close: the connections belong to the test."""

    def version_before(self, writes: int) -> str:
        """The resourceVersion that was the newest before the last so many writes; after the first at least."""
        return str(sorted(self._versions)[-writes - 1 :][0])

    def wrote(self, plural: str, version: int) -> None:
        """Something was written; 0 is for a version that is not known, as when the object is gone."""
        assert any(kind.plural == plural for kind in SEEN), (
            f"{plural!r}: no step waits until the controller has seen it"
        )
        known = self._due.get(plural, version)
        self._due[plural] = max(known, version) if known and version else 0

    def due(self, plural: str) -> ListOptions | None:
        """How to list what was written since this was asked last; None when nothing was."""
        version = self._due.pop(plural, None)
        if version is None:
            return None
        return {"resource_version": str(version), "resource_version_match": "NotOlderThan"} if version else {}


class PlayedCluster:
    """One namespace, new and empty, and who acts in it beside the JobSet controller."""

    def __init__(self, transport: TrackingTransport, namespace: str) -> None:
        self.namespace = namespace
        self.node = f"holds-{namespace}"
        """The one node that there may be: it is no other world's."""
        self._transport = transport
        self._client = Client(transport)
        self._together: set[tuple[str, str]] = set()
        self._waiting_for_pods: set[str] = set()
        self._objects: dict[str, list[Object]] = {kind.plural: [] for kind in SEEN}

    def at_once(self, resource: Resource, *names: str) -> None:
        """The next changes of these objects are seen together: watches report the first only with the last."""
        self._together = {(resource.plural, name) for name in names}

    def make_wait_for_pod(self, job: str) -> None:
        """From now on Jobs of this name are ready only once they have a pod that runs. Other Jobs need no pods."""
        self._waiting_for_pods.add(job)

    def withholds(self, plural: str, obj: Object) -> bool:
        """Whether a watch has to wait with this object, the last it received, for others."""
        self._together.discard((plural, obj.get("metadata", {}).get("name", "")))
        return any(waiting == plural for waiting, _ in self._together)

    async def look(self) -> Snapshot:
        due = [(kind, options) for kind in SEEN if (options := self._transport.due(kind.plural)) is not None]
        if due:  # most looks find nothing new, and there are hundreds a second
            await asyncio.gather(*(self._list(kind, options) for kind, options in due))
        return Snapshot(dict(self._objects))

    async def _list(self, kind: Resource, options: ListOptions) -> None:
        scope = {"field_selector": f"metadata.name={self.node}"} if kind == NODES else {"namespace": self.namespace}
        page = await self._client.list(kind, limit=0, **scope, **options)
        self._objects[kind.plural] = sorted(page.items or [], key=lambda obj: obj["metadata"]["name"])

    def move(self, seen: Snapshot) -> Move | None:
        """What the cluster would do next; None when only the user or the end of a pod can change anything."""
        return self._collect(seen) or self._orphan(seen) or self._work(seen)

    # The garbage collector

    def _collect(self, seen: Snapshot) -> Move | None:
        """Let go of what is in deletion: children first, a JobSet when none of them is left."""
        owned = {ref["uid"] for kind in KINDS for obj in seen.of(kind) for ref in _owners(obj)}
        for kind in reversed(KINDS):
            for obj in seen.of(kind):
                # Only a kubelet ends a pod that is bound to a node, and there is none.
                held = (
                    obj["metadata"]["uid"] in owned
                    or (kind == POD_GROUPS and group_rules.has_pods(_name(obj), seen.of(JOBS)))
                    or (kind == PODS and "nodeName" in obj["spec"])
                )
                if "deletionTimestamp" in obj["metadata"] and not held:
                    return lambda kind=kind, obj=obj: self._release(kind, obj["metadata"]["name"])
        return None

    async def _release(self, kind: Resource, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self.patch(kind, name, {"metadata": {"finalizers": None}})
        self._transport.wrote(kind.plural, 0)

    def _orphan(self, seen: Snapshot) -> Move | None:
        """Delete what an owner that is gone or going left behind."""
        alive = {
            obj["metadata"]["uid"]
            for kind in KINDS
            for obj in seen.of(kind)
            if "foregroundDeletion" not in obj["metadata"].get("finalizers", ())
        }
        for kind in KINDS:
            for obj in seen.of(kind):
                left = [ref for ref in _owners(obj) if ref["uid"] not in alive]
                if left and "deletionTimestamp" not in obj["metadata"]:
                    return lambda kind=kind, obj=obj: self.delete(kind, obj["metadata"]["name"], "Background")
        return None

    # The Job controller

    def _work(self, seen: Snapshot) -> Move | None:
        pend = {ref["uid"] for pod in seen.of(PODS) if pod["status"].get("phase") == "Pending" for ref in _owners(pod)}
        running = {ref["uid"] for pod in seen.of(PODS) if pod["status"]["phase"] == "Running" for ref in _owners(pod)}
        for job in seen.of(JOBS):
            status, uid = job_status.next_status(job, NOW), job["metadata"]["uid"]
            has_no_pod = _name(job) in self._waiting_for_pods and uid not in running
            if status is not None and status.get("ready", 0) and (has_no_pod or uid in pend):
                continue
            if status is not None and "deletionTimestamp" not in job["metadata"]:
                return lambda name=job["metadata"]["name"], status=status: self.patch(
                    JOBS, name, {"status": status}, "status"
                )
        return None

    # What steps are made of

    async def create(self, resource: Resource, body: Object) -> Object:
        return await self._client.create(resource, body, namespace=self.namespace)

    async def patch(self, resource: Resource, name: str, body: Object, subresource: str = "") -> Object:
        return await self._client.patch(resource, name, body, namespace=self.namespace, subresource=subresource)

    async def bind(self, pod: str, node: str) -> None:
        """What kube-scheduler writes when it has found a node for a pod."""
        body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
        await self._post(f"{PODS.path(self.namespace, pod)}/binding", body)

    async def _post(self, path: str, body: Object) -> None:
        request = Request(method="POST", path=path, verb="create", body=json.dumps(body).encode())
        response = await self._transport.send(request)
        assert response.status == 201, response.body

    async def evict(self, pod: str) -> None:
        """What `kubectl drain` does: the pod is marked, and deleted with its grace period."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": self.namespace}}
        await self._post(f"{PODS.path(self.namespace, pod)}/eviction", body)

    async def delete(self, resource: Resource, name: str, propagation: str, **options: Any) -> None:
        await self._client.delete(resource, name, namespace=self.namespace, propagation_policy=propagation, **options)

    async def clear(self) -> None:
        """Leave nothing behind for tests that watch all namespaces later."""
        for kind in KINDS:
            for obj in (await self.look()).of(kind):
                with contextlib.suppress(NotFound):
                    name, how = obj["metadata"]["name"], {"propagation_policy": "Background", "grace_period_seconds": 0}
                    await self._client.delete(kind, name, namespace=self.namespace, **how)
        while left := self._collect(await self.look()):
            await left()
        with contextlib.suppress(NotFound):
            await self._client.delete(NODES, self.node)


def resource_of(path: str) -> tuple[str, str, str]:
    """Plural, name and subresource in the path of a request; "" for what is not there."""
    in_namespace = path.partition("/namespaces/")[2].partition("/")[2]
    plural, _, rest = (in_namespace or path.partition("/v1/")[2]).partition("/")
    name, _, subresource = rest.partition("/")
    return plural, name, subresource


def steady_name(plural: str, name: str) -> str:
    """A name without what no two runs share: those of groups end with a hash that depends on the JobSet's UID."""
    return name.rpartition("-")[0] if any(of.plural == plural for of in GROUPS) else name


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _owners(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences", [])


def normalised(seen: Snapshot, namespace: str) -> dict[str, Any]:
    """The objects by "kind/name", without what no two runs share: times, uids, versions, the namespace."""
    names = {obj["metadata"]["uid"]: obj["metadata"]["name"] for kind in KINDS for obj in seen.of(kind)}
    names |= {job_key(namespace, job["metadata"]["name"]): "key" for job in seen.of(JOBS)}
    names[namespace] = "namespace"
    names |= {name: steady_name(of.plural, name) for of in GROUPS for obj in seen.of(of) if (name := _name(obj))}
    text = json.dumps(seen.objects)
    for found, name in names.items():
        text = text.replace(found, f"<{name}>")
    return {
        f"{plural}/{obj['metadata']['name'].strip('<>')}": _steady(obj)
        for plural, objects in json.loads(text).items()
        for obj in objects
    }


def summary(end: dict[str, Any]) -> str:
    """A normalised end in a few words."""
    if "jobsets/js" not in end:
        return "gone"
    status = end["jobsets/js"]["status"]
    jobs = [obj for name, obj in end.items() if name.startswith("jobs/")]
    groups = status["replicatedJobsStatus"]
    alone = sum(sum(group.get("jobRestarts", ())) for group in groups)
    words = [
        status.get("terminalState", ""),
        f"{len(jobs)} Jobs",
        f"{sum(group['ready'] for group in groups)} ready",
        f"{sum(job['status'].get('active', 0) for job in jobs)} pods",
        f"{status['restarts']} restarts" if status["restarts"] else "",
        f"{alone} job restarts" if alone else "",
    ]
    before, now = (status.get(f"{which}InPlaceRestartAttempt") for which in ("previous", "current"))
    if now is not None:
        words.append(f"{before} before {now} in place")
    return ", ".join(filter(None, words))


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _steady(part) for key, part in value.items() if key not in VOLATILE}
        return {k: sorted(v, key=lambda c: c["type"]) if k == "conditions" else v for k, v in kept.items()}
    if isinstance(value, str):
        return TIME.sub("<time>", value)
    return [_steady(part) for part in value] if isinstance(value, list) else value


def differences(wanted: Any, found: Any, where: str = "") -> list[str]:
    """Every place where two normalised ends differ, as readable lines."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [
            line
            for key in sorted(wanted.keys() | found.keys())
            for line in differences(wanted.get(key), found.get(key), f"{where}.{key}")
        ]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        return [line for n, pair in pairs for line in differences(*pair, f"{where}[{n}]")]
    return [] if wanted == found else [f"{where}: {wanted!r} without a kill, {found!r} with it"]
