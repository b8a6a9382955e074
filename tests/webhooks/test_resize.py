"""The number of Jobs of a stored JobSet, with gate ElasticJobSet (KEP-463): what may change, and what stays needed."""

from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.updates import JOB, RJOB, changed, errors

ELASTIC = FeatureGates({"ElasticJobSet": True})
RESTARTING = FeatureGates({"ElasticJobSet": True, "RestartJob": True})
ALL = {"operator": "All"}
PATH = "spec.replicatedJobs[{}].replicas"


def scaled(js: JSON, *replicas: int | None) -> JSON:
    """The same with these numbers of Jobs, from the first ReplicatedJob on; None leaves the number out."""
    for i, number in enumerate(replicas):
        js = changed(js, "replicatedJobs", i, "replicas", to=number)
        if number is None:
            del js["spec"]["replicatedJobs"][i]["replicas"]
    return js


def rules(old: JSON, new: JSON, gates: FeatureGates = ELASTIC) -> list[tuple[str, str]]:
    """Path and id of each broken rule."""
    return [(str(error.path), error.rule.id) for error in engine(gates).findings_about_update(old, new).errors]


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("after", [1, 2, 5])
@pytest.mark.parametrize("mode", ["Indexed", "NonIndexed"])
@pytest.mark.parametrize("suspended", [True, False])
def test_jobs_may_be_added_and_taken_away_in_any_completion_mode(before, after, mode, suspended):
    old = stored(jobset(rjob(replicas=before, job={"completionMode": mode}), suspend=suspended))
    assert errors(old, scaled(old, after), ELASTIC) == []


def test_none_is_left_where_nothing_needs_one():
    old = stored(jobset(rjob("a"), rjob("b"), rjob("c", dependsOn=[{"name": "a", "status": "Ready"}])))
    assert errors(old, scaled(old, 1, 0, 1), ELASTIC) == []
    assert errors(old, scaled(old, 1, 0, 0), ELASTIC) == []


@pytest.mark.parametrize("gates", [FeatureGates(), ELASTIC])
def test_a_number_that_is_left_out_is_one(gates):
    one, none = stored(jobset(rjob("a"), rjob("b"))), scaled(stored(jobset(rjob("a"), rjob("b"))), None)
    ended = {"conditions": [{"type": "Completed", "status": "True"}]}
    assert errors(one, none, gates) == errors(none, one, gates) == errors({**none, "status": ended}, one, gates) == []


def test_leaving_the_number_out_scales_to_one():
    old = stored(jobset(rjob("a", replicas=3), coordinator={"replicatedJob": "a", "jobIndex": 2}))
    assert rules(old, scaled(old, None)) == [("spec.coordinator.jobIndex", "coordinator-job-index")]


@pytest.mark.parametrize("before", [{}, [], "3", None])
@pytest.mark.parametrize("keys", [("replicas",), ("template", "spec", "parallelism")])
def test_a_stored_size_that_is_no_number_counts_as_one(before, keys):
    js = stored(jobset(rjob(replicas=1)))
    rules(changed(js, *RJOB, *keys, to=before), changed(js, *RJOB, *keys, to=4))
    assert rules(changed(js, *RJOB, "replicas", to=before), js) == []


@pytest.mark.parametrize("kind", ["Completed", "Failed"])
@pytest.mark.parametrize("replicas", [0, 1, 4])
def test_no_resize_after_the_end(kind, replicas):
    js = stored(jobset(rjob(replicas=2)))
    old = {**js, "status": {"conditions": [{"type": kind, "status": "True"}]}}
    assert errors(old, scaled(js, replicas), ELASTIC) == [
        f"{PATH.format(0)}: Cannot mutate replicas when JobSet is in a terminal state (Completed or Failed)"
    ]
    running = {**js, "status": {"conditions": [{"type": kind, "status": "False"}]}}
    assert errors(running, scaled(js, 4), ELASTIC) == []


def test_after_the_end_each_size_is_named():
    js = stored(jobset(rjob()))
    old = {**js, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}
    new = changed(changed(scaled(js, 2), *JOB, "parallelism", to=2), *JOB, "completions", to=2)
    assert rules(old, new) == [
        (PATH.format(0), "replicas-finished"),
        ("spec.replicatedJobs[0].template.spec", "resize-finished"),
    ]


def test_the_first_of_those_that_wait_is_named():
    after = [{"name": "a", "status": "Ready"}]
    old = stored(jobset(rjob("a"), rjob("b", dependsOn=after), rjob("c", dependsOn=after)))
    [text] = errors(old, scaled(old, 0), ELASTIC)
    assert text.endswith("replicatedJob 'b' depends on replicatedJob 'a'")


@pytest.mark.parametrize("policy", [None, ALL, {"operator": "Any"}, {**ALL, "targetReplicatedJobs": []}])
def test_without_targets_one_job_of_any_has_to_stay(policy):
    old = stored(jobset(rjob("a", replicas=2), rjob("b"), rjob("c", replicas=0)))
    old["spec"]["successPolicy"] = policy
    assert errors(old, scaled(old, 0, 1), ELASTIC) == []
    assert errors(old, scaled(old, 0, 0, 1), ELASTIC) == []
    last = "replicas must be >= 1: no Job would be left, and the JobSet would be Completed at once"
    assert errors(old, scaled(old, 0, 0), ELASTIC) == [f"{PATH.format(0)}: {last}", f"{PATH.format(1)}: {last}"]


@pytest.mark.parametrize(
    ("job", "before", "after", "expected"),
    [
        (rjob("a", parallelism=65536, completions=65536), 1, 32767, []),
        (rjob("a", parallelism=65536, completions=65536), 1, 32768, [(PATH.format(0), "pod-count")]),
        (rjob("a"), 1, 100_001, [("spec.replicatedJobs[0].replicas", "jobs-per-set")]),
        (rjob("n" * 55, completions=None), 10, 11, [("spec.replicatedJobs[0].name", "job-name-length")]),
        (rjob("n" * 47), 10, 11, [("spec.replicatedJobs[0].name", "pod-name-length")]),
        (rjob("n" * 47), 10, 9, []),
    ],
)  # fmt: skip
def test_growth_is_held_to_the_limits_of_creation(job: JSON, before: int, after: int, expected: Any):
    job["replicas"] = before
    old = stored(jobset(job, name="train"))
    assert engine(ELASTIC).findings_about_new(old).errors == ()
    assert rules(old, scaled(old, after)) == expected


def test_a_set_that_is_larger_than_allowed_may_shrink():
    old = stored(jobset(rjob("a", replicas=100_002), name="train"))
    assert rules(old, scaled(old, 100_001)) == []


def test_a_name_with_no_space_for_another_digit_may_scale_to_zero():
    old = stored(jobset(rjob("n" * 47), rjob("b")))
    assert engine(ELASTIC).findings_about_new(old).errors == ()
    assert errors(old, scaled(old, 0), ELASTIC) == []


def test_what_was_too_much_before_is_not_refused_for_another_change():
    old = stored(jobset(rjob("a", replicas=2000), rjob("b"), failurePolicy={"rules": [{"action": "RestartJob"}]}))
    assert rules(old, scaled(old, 2000, 3), RESTARTING) == []


@pytest.mark.parametrize("number", [-1, "x", 2**40])
def test_what_is_no_number_of_jobs_is_left_to_the_schema(number):
    old = stored(jobset(rjob("a", replicas=2), rjob("b")))
    [error] = engine(ELASTIC).findings_about_update(old, scaled(old, number)).errors
    assert (str(error.path), error.layer.value) == (PATH.format(0), "schema")
