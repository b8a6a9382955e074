"""What exclusive placement reads from a real API server: metadata alone, and only of those that count."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from api import keys
from api.exclusive import Domain
from controllers.placement.domains import DomainMap
from controllers.placement.watches import BY_JOB, PlacementWatches
from dev.cluster.cluster import Cluster
from kube.client import Client, PatchType
from kube.errors import NotFound
from kube.indexes import IndexKey
from kube.informer import Informer
from kube.options import METADATA, METADATA_LIST
from kube.resources import NODES, PODS
from kube.transport import Request
from tests.support.beside import beside
from tests.support.cluster.kube_client import connected, synced
from tests.support.model.faults import FaultyTransport
from tests.support.objects.kube_objects import Thing
from tests.support.objects.placement import allow_pods, seen

RACK = "example.com/rack"
ZONE = "topology.kubernetes.io/zone"


class Wire(FaultyTransport):
    """Keeps what the server sent."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.requests: list[Request] = []
        self.received: list[tuple[Request, bytes]] = []

    async def send(self, request: Request) -> Any:
        answer = await super().send(request)
        self.received.append((request, answer.body))
        return answer

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self.requests.append(request)

        async def heard(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            async for line in lines:
                self.received.append((request, bytes(line)))
                yield line

        async with super().stream(request) as lines, contextlib.aclosing(heard(lines)) as kept:
            yield kept

    def listed(self, plural: str) -> int:
        """How often a whole collection was asked for."""
        asked = [request for request in self.requests if request.path.endswith(f"/{plural}")]
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
def account(jobset_server: Cluster, namespace: str) -> None:
    allow_pods(jobset_server, namespace)


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
    watches.begin()
    async with beside(watches.run()):
        await watches.wait_synced(20)
        yield watches


@pytest.mark.parametrize("streaming", [True, False])
async def test_the_server_sends_metadata_alone(jobset_server, namespace, account, streaming):
    async with wired(jobset_server) as (client, wire):
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


async def test_a_patch_gets_metadata_alone_where_it_asks_for_it(jobset_server, namespace, account):
    async with connected(jobset_server.kubeconfig) as (client, _):
        await client.create(PODS, pod("a", 1), namespace=namespace)
        patch = {"metadata": {"labels": {"x": "y"}}}
        answer = await client.patch(
            PODS, "a", patch, namespace=namespace, patch_type=PatchType.STRATEGIC, accept=METADATA
        )
        assert answer["metadata"]["labels"]["x"] == "y"
        assert set(answer) == {"kind", "apiVersion", "metadata"}
        whole = await client.patch(PODS, "a", patch, namespace=namespace, patch_type=PatchType.STRATEGIC)
        assert whole["spec"]["containers"]


async def test_only_leaders_of_exclusive_jobs_are_kept(jobset_server, namespace, account):
    exclusive_by = {keys.EXCLUSIVE_TOPOLOGY: RACK}
    async with connected(jobset_server.kubeconfig) as (client, _), watching(client) as watches:

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


async def test_a_gated_follower_comes_and_goes_with_its_label(jobset_server, namespace, account):
    by = {keys.EXCLUSIVE_TOPOLOGY: RACK}
    async with wired(jobset_server) as (client, wire), watching(client) as watches:

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


async def test_a_new_topology_key_lists_the_nodes_again_once(jobset_server, namespace, account):
    node = namespace.replace("test", "node")
    key = f"example.com/{namespace}"
    by = {keys.EXCLUSIVE_TOPOLOGY: key}
    async with wired(jobset_server) as (client, wire), nodes(client, key, {node: "row-7"}), watching(client) as watches:
        where = DomainMap(watches.leaders.store, watches.nodes.store)
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
