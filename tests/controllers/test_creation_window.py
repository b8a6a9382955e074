"""No set has more Jobs wait for the Job controller than `QUEUED_JOBS`: it serves Jobs in their order, so others come behind."""

import msgspec
import pytest

from controllers.planning.actions import CreateJob, PatchJob
from controllers.planning.limits import DEFAULT_LIMITS
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

QUEUED_JOBS = DEFAULT_LIMITS.queued_jobs


def of_type(plan, kind):
    return [action.name for action in plan.actions if isinstance(action, kind)]


def large(**spec) -> World:
    return World(jobset(rjob("workers", 3 * QUEUED_JOBS), **spec))


def test_jobs_are_created_as_the_job_controller_comes_to_those_before():
    world = large()
    world.step()
    assert world.live() == sorted(f"js-workers-{number}" for number in range(QUEUED_JOBS))
    assert of_type(world.step(), CreateJob) == [], "none of them has been taken up"
    world.take_up(*(f"js-workers-{number}" for number in range(30)))
    assert of_type(world.step(), CreateJob) == [
        f"js-workers-{number}" for number in range(QUEUED_JOBS, QUEUED_JOBS + 30)
    ]


def test_a_small_set_is_created_at_once():
    world = World(jobset(rjob("driver"), rjob("workers", QUEUED_JOBS - 1)))
    world.step()
    assert len(world.jobs) == QUEUED_JOBS


def test_suspended_jobs_are_created_at_once():
    world = large(suspend=True)
    world.step()
    assert len(world.jobs) == 3 * QUEUED_JOBS


def test_a_large_set_is_resumed_as_the_job_controller_comes_to_its_jobs():
    world = large(suspend=True)
    world.settle()
    world.halt()
    world.edit(suspend=False)
    resumed = of_type(world.step(), PatchJob)
    assert resumed == [f"js-workers-{number}" for number in range(QUEUED_JOBS)]
    assert of_type(world.step(), PatchJob) == []
    world.run(*resumed[:10])
    assert len(of_type(world.step(), PatchJob)) == 10


def test_a_resumed_job_that_ran_before_is_queued_until_its_controller_confirms():
    world = World(jobset(rjob("workers", 1)))
    world.settle()
    world.run()
    job = world.jobs["js-workers-0"]
    job["status"]["conditions"] = [{"type": "Suspended", "status": "True"}]
    assert world.queued() == ["js-workers-0"]
    job["status"]["conditions"][0]["status"] = "False"
    assert world.queued() == []


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("metadata", {"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        ("status", {"conditions": [{"type": "Complete", "status": "True"}]}),
    ],
)
def test_jobs_that_are_deleted_or_finished_are_not_counted_in_the_window(part, fields):
    world = large()
    world.step()
    world.jobs["js-workers-7"][part].update(fields)
    assert of_type(world.step(), CreateJob) == [f"js-workers-{QUEUED_JOBS}"]


def test_jobs_beyond_the_window_after_an_edit_are_kept():
    world = large(suspend=True)
    world.settle()
    for job in world.jobs.values():
        job["spec"]["suspend"] = False
    world.js = msgspec.structs.replace(world.js, spec=msgspec.structs.replace(world.js.spec, suspend=False))
    assert of_type(world.step(), PatchJob) == []
    assert len(world.jobs) == 3 * QUEUED_JOBS
