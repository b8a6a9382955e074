"""Jobs that stay although a deletion of many was to take them: the caches do not hide them."""

from typing import Any

import msgspec
import pytest

from api import keys
from api.batch import Job
from dev.simulator.patches import merge
from kube.transport import Request
from tests.support.model.blind import Blind
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.stored_sets import jobset, rjob

JOBS = 12
NAME = "js-workers-3"
FAILED = {"type": "Failed", "status": "True", "reason": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}
MEANWHILE = {
    "a finalizer": {"finalizers": ["example.com/mine"]},
    "another attempt": {"labels": {keys.RESTART_ATTEMPT: "other"}},
    "another index": {"labels": {keys.JOB_GLOBAL_INDEX: "77"}},
}


async def restarted(metadata: dict[str, Any]) -> Blind:
    """The set has restarted, and its old Jobs were deleted; one of them got this metadata shortly before."""
    blind = Blind(MemoryApi(), jobset(rjob("workers", JOBS), failurePolicy={"maxRestarts": 3}))
    await blind.reconcile()
    blind.change_job("js-workers-0", status={"conditions": [FAILED]})
    await blind.reconcile()
    old = blind.api.objects("jobs")["ns", NAME]
    blind.api.put("jobs", NAME, metadata=merge(old["metadata"], metadata))
    await blind.reconcile()
    assert {request.verb for request in blind.api.requests} >= {"deletecollection"}
    return blind


@pytest.mark.parametrize("change", MEANWHILE)
async def test_it_is_not_hidden(change: str):
    blind = await restarted(MEANWHILE[change])
    assert [name for _, name in blind.api.objects("jobs")] == [NAME]
    assert [job.metadata.name for job in blind.jobs.list()] == [NAME]


async def test_one_that_was_taken_for_gone_shows_again_once_its_name_is_tried():
    """A finalizer that came between the API server's list and its deletions: the answer does not say so."""
    blind = Blind(MemoryApi(), jobset(rjob("workers", JOBS)))
    await blind.reconcile()
    kept = msgspec.convert(blind.api.objects("jobs")["ns", NAME], Job)
    blind.jobs.overlay_deleted("ns", NAME, kept.metadata.uid)
    blind.jobs.apply(kept)
    assert blind.jobs.get("ns", NAME) is None
    await blind.reconcile()
    assert blind.jobs.get("ns", NAME) == kept
    tried = len(attempts(blind))
    await blind.reconcile()
    assert len(attempts(blind)) == tried


def attempts(blind: Blind) -> list[Request]:
    """To create that Job."""
    made = (request for request in blind.api.requests if request.verb == "create")
    return [request for request in made if msgspec.json.decode(request.body)["metadata"]["name"] == NAME]
