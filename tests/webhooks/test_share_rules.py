"""Success by share (successPolicy.minSucceeded, unit): what is a number, what is enough, what can come."""

from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.updates import JOB, changed, errors
from webhooks.jobset.answers import MAX_WARNING_LENGTH, warning_texts

ENGINE = engine(FeatureGates({"AllAlpha": True}))
ELASTIC = FeatureGates({"ElasticJobSet": True})
MIN = "spec.successPolicy.minSucceeded"
FORM = 'must be a whole number from 1, or a share from "1%" to "100%"'
JOBS = "spec.replicatedJobs[{}].replicas"
PODS = "spec.replicatedJobs[{}].template.spec.completions"


def shared(minimum: Any, *rjobs: JSON, **policy: Any) -> JSON:
    """Ten Jobs of three pods, or the given, of which `minimum` have to succeed."""
    given = rjobs or (rjob("a", replicas=10, parallelism=3, completions=3),)
    return stored(jobset(*given, successPolicy={"operator": "All", "minSucceeded": minimum, **policy}))


@pytest.mark.parametrize("value", [1, 8, 10, "1%", "80%", "99%", "100%"])
@pytest.mark.parametrize("unit", [{}, {"unit": "Job"}, {"unit": "Pod"}])
def test_good(value: Any, unit: JSON):
    found = ENGINE.findings_about_new(shared(value, **unit), defaults=False)
    assert (found.errors, found.warnings) == ((), ())


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        (0, "write 1 or more"),
        (-5, "write 1 or more"),
        ("12", 'write 12 without quotes for a number, "12%" for a share'),
        ("80", 'write 80 without quotes for a number, "80%" for a share'),
        ("300", 'write 300 without quotes for a number, "100%" for a share'),
        ("0", 'write 1 without quotes for a number, "1%" for a share'),
        ("1", 'write 1 without quotes for a number, "1%" for a share'),
        ("0.8", 'write "80%"'),
        ("2.5", 'write 2 without quotes for a number, "2%" for a share'),
        ("80.5%", 'write "80%"'),
        ("80 %", 'write "80%"'),
        ("080%", 'write "80%"'),
        ("0%", 'write "1%"'),
        ("101%", 'write "100%"'),
        ("-5%", 'write a number such as 12, or a share such as "80%"'),
        ("most", 'write a number such as 12, or a share such as "80%"'),
        ("", 'write a number such as 12, or a share such as "80%"'),
        ("8" * 400 + "%", 'write a number such as 12, or a share such as "80%"'),
        ("٨٠%", 'write a number such as 12, or a share such as "80%"'),
    ],
)
def test_what_is_neither_a_number_nor_a_share_is_refused_with_what_was_meant(value: Any, fix: str):
    [error] = ENGINE.findings_about_new(shared(value), defaults=False).errors
    assert (str(error.path), error.detail, error.fix) == (MIN, FORM, fix)


@pytest.mark.parametrize(
    ("value", "share"),
    [(0.8, ': "80%"'), (0.001, ': "1%"'), (2.5, ""), (-0.5, ""), (True, ""), (["80%"], ""), ({}, "")],
)
def test_what_is_neither_number_nor_text_is_left_to_the_schema(value: Any, share: str):
    [error] = ENGINE.findings_about_new(shared(value), defaults=False).errors
    assert (str(error.path), error.rule.id) == (MIN, "schema-type")
    assert error.fix == f"write a whole number or a text{share}"


SMALL = (rjob("a", replicas=2, parallelism=3, completions=4), rjob("b"), rjob("c", replicas=0))
TOO_MANY = "never met: {} that the success policy counts: {}"


@pytest.mark.parametrize(
    ("minimum", "policy", "total"),
    [
        (3, {}, None),
        (4, {}, (3, "Jobs")),
        (2, {"targetReplicatedJobs": ["a"]}, None),
        (2, {"targetReplicatedJobs": ["a", "c"]}, None),
        (3, {"targetReplicatedJobs": ["a"]}, (2, "Jobs")),
        (9, {"unit": "Pod"}, None),
        (10, {"unit": "Pod"}, (9, "pods")),
        (9, {"unit": "Pod", "targetReplicatedJobs": ["a", "a"]}, (8, "pods")),
        ("100%", {"unit": "Pod"}, None),
    ],
)
def test_more_than_there_are_is_refused(minimum: Any, policy: JSON, total: tuple[int, str] | None):
    found = ENGINE.findings_about_new(shared(minimum, *SMALL, **policy), defaults=False).errors
    expected = [] if total is None else [(MIN, TOO_MANY.format(total[1], total[0]))]
    assert [(str(error.path), error.detail) for error in found] == expected
    assert all(f"write at most {total and total[0]}," in error.fix for error in found)


def test_of_nothing_nothing_is_asked():
    found = ENGINE.findings_about_new(shared(3, rjob(replicas=0)), defaults=False)
    assert found.errors == ()
    assert [warning.rule.id for warning in found.warnings] == ["no-jobs"]


def test_with_unknown_targets_only_those_are_named():
    found = ENGINE.findings_about_new(shared(99, targetReplicatedJobs=["x"]), defaults=False).errors
    assert [error.rule.id for error in found] == ["success-policy-target"]


def open_ended(name: str) -> JSON:
    return rjob(name, parallelism=3, completions=None, job={"completionMode": "NonIndexed"})


