"""Which labels of nodes are kept, and how often that lists the nodes again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from api import keys
from api.batch import Job
from api.exclusive import Domain, NoDomain
from controllers.placement.controller import JobRequest, PlacementReconciler
from controllers.placement.domains import DomainMap
from controllers.placement.watches import COMMON_KEYS, MAX_KEYS, RELIST_PAUSE, PlacementWatches
from kube.client import Client
from kube.informer import Informer
from kube.options import METADATA
from kube.resources import JOBS
from tests.support.beside import beside
from tests.support.model.blind import RecordedEvents
from tests.support.model.memory_api import MemoryApi
from tests.support.model.placement_bench import job_of
from tests.support.objects.placement import list_empty, pod_json, show

pytestmark = pytest.mark.looptime

ENOUGH = 3 * RELIST_PAUSE


class Cluster:
    """An API server in memory with one node that has every label, and the watches of it."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        self.client = Client(self.api)
        self.watches = PlacementWatches(self.client)
        self.watches.begin()
        self.where = DomainMap(self.watches.leaders.store, self.watches.nodes.store)
        labels = {f"key-{number}": f"value-{number}" for number in range(200)} | dict.fromkeys(COMMON_KEYS, "common")
        self.api.put("nodes", "n", "", metadata={"name": "n", "namespace": "", "labels": labels})

    def lead(self, key: str, job: str, namespace: str = "ns", node: str = "n", **more: Any) -> None:
        """A leader that is placed by this key, on the node."""
        pod = pod_json(job, spec={"nodeName": node} if node else {}, **more)
        pod["metadata"]["annotations"][keys.EXCLUSIVE_TOPOLOGY] = key
        pod["metadata"]["labels"] |= {keys.JOBSET_NAME: "js", keys.COMPLETION_INDEX: "0"}
        pod["metadata"]["namespace"] = namespace
        self.api.put("pods", pod["metadata"].pop("name"), namespace, **pod)

    def lists(self) -> int:
        """How often the nodes were asked for in full."""
        asked = [request for request in self.api.requests if request.path.endswith("/nodes")]
        return len([request for request in asked if "sendInitialEvents" in dict(request.query)])


@contextlib.asynccontextmanager
async def watching() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    async with beside(cluster.watches.run()):
        await cluster.watches.wait_synced(20)
        yield cluster


async def test_nodes_and_followers_are_asked_for_by_metadata_leaders_in_full():
    async with watching() as cluster:
        forms = {
            (request.path.rsplit("/", 1)[1], dict(request.query).get("labelSelector", "")): request.accept
            for request in cluster.api.requests
        }
        assert forms == {
            ("nodes", ""): METADATA,
            ("pods", f"{keys.JOBSET_NAME},{keys.AWAITS_LEADER}"): METADATA,
            ("pods", f"{keys.JOBSET_NAME},{keys.COMPLETION_INDEX}=0"): "application/json",
        }


@pytest.mark.parametrize("key", COMMON_KEYS)
async def test_common_keys_need_no_other_list(key):
    async with watching() as cluster:
        assert cluster.where.label(key, "n") == "common"
        cluster.lead(key, "j")
        await asyncio.sleep(ENOUGH)
        assert cluster.where.find("ns", "uid-j", key) == Domain("common", "j-0-abcde", "n")
        assert cluster.lists() == 1


async def test_leaders_that_were_there_before_need_no_second_list():
    cluster = Cluster()
    cluster.lead("key-7", "j")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(cluster.watches.run())
        await cluster.watches.wait_synced(20)
        await asyncio.sleep(ENOUGH)
        assert cluster.where.label("key-7", "n") == "value-7"
        assert cluster.lists() <= 2
        task.cancel()


async def test_until_the_labels_are_read_the_answer_says_so():
    async with watching() as cluster:
        answers: list[Domain | NoDomain] = []
        cluster.watches.leaders.on_event(lambda *_: answers.append(cluster.where.find("ns", "uid-j", "key-7")))
        cluster.lead("key-7", "j")
        await asyncio.sleep(1)
        assert isinstance(answers[0], NoDomain)
        assert answers[0].reason.endswith("whose labels are being read")


