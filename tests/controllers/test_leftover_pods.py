"""What is known of pods that outlive their Jobs, over an API server in memory: lists, watches, their ends and their faults."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
import pytest
from msgspec.structs import replace

from api import keys
from api.jobset import JobSet
from api.leftovers import LeftoverPod
from controllers.jobset import leftover_pods
from controllers.jobset.leftover_pods import LeftoverPods
from controllers.jobset.memory import Memories
from controllers.jobset.old_pods import UID_LENGTH, old_pod_of
from kube.client import Client
from kube.controller import Request
from kube.options import METADATA, METADATA_LIST
from kube.transport import Request as Call
from kube.workqueue import WorkQueue
from tests.support.beside import beside
from tests.support.model.faults import FaultyTransport, Refused
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.stored_sets import jobset, rjob

REQUEST = Request("ns", "js")


def attempt(number: int, js: JobSet | None = None) -> JobSet:
    js = js or jobset(rjob("a", 4))
    return replace(js, status=replace(js.status, restarts=number))


def put(
    api: MemoryApi, job: str, number: int = 0, *, uid: str = "js-uid", controller: bool = True, name: str = ""
) -> str:
    """A pod of a Job and an attempt; its name."""
    name = name or f"{job}-0-{number}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-of-{job}", "controller": controller}
    labels = {keys.JOBSET_NAME: "js", keys.JOBSET_UID: uid, keys.RESTART_ATTEMPT: str(number)}
    api.put("pods", name, metadata={"labels": labels, "ownerReferences": [owner]})
    return name


def change(api: MemoryApi, pod: str, phase: str = "Running", **meta: object) -> None:
    there = api.objects("pods")["ns", pod]["metadata"]
    api.put("pods", pod, metadata={**there, **meta}, status={"phase": phase})


@dataclass
class Running:
    """`queued` gives the JobSets that were queued, in order."""

    of: LeftoverPods
    memories: Memories
    queue: WorkQueue[Request]

    def follow(self, js: JobSet, *, relist: bool) -> None:
        """As at the end of a reconcile, which begins with a record of the JobSet."""
        self.memories.get_or_create(Request(js.metadata.namespace, js.metadata.name), js.metadata.uid)
        self.of.follow(js, relist=relist)

    def names(self, js: JobSet) -> set[str] | None:
        """Of Jobs with leftover pods, as far as they are known."""
        owners = self.of.owners(js)
        return None if owners is None else set(owners)

    async def queued(self) -> Request:
        async with asyncio.timeout(5):
            request = await self.queue.get()
        self.queue.done(request)
        return request

    async def knows(self, js: JobSet, names: set[str]) -> None:
        """Every change queues its JobSet."""
        while self.names(js) != names:
            assert await self.queued() == REQUEST


@contextlib.asynccontextmanager
async def running(transport: object) -> AsyncIterator[Running]:
    """Nothing is left of it after the block."""
    before = asyncio.all_tasks()
    memories, queue = Memories(), WorkQueue[Request]()
    of = LeftoverPods(Client(transport), memories)
    of.feed(queue)
    async with beside(of.run()):
        yield Running(of, memories, queue)
    assert asyncio.all_tasks() == before


def reads(api: MemoryApi) -> list[Call]:
    return [call for call in api.requests if call.path.endswith("/pods")]


async def settled() -> None:
    """All that is ready to run has run."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_long_uid_in_an_owner_reference_takes_no_memory():
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "js-a-0", "uid": "x" * 10**6, "controller": True}
    pod = msgspec.convert({"metadata": {"name": "p", "namespace": "ns", "ownerReferences": [owner]}}, LeftoverPod)
    kept = old_pod_of(attempt(1))(pod)
    assert kept is not None
    assert len(kept.job_uid) == UID_LENGTH


@pytest.mark.parametrize("streaming", [True, False])
async def test_jobs_whose_pods_of_earlier_attempts_are_left(streaming: bool):
    api = MemoryApi(streaming=streaming)
    first, second = put(api, "js-a-0", 0), put(api, "js-a-1", 1)
    put(api, "js-a-2", 2)
    put(api, "js-a-3", 0, uid="other")
    js = attempt(2)
    async with running(api) as process:
        assert process.names(js) is None, "the pods are not followed yet"
        process.follow(js, relist=True)
        assert process.names(js) is None
        await process.knows(js, {"js-a-0", "js-a-1"})
        api.drop("pods", first)
        await process.knows(js, {"js-a-1"})
        api.drop("pods", second)
        await process.knows(js, set())


