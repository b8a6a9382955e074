"""Bounds of the number of Jobs: what a new JobSet must hold, and what an update may change."""

from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.updates import changed

GATES = FeatureGates({"JobSetElasticReplicas": True, "ElasticJobSet": True})
OTHERS = FeatureGates({"ElasticJobSet": True})
BOUNDS = {"min": 2, "max": 4}
REPLICAS = "spec.replicatedJobs[0].replicas"


def workers(replicas: int = 3, bounds: Any = BOUNDS, **more: Any) -> JSON:
    return jobset(rjob(replicas=replicas, elastic=bounds, job={"completionMode": "Indexed"}), **more)


def created(js: JSON, gates: FeatureGates = GATES) -> list[tuple[str, str]]:
    """Path and id of each broken rule of creation."""
    return [(str(error.path), error.rule.id) for error in engine(gates).findings_about_new(js).errors]


def updated(old: JSON, new: JSON, gates: FeatureGates = GATES) -> list[tuple[str, str]]:
    return [(str(error.path), error.rule.id) for error in engine(gates).findings_about_update(old, new).errors]


@pytest.mark.parametrize(
    ("js", "found"),
    [
        (workers(2), []),
        (workers(4), []),
        (workers(1), [(REPLICAS, "elastic-replicas")]),
        (workers(5), [(REPLICAS, "elastic-replicas")]),
        (workers(3, {"min": 4, "max": 3}), [("spec.replicatedJobs[0].elastic.min", "elastic-min-above-max")]),
        (workers(coordinator={"replicatedJob": "workers", "jobIndex": 1}), []),
        (
            workers(coordinator={"replicatedJob": "workers", "jobIndex": 2}),
            [("spec.coordinator.jobIndex", "elastic-coordinator")],
        ),
        (workers(successPolicy={"operator": "All", "minSucceeded": 2}), []),
        (workers(successPolicy={"operator": "All", "minSucceeded": "100%"}), []),
        (
            workers(successPolicy={"operator": "All", "minSucceeded": 3}),
            [("spec.successPolicy.minSucceeded", "elastic-min-succeeded")],
        ),
        (
            workers(successPolicy={"operator": "All", "minSucceeded": 3, "unit": "Pod"}),
            [("spec.successPolicy.minSucceeded", "elastic-min-succeeded")],
        ),
    ],
)
def test_what_counts_on_the_jobs_has_enough_with_the_fewest(js, found):
    assert created(js) == found


@pytest.mark.parametrize("bounds", [{"min": 0, "max": 4}, {"min": 2}, {"max": 4}])
def test_both_bounds_are_needed_and_are_at_least_one(bounds):
    assert created(workers(3, bounds))


def test_the_words_say_what_is_wrong_and_how_to_correct_it():
    [error] = engine(GATES).findings_about_new(workers(5)).errors
    assert error.detail == "must be from 2 to 4, as elastic says: more were not planned for"
    assert error.fix == "write a number from 2 to 4, or create the JobSet with other bounds"


def test_without_its_gate_the_field_is_refused_and_bounds_nothing():
    assert created(workers(9), OTHERS) == [("spec.replicatedJobs[0].elastic", "elastic-gate")]
    old = stored(workers())
    assert updated(old, changed(old, "replicatedJobs", 0, "replicas", to=9), OTHERS) == []


@pytest.mark.parametrize(("replicas", "refused"), [(1, True), (2, False), (4, False), (5, True)])
def test_whoever_scales_a_set_keeps_within_the_bounds(replicas, refused):
    old = stored(workers())
    new = changed(old, "replicatedJobs", 0, "replicas", to=replicas)
    assert updated(old, new) == ([(REPLICAS, "elastic-replicas")] if refused else [])


def test_a_set_that_was_stored_out_of_bounds_can_still_be_changed_otherwise():
    old = stored(workers(9))
    assert updated(old, changed(old, "suspend", to=True)) == []


def test_a_coordinator_that_moves_stays_below_the_fewest():
    old = stored(workers(coordinator={"replicatedJob": "workers", "jobIndex": 1}))
    new = changed(old, "coordinator", "jobIndex", to=2)
    assert updated(old, new) == [("spec.coordinator.jobIndex", "elastic-coordinator")]


@pytest.mark.parametrize("bounds", [{"min": 1, "max": 4}, None])
def test_the_bounds_never_change(bounds):
    old = stored(workers())
    new = changed(old, "replicatedJobs", 0, "elastic", to=bounds)
    assert {rule for _, rule in updated(old, new)} == {"immutable-replicated-job"}


WHEN = "spec.failurePolicy.nodeFailure.whenNoCapacity"


def shrinking(bounds: Any = BOUNDS, **more: Any) -> JSON:
    node_failure = {"afterSeconds": 30, "whenNoCapacity": {"shrinkAfterSeconds": 60}}
    return workers(3, bounds, failurePolicy={"maxRestarts": 3, "nodeFailure": node_failure}, **more)


def shrinks(js: JSON, gates: FeatureGates) -> list[tuple[str, str]]:
    """Path and id of each broken rule and of each warning about whenNoCapacity."""
    found = engine(gates).findings_about_new(js)
    return [(str(e.path), e.rule.id) for e in (*found.errors, *found.warnings) if str(e.path) == WHEN]


def test_fewer_jobs_need_an_elastic_group_and_pods_that_are_scheduled_alone():
    names = ("JobSetElasticReplicas", "JobSetNodeFailure", "JobSetWorkloadAwareSchedulingAPI")
    gates = FeatureGates(dict.fromkeys(names, True))
    assert shrinks(shrinking(), gates) == []
    assert shrinks(shrinking({"min": 3, "max": 9}), gates) == [(WHEN, "no-capacity-no-group")]
    assert shrinks(shrinking(None), gates) == [(WHEN, "no-capacity-no-group")]
    assert shrinks(shrinking(scheduling={"schedulingPolicy": {"gang": {}}}), gates) == [(WHEN, "no-capacity-gang")]
    assert shrinks(shrinking(None), FeatureGates({"JobSetNodeFailure": True})) == [(WHEN, "elastic-gate")]