async def test_invented_keys_are_bounded_in_number_and_in_lists():
    async with watching() as cluster:
        for number in range(100):
            cluster.lead(f"key-{number}", f"j{number}")
            await asyncio.sleep(0.3)
        await asyncio.sleep(ENOUGH)
        [node] = cluster.watches.nodes.store.list()
        assert len(node.kept_keys) == len(COMMON_KEYS) + MAX_KEYS
        assert node.label(COMMON_KEYS[0]) == "common"
        assert cluster.lists() <= 1 + MAX_KEYS
        assert cluster.where.label("key-0", "n") == "value-0", "the first are known"


async def test_a_namespace_that_uses_all_keys_leaves_the_others_their_share():
    """And does not take them back, however often it asks: each gets as many as there are for all."""

    async with watching() as cluster:
        for number in range(5 * MAX_KEYS):
            cluster.lead(f"key-{number}", f"j{number}")
        await asyncio.sleep(ENOUGH)
        for number in range(100, 100 + MAX_KEYS):
            cluster.lead(f"key-{number}", f"theirs-{number}", "other")
            await asyncio.sleep(RELIST_PAUSE)
            for again in range(5 * MAX_KEYS):
                cluster.watches.keep_label(cluster.watches.leaders.store.get("ns", f"j{again}-0-abcde"))
        lists = cluster.lists()
        await asyncio.sleep(ENOUGH)
        [node] = cluster.watches.nodes.store.list()
        theirs = [key for key in node.kept_keys if key in {f"key-{n}" for n in range(100, 200)}]
        assert len(node.kept_keys) == len(COMMON_KEYS) + MAX_KEYS
        assert len(theirs) in {MAX_KEYS // 2 - 1, MAX_KEYS // 2}
        assert cluster.where.find("other", "uid-theirs-100", "key-100") == Domain(
            "value-100", "theirs-100-0-abcde", "n"
        )
        assert cluster.lists() <= lists + 1


async def test_a_label_that_no_node_had_is_read_once_one_gets_it():
    async with watching() as cluster:
        cluster.lead("row", "k")
        await asyncio.sleep(ENOUGH)
        cluster.api.put("nodes", "n", "", metadata={"name": "n", "namespace": "", "labels": {"row": "8"}})
        await asyncio.sleep(ENOUGH)
        assert cluster.where.find("ns", "uid-k", "row") == Domain("8", "k-0-abcde", "n")


async def test_what_is_counted_of_leaders_goes_with_them():
    async with watching() as cluster:
        for number in range(30):
            cluster.lead(f"key-{number}", f"j{number}", f"ns-{number % 3}")
        await asyncio.sleep(1)
        for number in range(30):
            cluster.api.drop("pods", f"j{number}-0-abcde", f"ns-{number % 3}")
        await asyncio.sleep(1)
        assert cluster.watches._leader_counts == {}


async def test_one_key_too_many_is_refused_without_a_list_until_another_is_free():
    """Those of one tenant cannot have the nodes listed for ever, nor push out what others are placed by."""

    async with watching() as cluster:
        for number in range(MAX_KEYS):
            cluster.lead(f"key-{number}", f"j{number}")
        await asyncio.sleep(ENOUGH)
        lists = cluster.lists()
        cluster.lead("key-99", "late")
        await asyncio.sleep(1)
        jobs = Informer(cluster.client, JOBS, Job)
        list_empty(jobs)
        show(jobs, job_of("late"))
        reported = RecordedEvents()
        reconciler = PlacementReconciler(cluster.client, cluster.watches, jobs, reported)
        late = JobRequest("ns", "late", "uid-late")
        for _ in range(5):
            for number in range(MAX_KEYS):
                await reconciler.reconcile(JobRequest("ns", f"j{number}", f"uid-j{number}"))
            wait = (await reconciler.reconcile(late)).requeue_after
            assert wait is not None
            await asyncio.sleep(wait)
        assert cluster.lists() == lists
        [(kind, reason, note)] = reported.events
        assert (kind, reason) == ("Warning", keys.PLACEMENT_PENDING)
        assert "too many topologies" in note
        cluster.api.drop("pods", "j3-0-abcde")
        await asyncio.sleep(1)
        await reconciler.reconcile(late)
        await asyncio.sleep(ENOUGH)
        assert cluster.where.find("ns", "uid-late", "key-99") == Domain("value-99", "late-0-abcde", "n")
        assert cluster.where.find("ns", "uid-j0", "key-0") == Domain("value-0", "j0-0-abcde", "n")
