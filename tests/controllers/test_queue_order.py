"""Which JobSet is looked at first where many wait for a worker."""

import asyncio
from typing import Any

import pytest

from api import keys
from api.features import FeatureGates
from controllers.jobset.watches import Watches
from kube.client import Client
from kube.controller import Request
from kube.workqueue import COUNTED, OLDEST_EVERY, WorkQueue
from tests.support.model.memory_api import MemoryApi

pytestmark = pytest.mark.looptime

RUNS = {"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"}
FAILS = {"conditions": [{"type": "FailureTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}


class Namespace:
    """JobSets in an API server, each with a Job and a Service, and the queue of a manager that watches them."""

    def __init__(self, **gates: bool) -> None:
        self.api, self.queue = MemoryApi(), WorkQueue[Request]()
        self.watches = Watches(Client(self.api), FeatureGates(gates))

    def put(self, plural: str, name: str, generation: int = 1, **fields: Any) -> None:
        owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": name, "uid": name}
        meta = {"labels": {keys.JOBSET_NAME: name}, "ownerReferences": [{**owner, "controller": True}]}
        meta["generation"] = generation
        self.api.put(plural, name, metadata={"uid": name} if plural == "jobsets" else meta, **fields)

    async def order(self, *names: str) -> list[str]:
        """Whose turn it is, one after the other; so many wait."""
        async with asyncio.timeout(10):
            requests = [await self.queue.get() for _ in names]
        for request in requests:
            self.queue.done(request)
        return [request.name for request in requests]


@pytest.mark.parametrize(
    "urgent",
    [
        pytest.param(lambda space: space.put("jobsets", "urgent", spec={}), id="a new JobSet"),
        pytest.param(lambda space: space.put("jobs", "urgent", status=FAILS), id="a Job fails"),
        pytest.param(lambda space: space.put("jobs", "urgent", 2, spec={"suspend": True}), id="a Job is suspended"),
        pytest.param(lambda space: space.api.drop("jobs", "urgent"), id="a Job is gone"),
        pytest.param(lambda space: space.api.drop("services", "urgent"), id="a Service is gone"),
    ],
)
async def test_what_asks_for_a_decision_goes_before_counts(urgent):
    """Of 150 small sets that are created at once, the last does not wait until the first are counted."""
    space, names = Namespace(), ("idle", "starts", "created", "urgent")
    assert len(names) == OLDEST_EVERY, "after as many, the oldest has had its turn"
    for name in names:
        space.put("jobsets", name, spec={"network": {"enableDNSHostnames": True}})
    for name in ("starts", "urgent"):
        space.put("jobs", name, spec={}, status={})
        space.put("services", name, spec={})
    async with asyncio.TaskGroup() as group:
        running = group.create_task(space.watches.run())
        await space.watches.wait_synced(60)
        space.watches.feed(space.queue)
        await space.order(*names)
        space.put("jobs", "starts", spec={}, status=RUNS)
        space.put("jobs", "created", spec={}, status={})
        space.put("services", "created", spec={})
        await asyncio.sleep(1)
        urgent(space)
        await asyncio.sleep(1)
        assert await space.order("urgent", "starts", "created") == ["urgent", "starts", "created"]
        running.cancel()


async def test_jobs_that_start_together_are_counted_together():
    space, clock = Namespace(), asyncio.get_running_loop().time
    space.put("jobsets", "js", spec={})
    async with asyncio.TaskGroup() as group:
        running = group.create_task(space.watches.run())
        await space.watches.wait_synced(60)
        space.watches.feed(space.queue)
        await space.order("js")
        began = clock()
        for ready in range(1, 5):
            space.put("jobs", "js", spec={}, status={**RUNS, "ready": ready})
            await asyncio.sleep(COUNTED.delay / 5)
        await space.order("js")
        assert clock() - began == pytest.approx(COUNTED.delay, abs=0.001)
        assert len(space.queue) == 0
        space.put("jobs", "js", spec={}, status=RUNS)
        space.put("jobs", "js", spec={}, status=FAILS)
        began = clock()
        await space.order("js")
        assert clock() - began < COUNTED.delay / 5, "a failure does not wait for counts"
        running.cancel()


HELD_BACK = {"spec": {"schedulingGates": [{"name": keys.SPARE_GATE}]}}
NO_NODE = {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}
HOLDS = {"spec": {"nodeName": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


@pytest.mark.parametrize(
    ("group", "pod"),
    [("w", HELD_BACK), ("w", NO_NODE), ("spare", HOLDS)],
    ids=["held back", "finds no node", "a ready spare"],
)
async def test_only_pods_that_need_or_hold_the_place_of_a_spare_wake_their_set(group, pod):
    """So a large group starts without a look at its set for each of its pods."""
    space = Namespace(JobSetSpares=True)

    def put(jobset: str, group: str, **pod: Any) -> None:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
        labels = {keys.JOBSET_NAME: jobset, keys.JOBSET_UID: jobset, keys.REPLICATED_JOB_NAME: group, keys.SPARES: "w"}
        space.api.put("pods", jobset, metadata={"labels": labels, "ownerReferences": [owner]}, **pod)

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(space.watches.run())
        await space.watches.wait_synced(60)
        space.watches.feed(space.queue)
        put("starts", "w", spec={})
        put("needs", group, **pod)
        assert await space.order("needs") == ["needs"]
        running.cancel()
