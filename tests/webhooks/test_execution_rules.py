"""Stages (spec.executionPolicy): what they exclude, what they wait for, and which of them never start."""

from typing import Any

import pytest

from api.execution import NOT_FAILED
from api.features import FeatureGates
from api.jobset import STAGES_OR_DEPENDS_ON, STAGES_OR_STARTUP
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.updates import changed, errors
from webhooks.jobset.answers import MAX_WARNING_LENGTH, warning_texts

ENGINE = engine(FeatureGates({"AllAlpha": True}))
ORDER = "spec.executionPolicy.executionPolicyOrder"
STATE = "spec.executionPolicy.replicatedJobsStatus"
SEQUENTIAL = "spec.executionPolicy.sequentialReplicatedJobs"
JOB = "spec.replicatedJobs[{}].template.spec"
IN_ORDER = {"startupPolicyOrder": "InOrder"}
WAITING = rjob("b", dependsOn=[{"name": "a", "status": "Ready"}])


def staged(*rjobs: JSON, **spec: Any) -> JSON:
    """Two ReplicatedJobs, or those given, in order; `policy` is laid over the executionPolicy."""
    policy = {"executionPolicyOrder": "InOrder", **spec.pop("policy", {})}
    return stored(jobset(*(rjobs or (rjob("a"), rjob("b"))), executionPolicy=policy, **spec))


