"""A placement controller in virtual time: its watches show what a test says, its API server knows only pods."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec

from api import keys
from api.batch import Job
from controllers.placement.controller import JobRequest, PlacementReconciler
from controllers.placement.watches import PlacementWatches
from kube.client import Client, PatchType
from kube.informer import Informer
from kube.resources import JOBS, PODS
from kube.transport import Request, Response
from kube.workqueue import WorkQueue
from tests.support.model.faults import FaultyTransport
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.placement import (
    EPOCH,
    RACK,
    follower_of,
    leader_of,
    list_empty,
    moment,
    node_of,
    pod_json,
    show,
)

JOB = "js-w-0"
REQUEST = JobRequest("ns", JOB, f"uid-{JOB}")
BOUND = leader_of(node="n1")
NEXT = leader_of(name=f"{JOB}-0-fghij", node="n2", created=moment(10))


class Pods(MemoryApi):
    """Pods of one namespace. Every request takes a millisecond; `most` is how many were under way at once."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[str, str, dict[str, Any]]] = []
        self.accepted: list[str] = []
        self.lists: list[str] = []
        self.most = 0
        self._running = 0

    async def send(self, request: Request) -> Response:
        self._running += 1
        self.most = max(self.most, self._running)
        await asyncio.sleep(0.001)
        try:
            return self._pods(request)
        finally:
            self._running -= 1

    def _pods(self, request: Request) -> Response:
        plural, _, name = request.path.removeprefix("/api/v1/namespaces/ns/").partition("/")
        assert plural == "pods", request.path
        if request.method == "GET":
            return self._page(dict(request.query))
        body = msgspec.json.decode(request.body) if request.body else {}
        self.writes.append((request.verb, name, body))
        self.accepted.append(request.accept)
        assert request.method == "DELETE" or request.content_type == PatchType.STRATEGIC.value
        return self.answered(request)

    def _page(self, query: dict[str, str]) -> Response:
        assert query["labelSelector"].startswith(keys.JOB_UID)
        self.lists.append(query["labelSelector"].removeprefix(f"{keys.JOB_UID}="))
        path = PODS.path("ns")
        return self.answered(Request(method="GET", path=path, verb="list", query=tuple(query.items())))


class Bench:
    """A placement controller whose watches show what a test says."""

    def __init__(self) -> None:
        self.api = Pods()
        self.transport = FaultyTransport(self.api)
        client = Client(self.transport)
        self.watches = PlacementWatches(client)
        self.jobs = Informer(client, JOBS, Job)
        for informer in (self.watches.leaders, self.watches.followers, self.watches.nodes, self.jobs):
            list_empty(informer)
        show(self.watches.nodes, node_of("n1", rack="r1"), node_of("n2", rack="r2"), node_of("bare"))
        self.events: list[tuple[Any, str, str, str]] = []
        self.reconciler = PlacementReconciler(client, self.watches, self.jobs, self, wall_clock)
        self.queue: WorkQueue[JobRequest] = WorkQueue()

    def record(self, regarding: Any, kind: str, reason: str, note: str) -> None:
        self.events.append((regarding, kind, reason, note))

    def feed(self) -> "Bench":
        self.reconciler.feed(self.queue)
        return self

    def add_job(self, job: str = JOB, *, active: int = 3, jobset: str = "js", **annotations: str) -> None:
        show(self.jobs, job_of(job, active=active, jobset=jobset, **annotations))

    def add_pod(self, index: int = 1, **more: Any) -> None:
        """A pod in the API server that no watch shows."""
        pod = pod_json(index=index, **more)
        self.api.put("pods", pod["metadata"]["name"], **pod)

    def add_waiting(self, *indexes: int) -> None:
        """Gated followers, which the watch shows."""
        for index in indexes:
            gates = [{"name": "other"}, {"name": keys.PLACEMENT_GATE}]
            labels = {**pod_json()["metadata"]["labels"], keys.AWAITS_LEADER: "true"}
            self.add_pod(
                index, meta={"labels": labels}, spec={"nodeSelector": {"disk": "ssd"}, "schedulingGates": gates}
            )
            show(self.watches.followers, follower_of(index=index))

    def pod(self, index: int) -> dict[str, Any] | None:
        return self.api.objects("pods").get(("ns", f"{JOB}-{index}-abcde"))

    async def reconcile(self) -> float | None:
        return (await self.reconciler.reconcile(REQUEST)).requeue_after

    async def until_idle(self) -> None:
        """Work on what the queue has to give now."""
        while self.queue.depth():
            request = await self.queue.get()
            outcome = await self.reconciler.reconcile(request)
            self.queue.done(request)
            if outcome.requeue_after is not None:
                self.queue.add_after(request, outcome.requeue_after)

    def remembered(self) -> dict[JobRequest, Any]:
        """Jobs whose pods will be read, and when."""
        known = self.reconciler.memories
        return {request: known.checks(request) for request in known._records if known.checks(request)}

    def deleted(self) -> list[str]:
        return [name for verb, name, _ in self.api.writes if verb == "delete"]

    def marked(self) -> list[str]:
        return [name.removesuffix("/status") for _, name, _ in self.api.writes if name.endswith("/status")]


def job_of(
    job: str = JOB, *, active: int = 3, uid: str = "", suspend: bool = False, jobset: str = "js", **annotations: str
) -> Job:
    """A Job of the JobSet of that name, whose UID is made of it."""
    owner = {"apiVersion": keys.API_VERSION, "kind": keys.KIND, "name": jobset, "uid": f"uid-{jobset}"}
    meta = {
        "name": job,
        "namespace": "ns",
        "uid": uid or f"uid-{job}",
        "ownerReferences": [owner | {"controller": True}],
    }
    pods = {"annotations": annotations or {keys.JOBSET_NAME: "js", keys.EXCLUSIVE_TOPOLOGY: RACK}}
    spec = {"suspend": suspend, "template": {"metadata": pods}}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"active": active}}, Job)


def wall_clock() -> datetime:
    """The clock on the wall goes with the loop's, which begins at 0 with each test."""
    return EPOCH + timedelta(seconds=asyncio.get_running_loop().time())