async def test_only_metadata_of_one_namespace_is_asked_for():
    api = MemoryApi(streaming=False)
    async with running(api) as process:
        process.follow(attempt(1), relist=True)
        await process.knows(attempt(1), set())
        await settled()
    assert {call.path for call in reads(api)} == {"/api/v1/namespaces/ns/pods"}
    assert {call.accept for call in reads(api)} <= {METADATA, METADATA_LIST}
    wanted = f"{keys.JOBSET_UID}=js-uid,{keys.RESTART_ATTEMPT} notin (1)"
    assert {dict(call.query)["labelSelector"] for call in reads(api)} == {wanted}


async def test_a_pod_that_begins_or_changes_is_no_reason_to_plan():
    api, js = MemoryApi(), attempt(1)
    pod = put(api, "js-a-0")
    async with running(api) as process:
        process.follow(js, relist=True)
        await process.knows(js, {"js-a-0"})
        put(api, "js-a-1")
        api.put("pods", pod, metadata={**api.objects("pods")["ns", pod]["metadata"], "deletionTimestamp": "now"})
        await settled()
        assert process.names(js) == {"js-a-0", "js-a-1"}
        assert not len(process.queue)
        api.drop("pods", pod)
        assert await process.queued() == REQUEST


async def test_a_pod_that_no_job_controls_is_not_waited_for():
    api, js = MemoryApi(), attempt(1)
    put(api, "js-a-0", controller=False)
    async with running(api) as process:
        process.follow(js, relist=True)
        await process.knows(js, set())
        process.of.end_when_gone(js)
        assert process.names(js) == set()


async def test_two_pods_of_a_job_are_waited_for():
    api, js = MemoryApi(), attempt(1)
    pods = [put(api, "js-a-0", name=name) for name in ("x", "y")]
    async with running(api) as process:
        process.follow(js, relist=True)
        await process.knows(js, {"js-a-0"})
        for pod in pods:
            assert process.names(js) == {"js-a-0"}
            api.drop("pods", pod)
            assert await process.queued() == REQUEST
        assert process.names(js) == set()


async def test_what_happens_while_the_watch_is_cut_is_known_after_it():
    api, js = MemoryApi(), attempt(1)
    pod = put(api, "js-a-0")
    async with running(api) as process:
        process.follow(js, relist=True)
        await process.knows(js, {"js-a-0"})
        api.cut_streams()
        api.drop("pods", pod)
        put(api, "js-a-1")
        api.compact()
        assert process.names(js) == {"js-a-0"}, "what was known holds until more is"
        await process.knows(js, {"js-a-1"})


async def test_after_a_new_request_nothing_is_known_until_there_is_another_list():
    """A watch may be behind: pods that were made before Jobs were deleted may not have been reported yet."""
    api, js = MemoryApi(), attempt(1)
    async with running(api) as process:
        process.follow(js, relist=True)
        await process.knows(js, set())
        put(api, "js-a-0")
        process.follow(js, relist=True)
        assert process.names(js) is None
        await process.knows(js, {"js-a-0"})
        process.follow(js, relist=False)
        assert process.names(js) == {"js-a-0"}, "not asked again without need"
        await settled()
    assert len(reads(api)) == 2


async def test_another_attempt_has_another_watch():
    api = MemoryApi()
    put(api, "js-a-0", 0)
    put(api, "js-a-1", 1)
    async with running(api) as process:
        process.follow(attempt(1), relist=True)
        await process.knows(attempt(1), {"js-a-0"})
        assert process.names(attempt(2)) is None
        process.follow(attempt(2), relist=False)
        await process.knows(attempt(2), {"js-a-0", "js-a-1"})
        assert process.names(attempt(1)) is None
        await settled()
        assert _watches() == 1


async def test_it_is_over_when_the_last_pod_is_gone():
    api, js = MemoryApi(), attempt(1)
    pod = put(api, "js-a-0")
    async with running(api) as process:
        process.follow(js, relist=True)
        process.of.end_when_gone(js)
        await process.knows(js, {"js-a-0"})
        process.of.end_when_gone(js)
        await settled()
        assert _watches() == 1, "the pod is left"
        api.drop("pods", pod)
        await process.knows(js, set())
        process.of.end_when_gone(js)
        process.of.end_when_gone(js)
        await settled()
        assert _watches() == 0
        assert process.names(js) == set(), "and stays known"
        put(api, "js-a-1")
        process.follow(js, relist=False)
        assert process.names(js) is None, "a late Job may have come with pods"
        await process.knows(js, {"js-a-1"})


async def test_a_jobset_that_is_gone_is_forgotten():
    api, js = MemoryApi(), attempt(1)
    async with running(api) as process:
        process.follow(js, relist=True)
        process.memories.forget(REQUEST)
        process.follow(js, relist=True)
        await process.knows(js, set())
        process.memories.forget(REQUEST)
        process.memories.forget(REQUEST)
        await settled()
        assert _watches() == 0
        assert process.names(js) is None
        again = replace(js, metadata=replace(js.metadata, uid="another"))
        put(api, "js-a-0", uid="another")
        process.follow(again, relist=False)
        await process.knows(again, {"js-a-0"})
        assert process.names(js) is None


