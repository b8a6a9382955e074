"""How far a reader has to walk to follow one failed Job through a reconcile: files, calls, returns to a file."""

from tests.support.model.blind import Blind
from tests.support.model.memory_api import MemoryApi
from tests.support.model.walk import walk
from tests.support.objects.stored_sets import jobset, rjob


async def test_one_failed_job_is_followed_through_few_files():
    blind = Blind(MemoryApi(), jobset(rjob("workers", 2), failurePolicy={"maxRestarts": 3}))
    await blind.reconcile()
    for number in range(2):
        running = {"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"}
        blind.change_job(f"js-workers-{number}", status=running)
    await blind.reconcile()
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "no more"}
    blind.change_job("js-workers-1", status={"conditions": [{**failed, "lastTransitionTime": "2026-01-01T00:01:00Z"}]})

    seen = await walk(blind.reconcile, "api/", "controllers/", "kube/")

    assert blind.api.objects("jobsets")["ns", "js"]["status"]["restarts"] == 1
    assert len(seen.files) <= 68, seen
    assert seen.calls <= 600, seen
    assert seen.returns <= 245, seen


async def test_a_set_of_two_jobs_is_reconciled_in_few_calls():
    blind = Blind(MemoryApi(), jobset(rjob("workers", 2)))
    created = await walk(blind.reconcile, "api/", "controllers/", "kube/")
    for number in range(2):
        running = {"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"}
        blind.change_job(f"js-workers-{number}", status=running)
    counted = await walk(blind.reconcile, "api/", "controllers/", "kube/")
    unchanged = await walk(blind.reconcile, "api/", "controllers/", "kube/")

    assert created.calls <= 590, created
    assert counted.calls <= 375, counted
    assert unchanged.calls <= 295, unchanged
