"""Another controller suspends a child Job whenever the manager resumes it, as Kueue does with Jobs that it queues itself."""

import time
from typing import Any

import pytest

from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import MERGE, request, wait_for

JSON = dict[str, Any]
pytestmark = pytest.mark.slow
SECONDS = 10.0
MAX_RESUMPTIONS = 5
"""Of a Job in that time: at once, and after 1, 2 and 4 s; one more where the manager has resumed it a moment before."""


def job(sets: Sets) -> tuple[str, JSON]:
    path = f"/apis/batch/v1/namespaces/{sets.namespace}/jobs/js-workers-0"
    return path, request(sets.cluster, "GET", path)[1]


def test_it_is_resumed_after_pauses_that_grow_and_the_other_is_named(sets: Sets):
    sets.apply(manifest(group(replicas=2)))
    sets.wait_ready(2)
    first = job(sets)[1]["metadata"]["generation"]
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        path, found = job(sets)
        if not found["spec"]["suspend"]:
            request(sets.cluster, "PATCH", f"{path}?fieldManager=kueue", {"spec": {"suspend": True}}, MERGE)
    resumed = (job(sets)[1]["metadata"]["generation"] - first) // 2
    assert 2 <= resumed <= MAX_RESUMPTIONS

    def warned() -> list[str]:
        return [note for kind, reason, note in sets.events() if (kind, reason) == ("Warning", "JobsSuspendedAgain")]

    [note] = wait_for(warned, timeout=30, what="the Warning")
    assert note.startswith("Job js-workers-0 was resumed and is suspended again by field manager kueue: ")
    sets.wait_explained("suspended again by field manager kueue")

    sets.patch({"suspend": True})
    wait_for(lambda: all(job["spec"]["suspend"] for job in sets.jobs()), timeout=30, what="both Jobs are suspended")
    sets.patch({"suspend": False})
    sets.wait_ready(2)
