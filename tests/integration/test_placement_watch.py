"""What exclusive placement reads from a real API server: metadata alone, and only of those that count."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from api import keys
from api.batch import Job
from api.exclusive import Domain, NoDomain
from controllers.placement.controller import JobRequest, PlacementReconciler
from controllers.placement.domains import Domains, Map
from controllers.placement.watches import BY_JOB, PlacementWatches
from dev.cluster.cluster import Cluster
from kube.client import Client, PatchType
from kube.errors import NotFound
from kube.indexes import IndexKey
from kube.informer import Informer
from kube.options import METADATA, METADATA_LIST
from kube.resources import JOBS, NODES, PODS
from kube.transport import Request
from tests.support.cluster.kube_client import connected, synced
from tests.support.cluster.requests import request as ask
from tests.support.model.faults import FaultyTransport
from tests.support.objects.kube_objects import Thing
from tests.support.objects.placement import allow_pods, seen

RACK = "example.com/rack"
ZONE = "topology.kubernetes.io/zone"
BY_ZONE = {keys.EXCLUSIVE_TOPOLOGY: ZONE}


class Wire(FaultyTransport):
    """Keeps what the server sent."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.asked: list[Request] = []
        self.received: list[tuple[Request, bytes]] = []

    async def send(self, request: Request) -> Any:
        answer = await super().send(request)
        self.received.append((request, answer.body))
        return answer

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(request)

        async def heard(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            async for line in lines:
                self.received.append((request, bytes(line)))
                yield line

        async with super().stream(request) as lines, contextlib.aclosing(heard(lines)) as kept:
            yield kept

    def listed(self, plural: str) -> int:
        """How often a whole collection was asked for."""
        asked = [request for request in self.asked if request.path.endswith(f"/{plural}")]
        return len([request for request in asked if "sendInitialEvents" in dict(request.query)])

    def objects(self, verb: str, plural: str) -> list[dict[str, Any]]:
        """The objects that came with these requests, bookmarks left out."""
        found: list[dict[str, Any]] = []
        for call, body in self.received:
            if call.verb == verb and call.path.split("/pods/")[0].endswith(f"/{plural}"):
                answer = msgspec.json.decode(body)
                if answer.get("type") != "BOOKMARK":
                    found += answer["items"] if "items" in answer else [answer.get("object", answer)]
        return found


@contextlib.asynccontextmanager
async def wired(cluster: Cluster) -> AsyncIterator[tuple[Client, Wire]]:
    async with connected(cluster.kubeconfig) as (_, transport):
        wire = Wire(transport)
        yield Client(wire), wire


def pod(name: str, index: int | None = None, *, job_uid: str = "job-1", node: str = "", **annotations: str) -> dict:
    """A pod of a JobSet, ready to be created; no scheduler runs here, so it is bound as it is made."""
    own = {keys.JOBSET_NAME: "js", **annotations}
    labels = {keys.JOBSET_NAME: "js", keys.JOBSET_UID: "js-uid", keys.RESTART_ATTEMPT: "0"}
    if index is not None:
        own[keys.COMPLETION_INDEX] = labels[keys.COMPLETION_INDEX] = str(index)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "js-w-0", "uid": job_uid, "controller": True}
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "none"}], "terminationGracePeriodSeconds": 0}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "labels": labels, "annotations": own, "ownerReferences": [owner]}, "spec": spec}


def gated(made: dict[str, Any]) -> dict[str, Any]:
    made["metadata"]["labels"][keys.AWAITS_LEADER] = "true"
    made["spec"]["schedulingGates"] = [{"name": keys.PLACEMENT_GATE}]
    return made


@pytest.fixture
def account(api_server: Cluster, namespace: str) -> None:
    allow_pods(api_server, namespace)


@contextlib.asynccontextmanager
async def nodes(client: Client, key: str, values: dict[str, str]) -> AsyncIterator[None]:
    """Nodes that nobody runs, each with its value of a label."""
    try:
        for name, value in values.items():
            await client.create(NODES, {"metadata": {"name": name, "labels": {key: value}}})
        yield
    finally:
        for name in values:
            with contextlib.suppress(NotFound):
                await client.delete(NODES, name)


@contextlib.asynccontextmanager
async def watching(client: Client) -> AsyncIterator[PlacementWatches]:
    watches = PlacementWatches(client)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watches.run())
        await watches.wait_synced(20)
        yield watches
        task.cancel()


@pytest.mark.parametrize("streaming", [True, False])
async def test_the_server_sends_metadata_alone(api_server, namespace, account, streaming):
    async with wired(api_server) as (client, wire):
        await client.create(PODS, pod("before", 1), namespace=namespace)
        informer = Informer(client, PODS, Thing, namespace=namespace, metadata_only=True, streaming=streaming)
        async with synced(informer):
            await client.create(PODS, pod("after", 2), namespace=namespace)
            await seen(lambda: informer.store.get(namespace, "after"), "the pod appears")
            await client.delete(PODS, "before", namespace=namespace, grace_period=0)
            await seen(lambda: informer.store.get(namespace, "before") is None, "the pod goes")
    listed, watched = wire.objects("list", "pods"), wire.objects("watch", "pods")
    assert len(listed) == (0 if streaming else 1)
    assert len(watched) >= (3 if streaming else 2)
    assert {obj["kind"] for obj in watched} == {"PartialObjectMetadata"}
    assert all(set(obj) <= {"kind", "apiVersion", "metadata"} for obj in [*listed, *watched])
    asked = {request.accept for request, _ in wire.received if request.verb in {"list", "watch"}}
    assert asked == ({METADATA} if streaming else {METADATA, METADATA_LIST})


