"""Sizes of Jobs as batch/v1 defaults them and as the Job controller reads them."""

import pytest

from dev.simulator import job_rules, job_status
from dev.simulator.api_server import ApiServer, RefusedError
from dev.simulator.job_status import condition

NOW = "2026-01-01T00:00:00Z"

SIZES = [
    ({}, (1, 1), 1),
    ({"parallelism": None, "completions": None}, (1, 1), 1),
    ({"completions": 3}, (1, 3), 1),
    ({"completions": 0}, (1, 0), 0),
    ({"parallelism": 4}, (4, None), 4),
    ({"parallelism": 0}, (0, None), 0),
    ({"parallelism": 0, "completions": 3}, (0, 3), 0),
    ({"parallelism": 4, "completions": 3}, (4, 3), 3),
    ({"parallelism": 3, "completions": 4}, (3, 4), 3),
]
"""What a spec says, its parallelism and completions with their defaults, and how many pods run at once."""


def with_defaults(**spec: object) -> dict[str, dict[str, object]]:
    meta = {"name": "job", "namespace": "ns", "uid": "uid"}
    return job_rules.with_defaults({"metadata": meta, "spec": {"template": {"spec": {}}, **spec}})


@pytest.mark.parametrize(("given", "sizes", "pods"), SIZES)
def test_sizes_are_defaulted_together(given, sizes, pods):
    job = with_defaults(**given)
    assert (job["spec"]["parallelism"], job["spec"].get("completions")) == sizes
    assert ("completions" in job["spec"]) == (sizes[1] is not None), "an unset field is not stored as null"
    assert job_status.pods_wanted(job) == pods
    undefaulted = {"spec": given}
    assert job_status.pods_wanted(undefaulted) == pods


@pytest.mark.parametrize(
    ("given", "succeeded"),
    [({}, 1), ({"parallelism": 2, "completions": 5}, 5), ({"parallelism": 3}, 3), ({"completions": 0}, 0)],
)
def test_a_complete_job_has_all_its_completions(given, succeeded):
    ended = job_status.end_status(with_defaults(**given), NOW, "Complete")
    assert ended["succeeded"] == succeeded


def test_a_job_that_needs_no_completion_is_complete_at_once():
    job = with_defaults(completions=0)
    status = job_status.next_status(job, NOW)
    assert job_status.is_finished({**job, "status": status})
    assert (status["startTime"], status["active"], status["succeeded"]) == (NOW, 0, 0)


def test_a_paused_job_starts_and_has_no_pods():
    job = with_defaults(parallelism=0, completions=2)
    status = job_status.next_status(job, NOW)
    assert (status["startTime"], status["active"], status["ready"]) == (NOW, 0, 0)
    assert job_status.next_status({**job, "status": status}, NOW) is None


def test_a_work_queue_cannot_be_indexed():
    body = {"metadata": {"name": "job"}, "spec": {"parallelism": 2, "template": {"spec": {}}}}
    indexed = {**body, "spec": {**body["spec"], "completionMode": "Indexed"}}
    with pytest.raises(RefusedError, match=r"spec\.completions: Required value: when completion mode is Indexed"):
        ApiServer().create("jobs", "ns", indexed)
    assert "completions" not in ApiServer().create("jobs", "ns", body).body()["spec"]


@pytest.mark.parametrize(
    ("had", "status", "refusal"),
    [
        ({"startTime": NOW}, {}, "status.startTime"),
        ({"conditions": [condition("Failed", NOW)]}, {}, "cannot disable the terminal Failed"),
        ({}, {"conditions": [condition("Failed", NOW), condition("Complete", NOW)]}, "Complete=True and Failed=true"),
        ({}, {"conditions": [condition("Complete", NOW)], "active": 1}, "invalid for finished job"),
        ({}, {"active": 1, "ready": 2}, "more ready pods than active"),
        ({"active": 1}, {"active": 2, "ready": 2}, ""),
    ],
    ids=["start time", "end undone", "two ends", "active after the end", "too many ready", "valid"],
)
def test_a_status_that_no_job_controller_writes_is_refused(had, status, refusal):
    server = ApiServer()
    server.create("jobs", "ns", {"metadata": {"name": "job"}, "spec": {"template": {"spec": {}}}})
    server.put("jobs", {**server.get("jobs", ("ns", "job")).body(), "status": had})
    if not refusal:
        assert server.patch("jobs", ("ns", "job"), {"status": status}, "status").body()["status"] == {**had, **status}
        return
    with pytest.raises(RefusedError, match=refusal):
        server.update("jobs", ("ns", "job"), {"status": status}, "status")