async def test_a_reconcile_of_an_earlier_jobset_does_not_touch_what_is_known_of_a_new_one():
    """The reconcile of the one that is deleted may end after the watch has shown another of its name."""
    api, old = MemoryApi(), attempt(1)
    new = replace(old, metadata=replace(old.metadata, uid="another"))
    put(api, "js-a-0", uid="another")
    async with running(api) as process:
        process.follow(old, relist=True)
        process.follow(new, relist=True)
        await process.knows(new, {"js-a-0"})
        process.of.follow(old, relist=True)
        process.of.end_when_gone(old)
        assert process.names(old) is None
        assert process.names(new) == {"js-a-0"}
        await settled()
        assert _watches() == 1


async def test_one_set_does_not_end_the_watch_of_another():
    api, js = MemoryApi(), attempt(1)
    other = replace(js, metadata=replace(js.metadata, name="other", uid="other"))
    put(api, "other-a-0", uid="other")
    async with running(api) as process:
        process.follow(other, relist=True)
        process.follow(js, relist=True)
        while process.names(js) is None:
            await process.queued()
        process.of.end_when_gone(js)
        process.memories.forget(REQUEST)
        while process.names(other) is None:
            await process.queued()
        assert process.names(other) == {"other-a-0"}


@pytest.mark.looptime
async def test_a_list_that_does_not_come_is_reported(caplog: pytest.LogCaptureFixture):
    api, js = MemoryApi(), attempt(1)
    refused = [True]
    transport = FaultyTransport(api, lambda _: Refused() if refused[0] else None)
    async with running(transport) as process:
        process.follow(js, relist=True)
        await asyncio.sleep(leftover_pods.FIRST_LIST_TIMEOUT + 1)
        assert "ns/js cannot go on with its restart" in caplog.text
        assert process.names(js) is None
        refused[0] = False
        await asyncio.sleep(leftover_pods.FIRST_LIST_TIMEOUT)
        assert process.names(js) == set()


def _watches() -> int:
    return sum(task.get_name().startswith("old-pods-of-") for task in asyncio.all_tasks())


class TestWhatCanBeForged:
    """Labels, owner and finalizers of a pod are what somebody wrote who may create pods."""

    @pytest.mark.parametrize(
        "owner",
        [
            {"name": "js-b-0"},
            {"name": "js-a-x"},
            {"name": "js-a-"},
            {"name": "other-a-0"},
            {"kind": "JobSet"},
            {"kind": "ReplicaSet", "apiVersion": "apps/v1"},
            {"apiVersion": "batch.example.com/v1"},
            {"controller": False},
        ],
    )
    async def test_a_pod_of_no_job_of_the_set_is_not_waited_for(self, owner):
        api, js = MemoryApi(), attempt(1)
        name = put(api, "js-a-0")
        [reference] = api.objects("pods")["ns", name]["metadata"]["ownerReferences"]
        change(api, name, ownerReferences=[reference | owner])
        async with running(api) as process:
            process.follow(js, relist=True)
            await process.knows(js, set())

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    async def test_a_pod_that_has_ended_is_not_waited_for_whatever_keeps_it(self, phase):
        api, js = MemoryApi(), attempt(1)
        there = put(api, "js-a-0")
        ended = put(api, "js-a-1")
        change(api, ended, phase, finalizers=["example.com/mine"])
        async with running(api) as process:
            process.follow(js, relist=True)
            await process.knows(js, {"js-a-0"})
            change(api, there, phase, finalizers=["example.com/mine"])
            assert await process.queued() == REQUEST
            await process.knows(js, set())

    @pytest.mark.parametrize(("grace", "left"), [(30, {"js-a-0"}), (0, set()), (None, {"js-a-0"})])
    async def test_a_pod_that_only_a_finalizer_keeps_is_not_waited_for(self, grace, left):
        """The API server would have removed it: its containers have ended, or it never had a node."""
        api, js = MemoryApi(), attempt(1)
        pod = put(api, "js-a-0")
        ending = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/mine"]}
        change(api, pod, **ending, **({} if grace is None else {"deletionGracePeriodSeconds": grace}))
        async with running(api) as process:
            process.follow(js, relist=True)
            await process.knows(js, left)

    async def test_the_index_of_a_job_that_the_set_has_no_more_may_be_waited_for(self):
        """With ElasticJobSet the set may have been larger, and may become so again."""
        api, js = MemoryApi(), attempt(1)
        put(api, "js-a-77")
        async with running(api) as process:
            process.follow(js, relist=True)
            await process.knows(js, {"js-a-77"})