@pytest.mark.parametrize("minimum", [1, "50%"])
def test_pods_can_be_counted_only_where_their_number_is_known(minimum: Any):
    js = shared(minimum, open_ended("a"), rjob("b"), open_ended("c"), unit="Pod")
    found = ENGINE.findings_about_new(js, defaults=False).errors
    assert [(str(error.path), error.detail) for error in found] == [
        (PODS.format(i), f"unit Pod counts pods that have succeeded, and nobody knows how many one Job of {n} has")
        for i, n in ((0, "a"), (2, "c"))
    ]
    assert ENGINE.findings_about_new(shared(minimum, open_ended("a"), rjob("b")), defaults=False).errors == ()
    only_b = shared(1, open_ended("a"), rjob("b"), unit="Pod", targetReplicatedJobs=["b"])
    assert ENGINE.findings_about_new(only_b, defaults=False).errors == ()
    one_pod = rjob("a", parallelism=None, completions=None, job={"completionMode": "NonIndexed"})
    assert ENGINE.findings_about_new(shared(1, one_pod, unit="Pod"), defaults=False).errors == ()


IDLE = rjob("i", replicas=3, parallelism=0)
WARNED: dict[str, tuple[JSON, list[tuple[str, str]]]] = {
    "a unit of nothing": (
        stored(jobset(successPolicy={"operator": "All", "unit": "Pod"})),
        [("spec.successPolicy.unit", "no effect without minSucceeded")],
    ),
    "enough without those that run no pods": (shared(7, rjob("a", replicas=7), IDLE), []),
    "not enough without them": (
        shared(8, rjob("a", replicas=7), IDLE),
        [("spec.replicatedJobs[1].template.spec.parallelism", "the set never completes: no pod may run")],
    ),
    "a share without them": (shared("70%", rjob("a", replicas=7), IDLE), []),
    "not the share": (
        shared("71%", rjob("a", replicas=7), IDLE),
        [("spec.replicatedJobs[1].template.spec.parallelism", "the set never completes: no pod may run")],
    ),
}


@pytest.mark.parametrize("case", WARNED)
def test_warned(case: str):
    js, expected = WARNED[case]
    found = ENGINE.findings_about_new(js, defaults=False)
    assert found.errors == ()
    assert [(str(warning.path), warning.detail) for warning in found.warnings] == expected
    assert all(len(text) <= MAX_WARNING_LENGTH for text in warning_texts(found.warnings))


@pytest.mark.parametrize("policy", [{}, {"minSucceeded": None}, {"unit": "Pod"}, {"targetReplicatedJobs": ["workers"]}])
def test_where_there_is_no_share_it_does_not(policy: JSON):
    found = ENGINE.findings_about_new(jobset(successPolicy=policy))
    assert [(str(error.path), error.rule.id) for error in found.errors] == [
        ("spec.successPolicy.operator", "schema-required")
    ]


def test_the_operator_of_a_stored_object_is_filled_in_again():
    old = shared(3)
    assert errors(old, changed(old, "successPolicy", to={"minSucceeded": 3})) == []


@pytest.mark.parametrize(
    ("field", "value"), [("minSucceeded", 4), ("minSucceeded", "30%"), ("unit", "Job"), ("operator", "Any")]
)
def test_when_a_set_is_done_never_changes(field: str, value: Any):
    old = shared(3, unit="Pod")
    assert errors(old, changed(old, "successPolicy", field, to=value)) == [
        f"spec.successPolicy.{field}: Value is immutable"
    ]


BELOW = "minSucceeded is {}, and the targets of the success policy would have {} {}"


def scaled(js: JSON, *replicas: int) -> JSON:
    for i, number in enumerate(replicas):
        js = changed(js, "replicatedJobs", i, "replicas", to=number)
    return js


def test_pods_do_not_shrink_below_it_either():
    def resized(js: JSON, pods: int) -> JSON:
        return changed(changed(js, *JOB, "parallelism", to=pods), *JOB, "completions", to=pods)

    old = shared(6, rjob("a", replicas=2, parallelism=4, completions=4), unit="Pod")
    assert errors(old, resized(old, 3), ELASTIC) == []
    assert errors(old, resized(old, 2), ELASTIC) == [f"{PODS.format(0)}: {BELOW.format(6, 4, 'pods')}"]
    assert errors(old, scaled(resized(old, 2), 3), ELASTIC) == []
    assert errors(old, scaled(old, 1), ELASTIC) == [f"{JOBS.format(0)}: {BELOW.format(6, 4, 'pods')}"]
    jobs = shared(2, rjob("a", replicas=2, parallelism=4, completions=4))
    assert errors(jobs, resized(jobs, 1), ELASTIC) == []
    assert errors(jobs, scaled(resized(jobs, 1), 1), ELASTIC) == [f"{JOBS.format(0)}: {BELOW.format(2, 1, 'Jobs')}"]


def test_what_was_too_few_before_may_grow():
    old = shared(9, rjob("a", replicas=4), rjob("b", replicas=2))
    assert errors(old, scaled(old, 5, 2), ELASTIC) == []
    assert errors(old, scaled(old, 5, 1), ELASTIC) == [f"{JOBS.format(1)}: {BELOW.format(9, 6, 'Jobs')}"]


@pytest.mark.parametrize("value", ["80", 0, 99])
def test_what_was_stored_before_may_stay_as_it_is(value: Any):
    old = shared(value)
    assert errors(old, changed(old, "suspend", to=True)) == []
    assert errors(old, {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}) == []