async def test_a_patch_gets_metadata_alone_where_it_asks_for_it(api_server, namespace, account):
    async with connected(api_server.kubeconfig) as (client, _):
        await client.create(PODS, pod("a", 1), namespace=namespace)
        patch = {"metadata": {"labels": {"x": "y"}}}
        answer = await client.patch(
            PODS, "a", patch, namespace=namespace, patch_type=PatchType.STRATEGIC, accept=METADATA
        )
        assert answer["metadata"]["labels"]["x"] == "y"
        assert set(answer) == {"kind", "apiVersion", "metadata"}
        whole = await client.patch(PODS, "a", patch, namespace=namespace, patch_type=PatchType.STRATEGIC)
        assert whole["spec"]["containers"]


async def test_only_leaders_of_exclusive_jobs_are_kept(api_server, namespace, account):
    exclusive_by = {keys.EXCLUSIVE_TOPOLOGY: RACK}
    async with connected(api_server.kubeconfig) as (client, _), watching(client) as watches:

        def own() -> set[str]:
            return {leader.name for leader in watches.leaders.store.list(namespace)}

        async with asyncio.TaskGroup() as group:
            for number in range(200):
                group.create_task(client.create(PODS, pod(f"p{number}", number % 2), namespace=namespace))
        others = [
            pod("follower", 1, **exclusive_by),
            pod("no-index", **exclusive_by),
            pod("by-selector", 0, **exclusive_by, **{keys.NODE_SELECTOR_STRATEGY: "true"}),
            {**pod("no-jobset", 0), "metadata": {"name": "no-jobset", "annotations": exclusive_by}},
        ]
        for other in others:
            await client.create(PODS, other, namespace=namespace)
        # Events come in order: once the last one is seen, so are all before it.
        await client.create(PODS, pod("leader", 0, **exclusive_by), namespace=namespace)
        await seen(own, "the leader appears")
        assert own() == {"leader"}
        assert len(watches.followers.store.list(namespace)) == 0
        [leader] = watches.leaders.store.by_index(BY_JOB, IndexKey(namespace, "job-1"))
        assert (leader.job, leader.jobset, leader.jobset_uid, leader.topology) == ("js-w-0", "js", "js-uid", RACK)
        unwanted = {"metadata": {"annotations": {keys.EXCLUSIVE_TOPOLOGY: None}}}
        await client.patch(PODS, "leader", unwanted, namespace=namespace)
        await seen(lambda: not own(), "a leader that is none any more goes")


async def test_a_gated_follower_comes_and_goes_with_its_label(api_server, namespace, account):
    by = {keys.EXCLUSIVE_TOPOLOGY: RACK}
    async with wired(api_server) as (client, wire), watching(client) as watches:

        def names() -> set[str]:
            return {follower.name for follower in watches.followers.store.list(namespace)}

        await client.create(PODS, pod("free", 2, **by), namespace=namespace)
        made = await client.create(PODS, gated(pod("waits", 1, **by)), namespace=namespace)
        await seen(names, "the gated one appears")
        assert names() == {"waits"}
        assert watches.followers.store.get(namespace, "waits").uid == made["metadata"]["uid"]
        label = {"metadata": {"labels": {keys.AWAITS_LEADER: None}}}
        await client.patch(PODS, "waits", label, namespace=namespace)
        await seen(lambda: not names(), "without its label it goes")
    watched = [obj for obj in wire.objects("watch", "pods") if obj["metadata"]["name"] == "waits"]
    assert watched
    assert {obj["kind"] for obj in watched} == {"PartialObjectMetadata"}


async def test_a_new_topology_key_lists_the_nodes_again_once(api_server, namespace, account):
    node = namespace.replace("test", "node")
    key = f"example.com/{namespace}"
    by = {keys.EXCLUSIVE_TOPOLOGY: key}
    async with wired(api_server) as (client, wire), nodes(client, key, {node: "row-7"}), watching(client) as watches:
        where = Map(watches.leaders.store, watches.nodes.store)
        assert where.label(key, node) is None
        assert wire.listed("nodes") == 1
        for number in range(5):
            made = pod(f"l{number}", 0, job_uid=f"u{number}", node=node, **by)
            await client.create(PODS, made, namespace=namespace)
        await seen(lambda: where.label(key, node), "the label is known")
        assert where.find(namespace, "u0", key) == Domain("row-7", "l0", node)
        common = pod("zone", 0, job_uid="z", **{keys.EXCLUSIVE_TOPOLOGY: ZONE})
        await client.create(PODS, common, namespace=namespace)
        await seen(lambda: len(watches.leaders.store.list(namespace)) == 6, "all leaders are seen")
        await client.patch(NODES, node, {"metadata": {"labels": {key: "row-8"}}})
        await seen(lambda: where.label(key, node) == "row-8", "changes are seen")
        assert wire.listed("nodes") == 2
    assert {obj["kind"] for obj in wire.objects("watch", "nodes")} == {"PartialObjectMetadata"}