REFUSED: dict[str, tuple[JSON, list[tuple[str, str]]]] = {
    "dependsOn of nobody": (staged(rjob("a"), rjob("b", dependsOn=[])), [(ORDER, STAGES_OR_DEPENDS_ON)]),
    "all three": (
        staged(rjob("a"), WAITING, startupPolicy=IN_ORDER),
        [
            (ORDER, STAGES_OR_DEPENDS_ON),
            ("spec.replicatedJobs[1].dependsOn", "StartupPolicy and DependsOn APIs are mutually exclusive"),
            ("spec.startupPolicy.startupPolicyOrder", STAGES_OR_STARTUP),
        ],
    ),
    "waiting for nothing": (
        staged(policy={"replicatedJobsStatus": ""}),
        [(STATE, "must be Succeeded, Ready or Active")],
    ),
    "a word that is wrong also where it has no effect": (
        staged(policy={"executionPolicyOrder": "AnyOrder", "replicatedJobsStatus": "Failed"}),
        [(STATE, NOT_FAILED)],
    ),
    "no stage at all": (
        staged(policy={"sequentialReplicatedJobs": 0}),
        [(SEQUENTIAL, "should be greater than or equal to 1")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str):
    js, expected = REFUSED[case]
    found = ENGINE.findings_about_new(js, defaults=False)
    assert [(str(error.path), error.detail) for error in found.errors] == expected
    assert all(error.fix and "{" not in error.fix for error in found.errors)


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_api_server_would_answer_alone_hides_nothing(case: str):
    js = changed(REFUSED[case][0], "managedBy", to="nobody")
    assert ENGINE.may_hide_other_faults(js)
    found = ENGINE.findings_about_new(js, defaults=False)
    assert found.hides_other_faults
    assert "spec.managedBy" in {str(error.path) for error in found.errors}


@pytest.mark.parametrize("value", [[], {}, 1, ["InOrder"]])
@pytest.mark.parametrize("field", ["executionPolicyOrder", "replicatedJobsStatus"])
def test_a_value_that_is_no_string_is_left_to_the_schema(field: str, value: Any):
    js = staged(policy={field: value})
    assert ENGINE.may_hide_other_faults(js)
    assert [error.rule.id for error in ENGINE.findings_about_new(js, defaults=False).errors] == ["schema-type"]


@pytest.mark.parametrize(
    ("word", "fix"),
    [
        ("succeeded", 'did you mean "Succeeded"?'),
        ("Complete", 'did you mean "Succeeded"?'),
        ("Running", 'did you mean "Active"?'),
        ("Readyy", 'did you mean "Ready"?'),
        ("SucceededOrFailed", 'the states are: "Succeeded"'),
        ("Done", 'the states are: "Succeeded", "Ready", "Active"'),
    ],
)
def test_the_value_that_was_meant_is_suggested(word: str, fix: str):
    [error] = ENGINE.findings_about_new(staged(policy={"replicatedJobsStatus": word}), defaults=False).errors
    assert error.fix.startswith(fix)


def test_the_answer_names_the_replicated_job_with_depends_on():
    js = staged(rjob("a"), WAITING, rjob("c"), {**WAITING, "name": "d"})
    [error] = ENGINE.findings_about_new(js, defaults=False).errors
    assert error.fix == "remove executionPolicy, or dependsOn of b, d"


IDLE = rjob("a", parallelism=0)
ONLY_A = {"operator": "All", "targetReplicatedJobs": ["a"]}
B_NEVER = ("spec.replicatedJobs[1]", '"b" never starts: by then the set is Completed')
C_NEVER = ("spec.replicatedJobs[2]", '"c" never starts: by then the set is Completed')
ABC = (rjob("a", replicas=4), rjob("b", replicas=4), rjob("c"))

WARNED: dict[str, tuple[JSON, list[tuple[str, str]]]] = {
    "plain stages": (staged(), []),
    "stages that are ready": (staged(policy={"replicatedJobsStatus": "Ready"}), []),
    "one alone, the rest together": (staged(*ABC, policy={"sequentialReplicatedJobs": 1}), []),
    "all of them alone": (staged(*ABC, policy={"sequentialReplicatedJobs": 3}), []),
    "one ReplicatedJob": (staged(rjob("a")), [(ORDER, "no effect: there is but one ReplicatedJob")]),
    "any order with the default": (
        staged(policy={"executionPolicyOrder": "AnyOrder", "replicatedJobsStatus": "Succeeded"}),
        [],
    ),
    "any order beside dependsOn": (staged(rjob("a"), WAITING, policy={"executionPolicyOrder": "AnyOrder"}), []),
    "it is waited for only until it is ready": (
        staged(IDLE, rjob("b"), policy={"replicatedJobsStatus": "Ready"},
               successPolicy={"operator": "All", "targetReplicatedJobs": ["b"]}),
        [],
    ),
    "it has no Jobs": (staged(rjob("a", replicas=0, parallelism=0), rjob("b")), []),
    "it is the last": (
        staged(rjob("b"), IDLE),
        [(f"{JOB.format(1)}.parallelism", "the set never completes: no pod may run")],
    ),
    "nobody comes after it": (
        staged(IDLE, rjob("b", replicas=0)),
        [(f"{JOB.format(0)}.parallelism", "the set never completes: no pod may run")],
    ),
    "the set is done before, but they need not wait": (
        staged(*ABC, successPolicy=ONLY_A, policy={"replicatedJobsStatus": "Active"}),
        [],
    ),
    "any success is enough": (staged(successPolicy={"operator": "Any"}), [B_NEVER]),
    "a share is reached before the last": (
        staged(*ABC, successPolicy={"operator": "All", "minSucceeded": 8}),
        [C_NEVER],
    ),
    "the share needs the last": (staged(*ABC, successPolicy={"operator": "All", "minSucceeded": 9}), []),
    "a share rounds up": (staged(*ABC, successPolicy={"operator": "All", "minSucceeded": "89%"}), []),
    "and no further": (staged(*ABC, successPolicy={"operator": "All", "minSucceeded": "88%"}), [C_NEVER]),
    "what comes together is not ahead of itself": (
        staged(*ABC, policy={"sequentialReplicatedJobs": 1}, successPolicy={"operator": "All", "minSucceeded": 8}),
        [],
    ),
    "a share of pods": (
        staged(rjob("a", parallelism=3, completions=3), rjob("b", parallelism=1, completions=1),
               successPolicy={"operator": "All", "minSucceeded": "75%", "unit": "Pod"}),
        [B_NEVER],
    ),
    "of depends on, too": (
        stored(jobset(rjob("a", replicas=4), rjob("b", dependsOn=[{"name": "a", "status": "Complete"}]),
                      successPolicy={"operator": "All", "minSucceeded": 4})),
        [("spec.replicatedJobs[1].dependsOn", B_NEVER[1])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WARNED)
def test_warned(case: str):
    js, expected = WARNED[case]
    found = ENGINE.findings_about_new(js, defaults=False)
    assert found.errors == ()
    assert [(str(warning.path), warning.detail) for warning in found.warnings] == expected
    assert all(len(text) <= MAX_WARNING_LENGTH for text in warning_texts(found.warnings))


FULL = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Ready", "sequentialReplicatedJobs": 1}


@pytest.mark.parametrize(
    ("field", "value"),
    [("executionPolicyOrder", "AnyOrder"), ("replicatedJobsStatus", "Active"), ("sequentialReplicatedJobs", 2)],
)
def test_the_order_of_stages_never_changes(field: str, value: Any):
    old = staged(policy=FULL)
    new = changed(old, "executionPolicy", field, to=value)
    assert errors(old, new) == [f"spec.executionPolicy.{field}: Value is immutable"]
    assert ENGINE.may_hide_other_faults(new, old)
    assert ENGINE.findings_about_update(old, new).hides_other_faults


def test_it_can_be_neither_added_nor_removed():
    plain = stored(jobset(rjob("a"), rjob("b")))
    old = changed(plain, "executionPolicy", to=FULL)
    assert errors(old, plain) == errors(plain, old) == ["spec.executionPolicy: field is immutable"]


@pytest.mark.parametrize("case", REFUSED)
def test_what_was_stored_before_may_stay_as_it_is(case: str):
    old = REFUSED[case][0]
    labelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert errors(old, labelled) == []
    assert errors(old, changed(labelled, "suspend", to=True)) == []
