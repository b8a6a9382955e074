"""Gangs that kube-scheduler reports nothing about: when somebody looks, how often, and what is warned of."""

import asyncio
from typing import Any

import pytest

from api import keys
from controllers.gang.stalled import CHECK_INTERVAL, FIRST_REPORT_SECONDS, Reports, StalledGangs, stalled_trees
from controllers.planning.actions import Event
from kube.client import Client
from tests.support.model.memory_api import MemoryApi, refuse
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

JSON = dict[str, Any]
pytestmark = pytest.mark.looptime
EACH_JOB = {"targetReplicatedJobs": ["workers"], "job": {}}
NESTED = {"schedulingPolicy": {"gang": {}}, "replicatedJobs": [EACH_JOB]}


def waiting(scheduling: JSON | None = None, jobs: int = 2, seconds: float = FIRST_REPORT_SECONDS, **spec: Any) -> World:
    """A set whose pods all have existed for so long, and whose groups the scheduler has not reported on."""
    workers = rjob("workers", jobs, parallelism=2, completions=2)
    world = World(jobset(workers, scheduling=NESTED if scheduling is None else scheduling, **spec))
    world.settle()
    world.run(ready=False)
    world.settle()
    world.seconds += int(seconds)
    return world


def pods_of(world: World, **of: JSON) -> MemoryApi:
    """Two pending pods for each Job; `of`: spec and status of the very first."""
    api = MemoryApi()
    for number, (name, job) in enumerate(world.jobs.items()):
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name,
            "uid": job["metadata"]["uid"],
            "controller": True,
        }
        for index in range(2):
            meta = {"labels": {keys.JOBSET_NAME: "js"}, "ownerReferences": [owner]}
            first = of if number == index == 0 else {}
            status = {"phase": "Pending", **first.get("status", {})}
            api.put("pods", f"{name}-{index}", metadata=meta, spec=first.get("spec", {}), status=status)
    return api


class Looks:
    """A watch over one set."""

    def __init__(self, api: MemoryApi) -> None:
        self.api = api
        self.events: list[Event] = []
        self.gangs = StalledGangs(Client(api), lambda _js, event: self.events.append(event))
        self.reports = Reports()

    async def look(self, world: World) -> float | None:
        return await self.gangs.check(world.observe(), self.reports)


async def looked(world: World, **first: JSON) -> list[Event]:
    looks = Looks(pods_of(world, **first))
    await looks.look(world)
    return looks.events


async def test_the_likely_cause_is_reported():
    [event] = await looked(waiting(), spec={"schedulingGates": [{"name": "example.com/quota"}]})
    assert (event.type, event.reason) == ("Warning", "GangWaiting")
    assert event.distinct, "another cause is another event, and not hidden in the series of the first"
    assert "its 4 pods wait and the scheduler says nothing: pod js-workers-0-0 is held back" in event.note
    assert "The controller that the gate is named after has to lift it" in event.note


async def test_a_missing_visible_cause_is_reported():
    [event] = await looked(waiting())
    assert "GenericWorkload=true" in event.note
    assert len(event.note.encode()) <= 1024


async def test_a_pod_of_another_priority_than_the_groups_is_reported():
    world = waiting()
    [root] = world.of_kind("CompositePodGroup")
    root["spec"]["priority"] = 1000
    [event] = await looked(world)
    assert "have priority 0, the groups have 1000: the scheduler wants one for all" in event.note


async def test_jobs_in_deletion_wait_for_nothing():
    world = waiting()
    for job in world.jobs.values():
        job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert await looked(world) == []


async def test_gangs_that_stall_after_a_resume_are_reported():
    world = waiting()
    world.schedule()
    world.settle()
    assert await looked(world) == []
    world.edit(suspend=True)
    world.settle()
    world.halt()
    world.collect()
    world.edit(suspend=False)
    world.settle()
    world.run(ready=False)
    world.settle()
    world.seconds += int(FIRST_REPORT_SECONDS)
    assert [event.reason for event in await looked(world)] == ["GangWaiting"]


async def test_many_trees_are_one_event():
    [event] = await looked(waiting({"replicatedJobs": [EACH_JOB]}, jobs=20))
    assert event.note.endswith("(19 more trees wait so, too)")


@pytest.mark.parametrize(
    "first",
    [
        {"spec": {"nodeName": "n"}},
        {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}},
    ],
)
async def test_a_pod_that_the_scheduler_has_reported_on_needs_no_event(first: JSON):
    assert await looked(waiting(), **first) == []


async def test_the_scheduling_gated_condition_is_no_report_of_the_scheduler():
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    first = {"spec": {"schedulingGates": [{"name": "g"}]}, "status": {"conditions": [gated]}}
    assert len(await looked(waiting(), **first)) == 1


async def test_it_is_looked_at_once_a_minute_and_reported_once():
    world = waiting()
    looks = Looks(pods_of(world))
    assert await looks.look(world) == CHECK_INTERVAL
    assert await looks.look(world) == CHECK_INTERVAL
    assert len(looks.api.requests) == 1
    world.seconds += int(CHECK_INTERVAL)
    await asyncio.sleep(CHECK_INTERVAL)
    await looks.look(world)
    assert (len(looks.api.requests), len(looks.events)) == (2, 1)


async def test_the_scheduler_has_its_time():
    world = waiting(seconds=10)
    looks = Looks(pods_of(world))
    assert await looks.look(world) == FIRST_REPORT_SECONDS - 10
    assert (looks.api.requests, looks.events) == ([], [])


async def test_without_the_pods_nothing_is_reported():
    world = waiting()
    looks = Looks(pods_of(world))
    looks.api.answering = refuse(500)
    assert await looks.look(world) == CHECK_INTERVAL
    assert looks.events == []


async def test_a_scheduler_that_knows_no_groups():
    world = waiting()
    world.jobs["js-workers-0"]["status"]["ready"] = 1
    looks = Looks(pods_of(world))
    await looks.look(world)
    [event] = looks.events
    assert (event.reason, looks.api.requests) == ("SchedulerIgnoresGroups", [])
    assert "start it with --feature-gates=GenericWorkload=true" in event.note


class TestNothingToLookAt:
    """No call, and no look to come."""

    async def check(self, world: World) -> None:
        looks = Looks(pods_of(world))
        assert await looks.look(world) is None
        assert (looks.api.requests, looks.events) == ([], [])

    async def test_a_set_without_scheduling(self):
        world = World(jobset(rjob("workers", 2)))
        world.settle()
        await self.check(world)

    async def test_a_set_that_was_scheduled(self):
        world = waiting()
        world.schedule()
        world.settle()
        await self.check(world)

    async def test_a_suspended_set(self):
        world = World(jobset(rjob("workers", 2), scheduling=NESTED, suspend=True))
        world.settle()
        await self.check(world)

    def test_groups_that_the_scheduler_has_reported_on(self):
        world = waiting()
        [group, _] = world.of_kind("PodGroup")
        group["status"] = {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "False"}]}
        assert stalled_trees(world.observe()).trees == ()

    def test_pods_that_do_not_all_exist(self):
        world = waiting()
        world.jobs["js-workers-1"]["status"]["active"] = 1
        assert stalled_trees(world.observe()).trees == ()

    def test_jobs_that_run_without_their_groups(self):
        world = waiting()
        for job in world.jobs.values():
            job["spec"]["template"]["spec"].pop("schedulingGroup")
            job["status"]["ready"] = 2
        found = stalled_trees(world.observe())
        assert (found.trees, found.ignored_root) == ((), None)
