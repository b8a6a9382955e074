"""Jobs that somebody else suspends whenever the manager resumes them: pauses that grow, and one Warning with the name."""

import asyncio
from itertools import pairwise

import pytest

from api import keys
from controllers.jobset.contested_jobs import FORGET_AFTER, LONGEST_PAUSE
from tests.support.model.blind import Blind
from tests.support.model.memory_api import MemoryApi, refuse
from tests.support.objects.stored_sets import jobset, rjob

pytestmark = pytest.mark.looptime
FIGHT = "js-workers-0"
RUNNING = {"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"}
KUEUE = [
    {"manager": "jobset", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:suspend": {}}}},
    {"manager": "kueue", "time": "2026-01-01T00:00:05Z", "fieldsV1": {"f:spec": {"f:suspend": {}}}},
    {"manager": "kubectl", "time": "2026-01-01T00:00:09Z", "fieldsV1": {"f:metadata": {}}},
]


async def running(replicas: int = 2) -> Blind:
    blind = Blind(MemoryApi(), jobset(rjob("workers", replicas)))
    await blind.reconcile()
    for index in range(replicas):
        blind.change_job(f"js-workers-{index}", status=RUNNING)
    await blind.reconcile()
    return blind


def suspend(blind: Blind, name: str = FIGHT, *, suspended: bool = True) -> None:
    spec = blind.api.objects("jobs")["ns", name]["spec"]
    blind.change_job(name, spec={**spec, "suspend": suspended}, metadata={"managedFields": KUEUE})


def is_suspended(blind: Blind, name: str = FIGHT) -> bool:
    suspended: bool = blind.api.objects("jobs")["ns", name]["spec"]["suspend"]
    return suspended


async def fight(blind: Blind, seconds: float, *names: str) -> list[float]:
    """Suspend the Jobs whenever they are resumed; the times at which the first of them was."""
    clock, resumed = asyncio.get_running_loop().time, []
    end = clock() + seconds
    while clock() < end:
        for name in names or (FIGHT,):
            suspend(blind, name)
        wait = await blind.reconcile()
        if not is_suspended(blind, (names or (FIGHT,))[0]):
            resumed.append(clock())
        else:
            await asyncio.sleep(min(wait or 1.0, end - clock()))
    return resumed


def warnings(blind: Blind) -> set[str]:
    return {note for _, reason, note in blind.reported.events if reason == keys.JOBS_SUSPENDED_AGAIN}


async def test_the_first_resumption_comes_at_once_and_without_a_word():
    blind = await running()
    suspend(blind)
    await blind.reconcile()
    assert not is_suspended(blind)
    assert warnings(blind) == set()


async def test_the_pauses_between_resumptions_grow_up_to_a_limit():
    times = await fight(await running(), 3000)
    pauses = [round(later - before) for before, later in pairwise(times)]
    assert pauses[:9] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert set(pauses[9:]) == {LONGEST_PAUSE}


async def test_the_warning_names_the_field_manager_that_suspends_it():
    blind = await running()
    await fight(blind, 20)
    [note] = warnings(blind)
    assert f"Job {FIGHT} was resumed and is suspended again by field manager kueue: " in note


async def test_one_warning_is_about_all_jobs_and_costs_one_read_for_each_pause():
    blind = await running(4)
    before = len(blind.api.requests)
    resumed = await fight(blind, 20, *(f"js-workers-{index}" for index in range(4)))
    assert len(resumed) == 5
    [note] = warnings(blind)
    assert f"Job {FIGHT} and 3 more were resumed and are suspended again by field manager kueue: " in note
    reads = [call for call in blind.api.requests[before:] if call.verb == "get" and call.path.endswith(FIGHT)]
    assert len(reads) == 5


async def test_where_the_job_cannot_be_read_the_warning_names_nobody():
    blind = await running()
    blind.api.answering = refuse(403, "no right", verb="get", path=FIGHT)
    await fight(blind, 5)
    [note] = warnings(blind)
    assert f"Job {FIGHT} was resumed and is suspended again: " in note


async def test_other_jobs_of_the_set_do_not_wait():
    blind = await running()
    await fight(blind, 60)
    suspend(blind, "js-workers-1")
    await blind.reconcile()
    assert not is_suspended(blind, "js-workers-1")
    assert is_suspended(blind)


async def test_when_the_set_is_suspended_and_resumed_its_jobs_follow_at_once():
    blind = await running()
    await fight(blind, 60)
    assert is_suspended(blind)
    blind.edit(suspend=True)
    for _ in range(3):
        await blind.reconcile()
    blind.edit(suspend=False)
    for _ in range(3):
        await blind.reconcile()
    assert not is_suspended(blind)
    assert not is_suspended(blind, "js-workers-1")


async def test_after_some_calm_a_suspension_is_the_first_again():
    blind = await running()
    await fight(blind, 60)
    await asyncio.sleep(LONGEST_PAUSE)
    await blind.reconcile()
    await asyncio.sleep(FORGET_AFTER + 1)
    times = await fight(blind, 4)
    assert [round(later - times[0]) for later in times] == [0, 1, 3]
