"""How far a reader has to walk to follow one failed Job through a reconcile: files, calls, returns to a file."""

from tests.support.model.blind import Blind
from tests.support.model.memory_api import MemoryApi
from tests.support.model.walk import walk
from tests.support.objects.stored_sets import jobset, rjob


async def test_a_set_of_two_jobs_is_reconciled_in_few_calls():
    blind = Blind(MemoryApi(), jobset(rjob("workers", 2)))
    created = await walk(blind.reconcile, "api/", "controllers/", "kube/")
    for number in range(2):
        running = {"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"}
        blind.change_job(f"js-workers-{number}", status=running)
    counted = await walk(blind.reconcile, "api/", "controllers/", "kube/")
    unchanged = await walk(blind.reconcile, "api/", "controllers/", "kube/")

    assert created.calls <= 600, created
    assert counted.calls <= 380, counted
    assert unchanged.calls <= 300, unchanged
