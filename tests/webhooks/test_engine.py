"""One answer for everything: mistakes of any layer, in any company, are each named with their place."""

import copy
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.features import FeatureGates
from app.engine import engine
from kube.model.jsontree import dig, set_in
from tests.support.corpus.mutations import mutated, training
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from webhooks.jobset.default import with_defaults
from webhooks.jobset.engine import MAX_FINDINGS

ENGINE = engine(FeatureGates())
GOOD = stored(
    jobset(
        rjob("driver"),
        rjob("workers", dependsOn=[{"name": "driver", "status": "Ready"}]),
        rjob("readers"),
        network={"subdomain": "net"},
        coordinator={"replicatedJob": "driver"},
        successPolicy={"operator": "All", "targetReplicatedJobs": ["driver"]},
        failurePolicy={"rules": [{"action": "FailJobSet", "targetReplicatedJobs": ["driver"]}]},
    )
)
JOB = ("spec", "replicatedJobs", 2, "template", "spec")
MISTAKES: dict[str, tuple[tuple[str | int, ...], Any]] = {
    "schema: type": (("spec", "ttlSecondsAfterFinished"), "soon"),
    "schema: enum": (("spec", "failurePolicy", "restartStrategy"), "Sometimes"),
    "schema: minimum": (("spec", "replicatedJobs", 0, "replicas"), -1),
    "schema: quantity": ((*JOB, "template", "spec", "containers", 0, "resources"), {"limits": {"cpu": "much"}}),
    "schema: required": (("spec", "replicatedJobs", 1, "template"), None),
    "schema: type of a count": ((*JOB, "parallelism"), "1"),
    "CEL": (("spec", "startupPolicy", "startupPolicyOrder"), "InOrder"),
    "CEL of stages": (("spec", "executionPolicy"), {"replicatedJobsStatus": "Failed"}),
    "exit codes": (("spec", "replicatedJobs", 2, "exitCodePolicy"), {}),
    "share": (("spec", "successPolicy", "minSucceeded"), "0%"),
    "subdomain": (("spec", "network", "subdomain"), "My_Net"),
    "managedBy": (("spec", "managedBy"), "nobody"),
    "group name": (("spec", "replicatedJobs", 2, "groupName"), "No Group"),
    "dependsOn": (("spec", "replicatedJobs", 1, "dependsOn", 0, "name"), "workers"),
    "success policy": (("spec", "successPolicy", "targetReplicatedJobs", 0), "nobody"),
    "target of a failure rule": (("spec", "failurePolicy", "rules", 0, "targetReplicatedJobs", 0), "nobody"),
    "reason of a failure rule": (("spec", "failurePolicy", "rules", 0, "onJobFailureReasons"), ["Boredom"]),
    "coordinator": (("spec", "coordinator", "replicatedJob"), "nobody"),
    "placement": (("metadata", "annotations"), {"alpha.jobset.sigs.k8s.io/exclusive-topology": "a b"}),
}


def places(js: JSON) -> set[tuple[str | int, ...]]:
    return {error.path.parts for error in ENGINE.findings_about_new(js, defaults=False).errors}


def test_the_good_one_is_good():
    assert places(GOOD) == set()


@given(st.sets(st.sampled_from(sorted(MISTAKES)), min_size=1))
def test_mistakes_are_named_in_any_company(names: set[str]):
    js = GOOD
    for name in sorted(names):
        js = set_in(js, *MISTAKES[name])
    alone = set().union(*(places(set_in(GOOD, *MISTAKES[name])) for name in names))
    assert places(js) == alone


@given(st.sets(st.sampled_from(sorted(MISTAKES)), min_size=1), st.sampled_from(["W_1", "w" * 63, "workers"]))
def test_no_answer_says_the_same_twice_about_a_place(names: set[str], rjob_name: str):
    js = set_in(GOOD, ("spec", "replicatedJobs", 2, "name"), rjob_name)
    for name in sorted(names):
        js = set_in(js, *MISTAKES[name])
    for findings in (ENGINE.findings_about_new(js), ENGINE.findings_about_update(GOOD, js)):
        told = [(error.path, error.complaint) for error in (*findings.errors, *findings.warnings)]
        assert len(set(told)) == len(told), told


@pytest.mark.no_cover
@given(mutated(changes=4))
def test_no_object_makes_it_raise_or_end_in_the_middle_of_a_sentence(obj: JSON):
    judge = engine(FeatureGates({"AllAlpha": True}))
    created, updated = judge.findings_about_new(obj), judge.findings_about_update(training(), obj)
    assert created.object
    assert updated.object
    assert not [text for found in (created, updated) for text in map(str, found.errors) if text[-1] in " ;:,"]
    # What hides must be known to: `hides` without `may_hide_other_faults` would let the schema answer alone.
    assert judge.may_hide_other_faults(with_defaults(obj)[0]) or not judge.findings_about_new(obj).hides_other_faults
    assert (
        judge.may_hide_other_faults(with_defaults(obj, training())[0], training())
        or not judge.findings_about_update(training(), obj).hides_other_faults
    )


