"""What is kept of nodes and of the pods on them, which sets a change wakes, and what the reconciler makes of it."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from api import keys
from api.features import FeatureGates
from api.jobset import JobSet
from api.nodes import DetailedNode, bound_pod, node_transform
from api.pod import DetailedPod
from controllers.jobset.controller import Options
from controllers.jobset.execute import FailedWrites
from controllers.jobset.node_watches import NodeWatches
from controllers.jobset.watches import Watches
from controllers.planning.observed import PodAtRisk
from kube.client import Client
from kube.controller import Request
from kube.errors import KubeError
from kube.model.meta import Identity
from kube.store import Store, Unreadable
from kube.workqueue import WorkQueue
from tests.api.test_topology import MANY, bytes_per_object
from tests.support.cluster.kube_client import synced
from tests.support.model.blind import Blind
from tests.support.model.memory_api import MemoryApi, refuse, serve
from tests.support.objects.stored_sets import jobset, rjob

UNREACHABLE, BROKEN = "node.kubernetes.io/unreachable", "example.com/broken"
START = datetime(2026, 1, 1, tzinfo=UTC)
NOW, LATER, ADDED = "2026-01-01T00:00:30Z", "2026-01-01T00:01:00Z", "2026-01-01T00:00:07Z"
WANTED = {"maxRestarts": 2, "nodeFailure": {"afterSeconds": 30, "forceDeletePods": True}}


def a_set(name: str = "js", **spec) -> JobSet:
    js = jobset(rjob("workers", 1), **({"failurePolicy": WANTED} | spec))
    meta = msgspec.structs.replace(js.metadata, name=name, uid=f"{name}-uid")
    return msgspec.structs.replace(js, metadata=meta)


def taint(key: str = UNREACHABLE, added: str = ADDED) -> dict:
    return {"key": key, "effect": "NoExecute"} | ({"timeAdded": added} if added else {})


def pod_body(name: str, node: str, js: str = "js", job_uid: str = "job-uid", kind: str = "Job", **meta) -> dict:
    owner = {"apiVersion": "batch/v1", "kind": kind, "name": "js-workers-0", "uid": job_uid, "controller": True}
    labels = {keys.JOBSET_NAME: js, keys.JOBSET_UID: f"{js}-uid"}
    return {
        "metadata": {"name": name, "namespace": "ns", "labels": labels, "ownerReferences": [owner], **meta},
        "spec": {"nodeName": node},
        "status": {"phase": "Running"},
    }


class Cluster:
    """An API server in memory with the nodes n1 and n2, and what is watched of it. The queue has what was woken."""

    def __init__(self, *sets: JobSet, all_taints: bool = False) -> None:
        self.api, self.jobsets = MemoryApi(), Store[JobSet]()
        for js in sets or (a_set(),):
            self.jobsets.apply(js)
        self.watches = NodeWatches(Client(self.api), self.jobsets, [BROKEN], all_taints=all_taints)
        self.queue: WorkQueue[Request] = WorkQueue()
        self.node("n1")
        self.node("n2")

    def node(self, name: str, *taints: dict, **more) -> None:
        self.api.put("nodes", name, "", metadata={"name": name, "namespace": ""}, spec={"taints": [*taints]}, **more)

    def pod(self, name: str, node: str = "n1", js: str = "js", phase: str = "Running", **more) -> None:
        body = pod_body(name, node, js, **more)
        self.api.put("pods", name, metadata=body["metadata"], spec=body["spec"], status={"phase": phase})

    def on_failed_nodes(self, now: str = NOW) -> list[tuple[str, str, str, str]]:
        found = self.watches.failed_pods(self.jobsets.get("ns", "js"), now)
        return sorted((pod.name, pod.node, pod.taint, pod.at_risk_since) for pod in found)

    async def read(self, *names: str) -> None:
        await self.watches.read(self.jobsets.get("ns", "js"), names)

    async def woken(self) -> set[str]:
        """The sets that were put into the queue by what was changed last."""
        for _ in range(50):
            await asyncio.sleep(0)
        found = set()
        while len(self.queue):
            item = await self.queue.get()
            found.add(item.name)
            self.queue.done(item)
        return found

    def synced(self):
        return synced(*self.watches.informers)


class TestWhatHasFailed:
    @pytest.mark.parametrize(
        ("taints", "found"),
        [
            ([], []),
            ([taint("node.kubernetes.io/not-ready")], []),
            ([taint()], [(UNREACHABLE, ADDED)]),
            ([taint(added=LATER), taint()], [(UNREACHABLE, ADDED)]),
            ([taint(added=""), taint()], [(UNREACHABLE, ADDED)]),
            ([taint(BROKEN, added="")], [(BROKEN, NOW)]),
            ([taint(BROKEN, added=""), taint()], [(UNREACHABLE, ADDED)]),
        ],
    )
    async def test_a_node_with_a_taint_that_counts(self, taints, found):
        cluster = Cluster()
        cluster.node("n1", *taints)
        cluster.pod("p")
        cluster.pod("elsewhere", "n2")
        async with cluster.synced():
            assert cluster.on_failed_nodes() == [("p", "n1", *what) for what in found]

    async def test_what_is_known_of_a_node_is_forgotten_with_its_last_pod(self):
        cluster = Cluster()
        cluster.node("n1", taint(BROKEN, added=""))
        cluster.pod("p")
        cluster.pod("q")
        async with cluster.synced():
            cluster.on_failed_nodes(NOW)
            cluster.node("n1", taint(BROKEN, added=""), taint())
            cluster.api.drop("pods", "q")
            await cluster.woken()
            assert cluster.watches._first_seen == {"n1": {BROKEN: NOW}}
            cluster.api.drop("pods", "p")
            await cluster.woken()
            assert cluster.watches._first_seen == {}

    async def test_a_node_that_cannot_be_read_has_not_failed(self):
        cluster = Cluster()
        cluster.pod("p", "odd")
        async with cluster.synced():
            cluster.watches.nodes.store.apply(Unreadable(Identity(name="odd", resource_version="99"), "odd"))
            assert cluster.on_failed_nodes() == []

    async def test_a_set_that_does_not_ask_has_none(self):
        cluster = Cluster(a_set(failurePolicy={"maxRestarts": 1}))
        cluster.pod("p", "gone")
        async with cluster.synced():
            assert cluster.on_failed_nodes() == []

    @pytest.mark.parametrize(
        ("changes", "kept"),
        [
            ({}, True),
            ({"node": ""}, False),
            ({"kind": "ReplicaSet"}, False),
            ({"phase": "Failed"}, False),
            ({"phase": "Failed", "deletionTimestamp": NOW}, True),
        ],
    )
    def test_which_pods_are_kept(self, changes, kept):
        phase = changes.pop("phase", "Running")
        body = pod_body("p", changes.pop("node", "n1"), **changes) | {"status": {"phase": phase}}
        found = bound_pod(msgspec.convert(body, DetailedPod))
        assert (found is not None) == kept
        if found is not None:
            assert (found.deleting, found.ended) == ("deletionTimestamp" in changes, phase == "Failed")


class TestWhatWakesASet:
    async def test_a_node_wakes_the_sets_with_pods_on_it_that_ask_for_it(self):
        cluster = Cluster(a_set(), a_set("other"), a_set("silent", failurePolicy={"maxRestarts": 1}))
        cluster.pod("p")
        cluster.pod("q", "n2", js="other")
        cluster.pod("r", js="silent")
        cluster.pod("s", js="unknown")
        async with cluster.synced():
            cluster.watches.feed(cluster.queue)
            assert await cluster.woken() == set()
            cluster.node("n1", taint())
            assert await cluster.woken() == {"js"}
            cluster.node("n1", taint(), status={"heartbeat": 1})
            assert await cluster.woken() == set(), "nothing of it that counts has changed"
            cluster.node("n1")
            assert await cluster.woken() == {"js"}
            cluster.api.drop("nodes", "n2", "")
            assert await cluster.woken() == {"other"}
        lists = [call for call in cluster.api.requests if call.verb == "list"]
        assert lists == [], "no list follows an event"

    async def test_a_pod_wakes_its_set_only_on_a_failed_node(self):
        cluster = Cluster()
        cluster.node("n1", taint())
        cluster.pod("p")
        cluster.pod("q", "n2")
        async with cluster.synced():
            cluster.watches.feed(cluster.queue)
            assert await cluster.woken() == {"js"}, "what has failed before"
            cluster.pod("q", "n2", deletionTimestamp=NOW)
            assert await cluster.woken() == set()
            cluster.pod("p", deletionTimestamp=NOW)
            assert await cluster.woken() == {"js"}
            cluster.api.drop("pods", "p")
            assert await cluster.woken() == {"js"}


class TestARead:
    async def test_it_shows_what_a_watch_that_is_behind_does_not(self):
        cluster = Cluster()
        cluster.pod("p")
        cluster.pod("q", "n2")
        async with cluster.synced():
            pass
        cluster.node("n1", taint())
        cluster.api.drop("nodes", "n2", "")
        assert cluster.on_failed_nodes() == [], "the watches have ended"
        await cluster.read("n1", "n2")
        assert cluster.on_failed_nodes() == [("p", "n1", UNREACHABLE, ADDED), ("q", "n2", "", NOW)]
        cluster.node("n1")
        cluster.node("n2")
        await cluster.read("n1", "n2", "never-seen")
        assert cluster.on_failed_nodes() == []

    async def test_so_it_does_of_pods(self):
        cluster = Cluster()
        cluster.node("n1", taint())
        for name in ("gone", "ended", "left", "other"):
            cluster.pod(name, js="other" if name == "other" else "js")
        async with cluster.synced():
            pass
        cluster.api.drop("pods", "gone")
        cluster.pod("ended", phase="Succeeded")
        cluster.pod("left", deletionTimestamp=NOW)
        cluster.pod("new")
        await cluster.read("n1")
        found = cluster.watches.failed_pods(cluster.jobsets.get("ns", "js"), NOW)
        assert {pod.name: pod.deleting for pod in found} == {"left": True, "new": False}
        assert cluster.watches.pods.store.get("ns", "other") is not None, "that of another set was not read"

    async def test_an_error_is_raised(self):
        class Silent(MemoryApi):
            async def send(self, _request):
                raise KubeError("no answer")

        with pytest.raises(KubeError):
            await NodeWatches(Client(Silent()), Store()).read(a_set(), ["n1"])


class TestTheReconciler:
    """One Job whose pod is on a node; the watches of nodes and pods show what the test puts into their stores."""

    async def on_a_node(self, *, deleting: bool = False, **spec) -> Blind:
        self.seconds = 0
        options = Options(wall_clock=lambda: START + timedelta(seconds=self.seconds))
        in_place = spec.get("failurePolicy", {}).get("restartStrategy") == "InPlaceRestart"
        blind = Blind(MemoryApi(), a_set(**spec), options, JobSetNodeFailure=True, InPlaceRestart=in_place)
        await blind.reconcile()
        blind.change_job("js-workers-0", status={"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"})
        job = blind.jobs.get("ns", "js-workers-0")
        body = pod_body("p", "n1", job_uid=job.metadata.uid, **({"deletionTimestamp": NOW} if deleting else {}))
        stored = blind.api.put("pods", "p", metadata=body["metadata"], spec=body["spec"], status=body["status"])
        self.nodes = blind.reconciler._caches.nodes
        self.nodes.pods.store.apply(bound_pod(msgspec.convert(stored, DetailedPod)))
        return blind

    async def test_a_node_that_is_gone_restarts_the_set_once_it_was_read(self):
        blind = await self.on_a_node()
        assert await blind.reconcile() == pytest.approx(30)
        reads = len(blind.api.requests)
        self.seconds = 30
        await blind.reconcile()
        assert [call.verb for call in blind.api.requests[reads:]].count("list") == 2
        status = blind.api.objects("jobsets")["ns", "js"]["status"]
        assert status["restarts"] == 1
        assert "pod p is on node n1, which does not exist since 2026-01-01T00:00:00Z" in str(status["conditions"])

    async def test_a_node_that_only_the_watch_misses_restarts_nothing(self):
        blind = await self.on_a_node()
        blind.api.put("nodes", "n1", "", metadata={"name": "n1", "namespace": ""}, spec={})
        await blind.reconcile()
        self.seconds = 30
        await blind.reconcile()
        assert blind.api.objects("jobsets")["ns", "js"]["status"].get("restarts", 0) == 0

    async def test_a_pod_that_nobody_ends_is_deleted_with_no_grace(self):
        blind = await self.on_a_node(deleting=True)
        await blind.reconcile()
        self.seconds = 30
        await blind.reconcile()
        [deletion] = [call for call in blind.api.requests if call.method == "DELETE" and call.path.endswith("/pods/p")]
        body = msgspec.json.decode(deletion.body)
        assert body["gracePeriodSeconds"] == 0
        assert body["preconditions"].keys() == {"uid"}
        assert self.nodes.pods.store.list() == []

    async def test_a_pod_that_its_job_replaces_is_released_from_it_once_it_is_deleted(self):
        blind = await self.on_a_node(failurePolicy={**WANTED, "restartStrategy": "InPlaceRestart"})
        mine = "example.com/mine"
        pod = blind.api.objects("pods")["ns", "p"]
        blind.api.put("pods", "p", **pod | {"metadata": pod["metadata"] | {"finalizers": [keys.JOB_TRACKING, mine]}})
        await blind.reconcile()
        self.seconds = 30
        await blind.reconcile()
        methods = [call.method for call in blind.api.requests if call.path.endswith("/pods/p")]
        assert methods == ["DELETE", "PATCH"], "until it is being deleted it may end by itself, and its Job counts that"
        meta = blind.api.objects("pods")["ns", "p"]["metadata"]
        assert (meta["finalizers"], "deletionTimestamp" in meta) == ([mine], True)
        assert blind.api.objects("jobsets")["ns", "js"]["status"].get("restarts", 0) == 0

    async def test_one_that_was_deleted_and_not_released_is_released_by_the_next_reconcile(self):
        blind = await self.on_a_node(failurePolicy={**WANTED, "restartStrategy": "InPlaceRestart"})
        meta = blind.api.objects("pods")["ns", "p"]["metadata"]
        blind.api.put("pods", "p", metadata=meta | {"finalizers": [keys.JOB_TRACKING]})
        await blind.reconcile()
        self.seconds = 30
        blind.api.answering = refuse(500, verb="patch", path="/pods/p")
        with pytest.raises(FailedWrites):
            await blind.reconcile()
        blind.api.answering = serve
        await blind.reconcile()
        assert blind.api.objects("pods") == {}

    async def test_one_that_has_gone_meanwhile_counts_as_deleted(self):
        blind = await self.on_a_node(deleting=True)
        blind.api.drop("pods", "p")
        await blind.reconcile()
        self.seconds = 30
        await blind.reconcile()
        assert self.nodes.pods.store.list() == []


class TestWhatItCosts:
    def test_without_the_gate_nothing_is_watched(self):
        assert Watches(Client(MemoryApi()), FeatureGates({})).nodes is None

    def test_a_cached_node_costs_at_most_a_kibibyte(self):
        """15,000 of them at most 15 MiB, whatever else they carry, and with two taints each."""
        store, decoder = NodeWatches(Client(MemoryApi()), Store()).nodes.store, msgspec.json.Decoder(DetailedNode)
        keep = node_transform(frozenset({UNREACHABLE, BROKEN}))
        lines = [node_json(number) for number in range(MANY)]
        assert bytes_per_object(store, lines, lambda line: keep(decoder.decode(line))) <= 1024
        assert len(store.list()[7].taints) == 2

    def test_a_cached_pod_costs_at_most_a_kibibyte(self):
        store, decoder = NodeWatches(Client(MemoryApi()), Store()).pods.store, msgspec.json.Decoder(DetailedPod)
        lines = [msgspec.json.encode(large_pod(number)) for number in range(MANY)]
        assert bytes_per_object(store, lines, lambda line: bound_pod(decoder.decode(line))) <= 1024
        assert len(store) == MANY


def node_json(number: int) -> bytes:
    name = f"gke-cluster-with-a-long-name-pool-{number:05d}-0a1b2c3d"
    meta = {
        "name": name,
        "uid": f"{number:08d}-aaaa-4222-8333-444444444444",
        "resourceVersion": str(10**9 + number),
        "labels": {f"cloud.google.com/label-{n}": "v" * 40 for n in range(36)},
    }
    taints = [taint(UNREACHABLE), taint(BROKEN), taint("other")]
    status = {"images": [{"names": [f"registry.example/{n}" * 5], "sizeBytes": n} for n in range(50)]}
    return msgspec.json.encode({"metadata": meta, "spec": {"taints": taints}, "status": status})


def large_pod(number: int) -> dict:
    name = f"some-rather-long-name-of-a-training-workers-{number}-0-abcde"
    node = f"gke-cluster-with-a-long-name-pool-{number:05d}-0a1b2c3d"
    job = f"{number:08d}-1111-4222-8333-444444444444"
    uid, version = f"{number:08d}-aaaa-4222-8333-444444444444", str(10**9 + number)
    return pod_body(name, node, job_uid=job, uid=uid, resourceVersion=version, creationTimestamp=NOW)


def test_a_pod_on_a_failed_node_says_all_that_is_kept_of_it():
    store = Store[JobSet]()
    store.apply(a_set())
    watches = NodeWatches(Client(MemoryApi()), store)
    body = pod_body("p", "n1", uid="pod-uid", creationTimestamp=ADDED, deletionTimestamp=NOW)
    watches.pods.store.apply(bound_pod(msgspec.convert(body | {"status": {"phase": "Failed"}}, DetailedPod)))
    assert watches.failed_pods(store.get("ns", "js"), LATER) == (
        PodAtRisk("p", "pod-uid", "job-uid", "n1", "", LATER, ADDED, deleting=True, ended=True),
    )
