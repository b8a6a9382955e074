"""States of a JobSet are the same, whether the models of the Python client or the structs of the commands have read it."""

from itertools import product
from typing import Any

import msgspec

from api.jobset import JobSet as Stored
from jobset_client import JobSet
from jobset_client.states import STATES, end_summary, has_reached
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
CONDITIONS = ("Suspended", "RestartingJobSet", "Completed", "Failed")


def sets() -> list[JSON]:
    """Every combination of what the states depend on."""
    found = []
    for on, suspend, counts, ended in product(
        product(("True", "False", None), repeat=2),
        (None, False, True),
        ((0, 0, 0), (1, 1, 1), (2, 0, 2), (0, 0, 1), (0, 2, 0)),
        (None, *CONDITIONS[2:]),
    ):
        body = stored(jobset(rjob(replicas=2), namespace="a", **({} if suspend is None else {"suspend": suspend})))
        conditions = [*zip(CONDITIONS, on, strict=False), *([(ended, "True")] if ended else [])]
        counted = dict(zip(("ready", "succeeded", "active"), counts, strict=True), failed=0, suspended=0)
        body["status"] = {
            "conditions": [{"type": kind, "status": value} for kind, value in conditions if value],
            "replicatedJobsStatus": [{"name": "workers", **counted}],
            **({"terminalState": ended} if ended else {}),
        }
        found.append(body)
    return found


def test_a_set_is_in_the_same_states():
    for body in sets():
        mine, theirs = JobSet.from_dict(body), msgspec.convert(body, Stored)
        assert [state for state in STATES if has_reached(mine, state)] == [
            state for state in STATES if has_reached(theirs, state)
        ]
        assert end_summary(mine) == end_summary(theirs)


def test_a_smaller_set_is_ready_with_the_jobs_it_has_now_and_without_spares():
    body = stored(jobset(rjob(replicas=3), rjob("spare", replicas=2, spareFor="workers"), namespace="a"))
    counted = {"name": "workers", "ready": 2, "succeeded": 0, "active": 2, "failed": 0, "suspended": 0}
    body["status"] = {"replicatedJobsStatus": [counted]}
    assert not has_reached(JobSet.from_dict(body), "ready")
    body["status"]["reducedReplicas"] = [{"name": "workers", "replicas": 2, "since": "2026-01-01T00:00:00Z"}]
    assert has_reached(JobSet.from_dict(body), "ready")
    assert has_reached(msgspec.convert(body, Stored), "ready")
