"""How many calls a reconcile of a small set makes: creation, first counts, nothing to do, a failed Job."""

from tests.support.model.blind import Blind
from tests.support.model.memory_api import MemoryApi
from tests.support.model.walk import walk
from tests.support.objects.stored_sets import jobset, rjob


async def test_a_set_of_two_jobs_is_reconciled_in_few_calls():
    blind = Blind(MemoryApi(), jobset(rjob("workers", 2), failurePolicy={"maxRestarts": 3}))
    created = await walk(blind.reconcile, "api/", "controllers/", "kube/")
    for number in range(2):
        running = {"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"}
        blind.change_job(f"js-workers-{number}", status=running)
    counted = await walk(blind.reconcile, "api/", "controllers/", "kube/")
    unchanged = await walk(blind.reconcile, "api/", "controllers/", "kube/")
    ended = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "no more"}
    blind.change_job("js-workers-1", status={"conditions": [{**ended, "lastTransitionTime": "2026-01-01T00:01:00Z"}]})
    failed = await walk(blind.reconcile, "api/", "controllers/", "kube/")

    assert blind.api.objects("jobsets")["ns", "js"]["status"]["restarts"] == 1
    assert created.calls <= 540, created
    assert counted.calls <= 380, counted
    assert unchanged.calls <= 290, unchanged
    assert failed.calls <= 510, failed
    assert failed.returns <= 200, failed