class DroppedEvents:
    """An event recorder that drops all events."""

    def record(self, *_: object) -> None:
        """Not looked at here."""


class Placing:
    """A placement controller and pods of one Job; its leader is bound to the node in zone z1."""

    def __init__(self, client: Client, watches: PlacementWatches, namespace: str) -> None:
        self.client, self.watches, self.namespace = client, watches, namespace
        self.reconciler = PlacementReconciler(client, watches, Informer(client, JOBS, Job), DroppedEvents())
        self.job = JobRequest(namespace, "js-w-0", "job-1")

    async def add(self, made: dict[str, Any]) -> None:
        made["metadata"]["labels"][keys.JOB_UID] = "job-1"
        await self.client.create(PODS, made, namespace=self.namespace)

    async def get(self, name: str) -> dict[str, Any]:
        return await self.client.get(PODS, name, namespace=self.namespace)

    async def lead(self, node: str) -> None:
        await self.add(pod("leader", 0, node=node, **BY_ZONE))
        await seen(lambda: self.watches.leaders.store.get(self.namespace, "leader"), "the leader is seen")


@pytest.fixture
async def zones(api_server, namespace, account) -> AsyncIterator[tuple[Client, FaultyTransport, dict[str, str]]]:
    """A client, and nodes of their own by zone."""
    names = {zone: namespace.replace("test", zone) for zone in ("z1", "z2")}
    values = {name: zone for zone, name in names.items()}
    async with connected(api_server.kubeconfig) as (client, transport), nodes(client, ZONE, values):
        yield client, transport, names


async def test_a_waiting_follower_is_brought_after_its_leader_by_one_patch(zones, namespace):
    client, transport, names = zones
    async with watching(client) as watches:
        placing = Placing(client, watches, namespace)
        waiting = gated(pod("waits", 1, **BY_ZONE))
        waiting["spec"]["schedulingGates"].append({"name": "example.com/other"})
        waiting["spec"]["nodeSelector"] = {"disk": "ssd"}
        await placing.add(waiting)
        await placing.lead(names["z1"])
        await seen(lambda: watches.followers.store.get(namespace, "waits"), "the follower is seen")
        before = len(transport.writes())
        for _ in range(2):
            await placing.reconciler.reconcile(placing.job)
        assert len(transport.writes()) == before + 1
        lifted = await placing.get("waits")
        assert lifted["spec"]["nodeSelector"] == {"disk": "ssd", ZONE: "z1"}
        assert lifted["spec"]["schedulingGates"] == [{"name": "example.com/other"}]
        assert keys.AWAITS_LEADER not in lifted["metadata"]["labels"]


async def test_a_misplaced_follower_is_marked_and_deleted(zones, namespace):
    client, _, names = zones
    async with watching(client) as watches:
        placing = Placing(client, watches, namespace)
        wrong = pod("wrong", 2, node=names["z2"], **BY_ZONE)
        wrong["metadata"]["finalizers"] = ["example.com/look"]
        await placing.add(wrong)
        await placing.add(pod("right", 3, node=names["z1"], **BY_ZONE))
        await placing.lead(names["z1"])
        placing.reconciler.memories.look_at(placing.job, 0.0)
        await placing.reconciler.reconcile(placing.job)
        gone = await placing.get("wrong")
        assert gone["metadata"]["deletionTimestamp"]
        [mark] = [c for c in gone["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert (mark["status"], mark["reason"]) == ("True", "ExclusivePlacementViolation")
        assert "deletionTimestamp" not in (await placing.get("right"))["metadata"]
        await client.patch(PODS, "wrong", {"metadata": {"finalizers": None}}, namespace=namespace)


async def test_a_webhook_s_wait_ends_with_the_binding(api_server, zones, namespace):
    client, _, names = zones
    async with watching(client) as watches:
        domains = Domains(watches, 20)
        await client.create(PODS, pod("leader", 0, **BY_ZONE), namespace=namespace)
        await seen(lambda: watches.leaders.store.get(namespace, "leader"), "the leader is seen")
        assert isinstance(domains.find(namespace, "job-1", ZONE), NoDomain)
        asked = [asyncio.create_task(domains.settle(namespace, "job-1", ZONE)) for _ in range(3)]
        binding = {"metadata": {"name": "leader"}, "target": {"kind": "Node", "name": names["z1"]}}
        path = f"/api/v1/namespaces/{namespace}/pods/leader/binding"
        status, answer = await asyncio.to_thread(ask, api_server, "POST", path, binding)
        assert status == 201, answer
        expected = Domain("z1", "leader", names["z1"])
        assert await asyncio.gather(*asked) == [expected] * 3