@pytest.mark.parametrize("name", [name for name in MISTAKES if name.startswith(("schema", "CEL"))])
def test_what_the_api_server_would_answer_alone_is_known_to_hide_the_rest(name: str):
    js = set_in(GOOD, *MISTAKES[name])
    assert ENGINE.findings_about_new(js, defaults=False).hides_other_faults
    assert ENGINE.may_hide_other_faults(js)


@pytest.mark.parametrize(
    "place",
    [
        ("spec", "network", "subdomain"),
        ("spec", "successPolicy", "operator"),
        ("spec", "failurePolicy", "maxRestarts"),
        ("spec", "replicatedJobs", 1, "dependsOn", 0, "status"),
    ],
)
def test_what_cel_would_refuse_in_a_change_is_known_to_hide_the_rest(place: tuple[str | int, ...]):
    new = set_in(
        GOOD,
        place,
        {"operator": "Any", "status": "Complete"}.get(str(place[-1]), 7 if "max" in str(place[-1]) else "x"),
    )
    assert ENGINE.findings_about_update(GOOD, new).hides_other_faults
    assert ENGINE.may_hide_other_faults(new, GOOD)
    assert not ENGINE.may_hide_other_faults(GOOD, GOOD)


def test_what_is_missing_in_the_stored_object_is_missed_where_its_place_is_changed():
    container = (*JOB, "template", "spec", "containers", 0)
    old = copy.deepcopy(GOOD)
    del dig(old, *container)["name"]
    assert ENGINE.findings_about_update(old, set_in(old, ("spec", "suspend"), True)).errors == ()
    errors = ENGINE.findings_about_update(old, set_in(old, (*container, "image"), "other")).errors
    assert (*container, "name") in {error.path.parts for error in errors}


def many(count: int, make: Callable[[int], JSON], **spec: Any) -> JSON:
    return stored(jobset(*(make(i) for i in range(count)), **spec))


FLOODS: dict[str, Callable[[], JSON]] = {
    "ReplicatedJobs": lambda: many(5_000, lambda i: rjob(f"r{i}")),
    "ReplicatedJobs of wrong names": lambda: many(5_000, lambda i: rjob(f"R{i}")),
    "dependencies": lambda: many(
        5_000, lambda i: rjob(f"r{i}", dependsOn=[{"name": f"r{j}", "status": "Complete"} for j in range(max(0, i - 5), i)] or None)
    ),
    "dependencies on nobody": lambda: many(
        2_000, lambda i: rjob(f"r{i}", dependsOn=[{"name": f"x{i}", "status": "Complete"}])
    ),
    "rules": lambda: many(
        1,
        lambda _: rjob(),
        failurePolicy={"rules": [{"name": f"r{i}", "action": "FailJobSet", "onJobFailureMessagePatterns": [f"{i}("]} for i in range(5_000)]},
    ),
    "stages": lambda: many(5_000, lambda i: rjob(f"r{i}"), executionPolicy={"executionPolicyOrder": "InOrder"}),
    "stages and a share of them": lambda: many(
        250,
        lambda i: rjob(f"r{i}"),
        executionPolicy={"executionPolicyOrder": "InOrder"},
        successPolicy={"operator": "All", "minSucceeded": 249, "targetReplicatedJobs": [f"r{i % 250}" for i in range(20_000)]},
    ),
    "exit codes": lambda: many(
        2_000,
        lambda i: rjob(f"r{i}", exitCodePolicy={"permanent": list(range(1, 200)), "retryable": list(range(1, 200))}),
    ),
    "rules of exit codes": lambda: many(
        500,
        lambda i: rjob(f"r{i}", pod={"restartPolicy": "Never"}),
        failurePolicy={
            "rules": [
                {"name": f"r{i}", "action": "FailJobSet", "onExitCodes": {"operator": "In", "values": [i + 1], "containerName": "x"}}
                for i in range(2_000)
            ]
        },
    ),
    "targets": lambda: many(
        500, lambda i: rjob(f"r{i}"), successPolicy={"operator": "All", "targetReplicatedJobs": [f"x{i}" for i in range(20_000)]}
    ),
    "claims": lambda: many(
        1_000,
        lambda i: rjob(f"r{i}", pod={"volumes": [{"name": f"c{j}"} for j in range(20)]}),
        volumeClaimPolicies=[
            {"templates": [{"metadata": {"name": f"c{p}-{t}"}} for t in range(50)]} for p in range(50)
        ],
    ),
}  # fmt: skip


@pytest.mark.no_cover
@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_is_answered_in_bounds(flood: str):
    js = FLOODS[flood]()
    begun = time.process_time()
    findings = ENGINE.findings_about_new(js, defaults=False)
    spent = time.process_time() - begun
    assert len(findings.errors) <= 2 * MAX_FINDINGS
    assert len(findings.warnings) <= MAX_FINDINGS
    # No benchmark: what is quadratic would take minutes.
    assert spent < 10


def test_many_warnings_hide_no_error():
    jobs_of_others = many(MAX_FINDINGS + 1, lambda i: rjob(f"r{i}", job={"managedBy": "acme.io/jobs"}))
    js = set_in(jobs_of_others, ("spec", "coordinator"), {"replicatedJob": "absent"})
    findings = ENGINE.findings_about_new(js, defaults=False)
    assert len(findings.warnings) == MAX_FINDINGS
    assert [error.path.parts for error in findings.errors] == [("spec", "coordinator", "replicatedJob")]
