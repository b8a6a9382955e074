"""Pods of sets without groups that find no node: when somebody looks, how often, and what is warned of."""

import asyncio
from typing import Any

import msgspec
import pytest

from api import keys
from api.pod import DetailedPod
from controllers.gang.stalled import Reports
from controllers.jobset.unscheduled_pods import FIRST_CHECK, UnscheduledPods, describe_unscheduled
from controllers.planning.actions import Event
from kube.client import Client
from tests.support.model.memory_api import MemoryApi, refuse, serve
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

JSON = dict[str, Any]
pytestmark = pytest.mark.looptime
FULL = "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No victims found."


def waiting(**spec: Any) -> World:
    """A set with four pods, none of which is ready."""
    world = World(jobset(rjob("workers", 2, parallelism=2, completions=2), **spec))
    world.settle()
    world.run(ready=False)
    world.settle()
    return world


def pod(name: str, said: str = FULL, node: str = "", **fields: JSON) -> JSON:
    """A pending pod, and what the scheduler says of it."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    meta = {"name": name, "namespace": "ns", **fields.get("metadata", {})}
    status = {"phase": "Pending", "conditions": [condition] if said else [], **fields.get("status", {})}
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": status}


class Looks:
    """A watch over one set, whose pods the API server has."""

    def __init__(self, world: World, *pods: JSON) -> None:
        self.world = world
        self.api = MemoryApi()
        self.set_uid = world.js.metadata.uid
        for body in pods:
            self.put(body)
        self.events: list[Event] = []
        self.unscheduled = UnscheduledPods(Client(self.api), lambda _js, event: self.events.append(event))
        self.reports = Reports()

    def put(self, body: JSON) -> None:
        meta = {"labels": {keys.JOBSET_UID: self.set_uid}, **body["metadata"]}
        name = meta.pop("name")
        job = self.world.jobs.get(name.rpartition("-")[0])
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": True}
        meta["ownerReferences"] = [{**owner, "uid": job["metadata"]["uid"] if job else "invented"}]
        self.api.put("pods", name, metadata=meta, spec=body["spec"], status=body["status"])

    async def look(self) -> float | None:
        return await self.unscheduled.check(self.world.observe(), self.reports)

    async def after(self, seconds: float) -> float | None:
        await asyncio.sleep(seconds)
        return await self.look()


async def test_a_set_that_starts_in_time_costs_no_call():
    looks = Looks(waiting(), pod("js-workers-0-0"))
    await looks.look()
    await looks.after(FIRST_CHECK - 1)
    looks.world.run()
    looks.world.settle()
    assert await looks.after(FIRST_CHECK) is None
    assert (looks.api.requests, looks.events) == ([], [])


async def test_only_pending_pods_without_a_node_are_listed():
    looks = Looks(waiting(), pod("js-workers-0-0", node="n1"), pod("js-workers-0-1", status={"phase": "Failed"}))
    await looks.look()
    await looks.after(FIRST_CHECK)
    [request] = looks.api.requests
    assert dict(request.query) == {
        "labelSelector": f"{keys.JOBSET_UID}={looks.set_uid}",
        "fieldSelector": "status.phase=Pending,spec.nodeName=",
        "limit": "100",
    }
    assert looks.events == []


async def test_an_api_server_that_fails_is_asked_again_later():
    looks = Looks(waiting(), pod("js-workers-0-0"))
    looks.api.answering = refuse(500)
    await looks.look()
    assert await looks.after(FIRST_CHECK) == 2 * FIRST_CHECK
    assert looks.events == []
    looks.api.answering = serve
    await looks.after(2 * FIRST_CHECK)
    assert len(looks.events) == 1


@pytest.mark.parametrize("spec", [{"suspend": True}, {"successPolicy": {"operator": "Any"}}])
async def test_sets_that_are_suspended_or_have_ended_are_left_alone(spec: JSON):
    world = waiting(**{key: value for key, value in spec.items() if key != "suspend"})
    if "suspend" in spec:
        world.edit(suspend=True)
    else:
        world.finish("js-workers-0")
    world.settle()
    looks = Looks(world, pod("js-workers-1-0"))
    assert await looks.look() is None
    assert looks.api.requests == []


def said(*pods: JSON, more: bool = False) -> str:
    return describe_unscheduled([msgspec.convert(body, DetailedPod) for body in pods], more=more)


def test_pods_of_which_the_scheduler_says_nothing_are_not_reported():
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "gated"}
    assert said(pod("a", ""), pod("b", "", status={"conditions": [gated]})) == ""
    assert said() == ""


def test_leaders_of_exclusive_placement_have_an_event_of_their_own():
    ours = {keys.JOBSET_NAME: "js", keys.EXCLUSIVE_TOPOLOGY: "rack"}
    leader = pod("a", metadata={"annotations": {**ours, keys.COMPLETION_INDEX: "0"}})
    follower = pod("b", metadata={"annotations": {**ours, keys.COMPLETION_INDEX: "1"}})
    assert said(leader) == ""
    assert said(leader, follower).startswith("pod b is not scheduled: ")


def test_there_may_be_more_pods_than_were_listed():
    assert said(pod("a"), more=True).endswith("; there are more than 100 pods without a node")


def test_the_note_fits_into_an_event():
    assert len(said(pod("p" * 63, "x" * 5000), more=True)) < 1024
