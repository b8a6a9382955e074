"""What a process that has just become the leader does while its watches are behind: it deletes and suspends nothing."""

import msgspec
import pytest

from api.jobset import JobSet
from controllers.jobset.controller import CATCH_UP
from controllers.jobset.execute import FailedWrites
from controllers.planning.actions import CreateJob, CreateService, DeleteJob, Plan, has_only_creations
from kube.controller import Request
from tests.controllers.test_reconciler import RUNNING, ended
from tests.support.model.blind import Blind
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.stored_sets import jobset, rjob

REQUEST = Request("ns", "js")


def reads(blind: Blind) -> int:
    """GETs of the JobSet so far."""
    return sum(call.method == "GET" and call.path.endswith("/jobsets/js") for call in blind.api.requests)


def deleted(blind: Blind) -> list[str]:
    return [path for verb, path in blind.writes() if verb == "delete"]


def forget(blind: Blind) -> None:
    """Another process becomes the leader, with these caches."""
    blind.reconciler.memories.forget(REQUEST)


async def running(replicas: int, **gates: bool) -> Blind:
    blind = Blind(MemoryApi(), jobset(rjob("workers", replicas)), **gates)
    await blind.reconcile()
    for number in range(replicas):
        blind.change_job(f"js-workers-{number}", status=RUNNING)
    await blind.reconcile()
    return blind


async def test_jobs_that_were_added_meanwhile_stay():
    blind = await running(2, ElasticJobSet=True)
    behind = blind.jobsets.get("ns", "js")
    blind.edit(replicatedJobs=[msgspec.to_builtins(rjob("workers", 3))])
    await blind.reconcile()
    stored = blind.jobsets.get("ns", "js")
    forget(blind)
    blind.jobsets._set(("ns", "js"), behind)
    assert await blind.reconcile() == 0
    assert blind.jobsets.get("ns", "js") == stored
    await blind.reconcile()
    assert deleted(blind) == []
    assert reads(blind) == 1


async def test_a_set_that_is_as_it_was_read_is_changed_after_one_read():
    blind = await running(3, ElasticJobSet=True)
    forget(blind)
    blind.edit(replicatedJobs=[msgspec.to_builtins(rjob("workers", 1))])
    await blind.reconcile()
    assert sorted(deleted(blind)) == ["jobs/js-workers-1", "jobs/js-workers-2"]
    assert reads(blind) == 1
    blind.edit(suspend=True)
    await blind.reconcile()
    assert reads(blind) == 1


async def test_a_process_that_has_managed_a_set_reads_nothing():
    blind = await running(3, ElasticJobSet=True)
    blind.edit(replicatedJobs=[msgspec.to_builtins(rjob("workers", 1))])
    await blind.reconcile()
    assert len(deleted(blind)) == 2
    assert reads(blind) == 0


async def test_jobs_that_were_resumed_meanwhile_are_not_suspended():
    blind = await running(2)
    blind.edit(suspend=True)
    await blind.reconcile()
    behind = blind.jobsets.get("ns", "js")
    blind.edit(suspend=False)
    await blind.reconcile()
    before = len(blind.writes())
    forget(blind)
    blind.jobsets._set(("ns", "js"), behind)
    assert await blind.reconcile() == 0
    assert blind.writes()[before:] == []


async def test_a_set_that_is_gone_is_forgotten():
    blind = await running(3, ElasticJobSet=True)
    forget(blind)
    blind.edit(replicatedJobs=[msgspec.to_builtins(rjob("workers", 1))])
    blind.api.drop("jobsets", "js")
    assert await blind.reconcile() == 0
    await blind.reconciler.reconcile(REQUEST)
    assert deleted(blind) == []
    assert len(blind.reconciler.memories) == 0


async def test_a_job_that_failed_meanwhile_is_kept_when_its_set_has_failed():
    blind = await running(2)
    failed = blind.api.objects("jobs")["ns", "js-workers-0"]
    blind.api.put("jobs", "js-workers-0", metadata=failed["metadata"], status=ended("Failed"))
    stored = blind.api.put("jobsets", "js", **{**blind.api.objects("jobsets")["ns", "js"], "status": ended("Failed")})
    blind.jobsets.overlay(msgspec.convert(stored, JobSet))
    forget(blind)
    with pytest.raises(FailedWrites):
        await blind.reconcile()
    assert [name for _, name in blind.api.objects("jobs")] == ["js-workers-0"], "what ran ends, what failed stays"
    wait = (await blind.reconciler.reconcile(REQUEST)).requeue_after
    assert 0 < wait <= CATCH_UP
    blind.change_job("js-workers-0")
    await blind.reconcile()
    assert len(blind.api.objects("jobs")) == 1
    assert blind.memory.has_current_caches


async def test_a_job_that_is_recorded_as_complete_is_kept_although_it_seems_to_run():
    blind = await running(2)
    job = blind.jobs.get("ns", "js-workers-0")
    blind.change_job("js-workers-0", status=ended("Complete"))
    await blind.reconcile()
    forget(blind)
    blind.jobs._set(("ns", "js-workers-0"), job)
    with pytest.raises(FailedWrites):
        await blind.reconcile()
    assert len(blind.api.objects("jobs")) == 2


def test_only_creations_are_safe():
    create = CreateJob("a", dict)
    assert has_only_creations(Plan())
    assert has_only_creations(Plan(actions=(create, CreateService({}))))
    assert not has_only_creations(Plan(actions=(create, DeleteJob("a", "1"))))
